package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/yaml"
	"github.com/lingserve/lingserve/ling"
)

func names(r *Registry) (out []string) {
	for _, w := range r.All() {
		out = append(out, w.Info().Name)
	}
	return out
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// DW-08: of files whose workflows have the same name, none is in the registry.
func TestAFolderIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "one.yaml", "name: first\nbots: {a: {prompt: {file: prompts/a.md}}}")
	write(t, dir, "two.json", `{"bots": {"a": {}}}`)
	write(t, dir, "three.yml", "bots: {a: {}}")
	write(t, dir, "broken.yaml", "bots: {a: {promt: x}}")
	write(t, dir, "other.yaml", "name: first\nbots: {a: {}}")
	write(t, dir, ".hidden.yaml", "]")
	write(t, dir, "notes.txt", "]")
	write(t, dir, "prompts/a.md", "Hello {{ input.name }}")
	r, err := Open(dir)
	if diff := cmp.Diff([]string{"three", "two"}, names(r)); diff != "" {
		t.Error(diff)
	}
	want := []string{
		dir + `/broken.yaml:1:12: unknown field "promt", did you mean "prompt"? expected on, when, model, options, prompt, history, message, root, format, schema, on_invalid, quiet, concurrency, max and filter`,
		dir + `/other.yaml:1:1: the name "first" is already used by one.yaml; choose another name`,
	}
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"first", "broken"} {
		if _, ok := r.Get(name); ok {
			t.Errorf("%s is found", name)
		}
	}
}

func TestNoFolderAndAMissingFolder(t *testing.T) {
	r, err := Open("")
	if err != nil || len(r.All()) != 0 {
		t.Errorf("no folder: %v, %v", r.All(), err)
	}
	r, err = Open(filepath.Join(t.TempDir(), "nope"))
	if err == nil || !strings.HasSuffix(err.Error(), "nope: cannot open the workflow folder: no such file or directory") {
		t.Errorf("got %v", err)
	}
	r.Register(Func("go", "", nil, nil))
	if diff := cmp.Diff([]string{"go"}, names(r)); diff != "" {
		t.Error(diff)
	}
	var zero Registry
	zero.Register(Func("go", "", nil, nil))
	if err := zero.Reload(); err != nil || len(zero.All()) != 1 {
		t.Errorf("the zero value: %v, %v", zero.All(), err)
	}
}

// BO-03: a workflow's files are read inside of its folder only.
func TestFilesOutsideTheFolderAreNotRead(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret.md", "SECRET {{ nope }}")
	write(t, outside, "whole.yaml", "name: whole\nbots: {a: {}}")
	dir := t.TempDir()
	for link, target := range map[string]string{
		"link.md":    filepath.Join(outside, "secret.md"),
		"up.md":      "../" + filepath.Base(outside) + "/secret.md",
		"dir":        outside,
		"whole.yaml": filepath.Join(outside, "whole.yaml"),
		"inside.md":  "real.md",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "real.md", "real")
	for name, want := range map[string]string{
		"link.md":                               "cannot read",
		"up.md":                                 "cannot read",
		"dir/secret.md":                         "cannot read",
		"pipe.md":                               "it is not a regular file",
		"..":                                    "expected a path inside",
		"../x":                                  "expected a path inside",
		"a/../../x":                             "expected a path inside",
		`"%2e%2e/x"`:                            "folder has no file",
		"\"a\\0b\"":                             "expected a path inside",
		outside + "/secret.md":                  "expected a path inside",
		strings.Repeat("n", 300):                "cannot read",
		"inside.md":                             "",
		"real.md":                               "",
		"./real.md":                             "expected a path inside",
		"prompts":                               "folder has no file",
		`"\\..\\x"`:                             "expected a path inside",
		`"C:\\secret"`:                          "expected a path inside",
		"file:///etc/passwd":                    "expected a path inside",
		strings.Repeat("../", 20) + "etc/hosts": "expected a path inside",
	} {
		write(t, dir, "w.yaml", "bots: {a: {prompt: {file: "+name+"}}}")
		_, err := Open(dir)
		var got string
		for _, line := range lines(err) {
			if strings.Contains(line, "/w.yaml:") {
				got = line
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, expected %q", name, got, want)
		}
		if strings.Contains(got, "SECRET") || strings.Contains(got, "nope") {
			t.Errorf("%q: the error shows what is outside: %s", name, got)
		}
		if !strings.Contains(err.Error(), "whole.yaml: cannot read the file: path escapes") {
			t.Errorf("a link to a workflow outside was followed: %v", err)
		}
	}
}

// A file without an end would fill the memory, so no more is read of any than what says that it is too large.
func TestALargeFileIsNotReadToItsEnd(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w.yaml", strings.Repeat("#", 4*yaml.MaxBytes))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the file has %d bytes", yaml.MaxBytes+1)) {
		t.Error(err)
	}
}

// FL-03: a reload puts all in force at once; a broken file keeps its old workflow and is reported.
func TestReload(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml": {Data: []byte("description: old\nbots: {a: {}}")},
		"b.yaml": {Data: []byte("bots: {a: {}}")},
	}
	r, err := OpenFS("flows", files)
	if err != nil {
		t.Fatal(err)
	}
	r.Register(Func("code", "", json.RawMessage(`{"type":"object"}`), func(context.Context, *ling.Manager, map[string]any) error { return nil }))
	kept, _ := r.Get("a")

	files["a.yaml"] = &fstest.MapFile{Data: []byte("bots: [")}
	files["c.yaml"] = &fstest.MapFile{Data: []byte("bots: {a: {}}")}
	delete(files, "b.yaml")
	err = r.Reload()
	if got := lines(err); len(got) != 1 || !strings.HasPrefix(got[0], "flows/a.yaml:1:8: invalid YAML: ") {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"a", "c", "code"}, names(r)); diff != "" {
		t.Error(diff)
	}
	if w, _ := r.Get("a"); w != kept {
		t.Error("the broken file did not keep its old workflow")
	}

	files["a.yaml"] = &fstest.MapFile{Data: []byte("description: new\nbots: {a: {}}")}
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	w, _ := r.Get("a")
	if got := w.Info().Description; got != "new" {
		t.Errorf("got %q", got)
	}
	if got := kept.Info().Description; got != "old" {
		t.Errorf("who has the old one sees %q", got)
	}
	delete(files, "a.yaml")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "code"}, names(r)); diff != "" {
		t.Error(diff)
	}
}

// DW-08: a new file does not take the name of another's workflow that is in force.
func TestANameStaysWithTheFileThatHadIt(t *testing.T) {
	files := fstest.MapFS{"b.yaml": {Data: []byte("description: old\nbots: {a: {}}")}}
	r, err := OpenFS("flows", files)
	if err != nil {
		t.Fatal(err)
	}
	files["a.yaml"] = &fstest.MapFile{Data: []byte("name: b\nbots: {a: {}}")}
	files["b.yaml"] = &fstest.MapFile{Data: []byte("description: new\nbots: {a: {}}")}
	if diff := cmp.Diff([]string{`flows/b.yaml:1:1: the name "b" is already used by a.yaml; choose another name`}, lines(r.Reload())); diff != "" {
		t.Error(diff)
	}
	if w, _ := r.Get("b"); w == nil || w.Info().Description != "new" {
		t.Errorf("got %v", w)
	}
}

// DW-15
func TestADefaultGivesWayToAFile(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: []byte("description: file\nbots: {a: {}}")}}
	r, err := OpenFS("flows", files)
	if err != nil {
		t.Fatal(err)
	}
	r.RegisterDefault(Func("a", "default", nil, nil))
	r.RegisterDefault(Func("b", "default", nil, nil))
	expect := func(a string) {
		t.Helper()
		if diff := cmp.Diff([]string{"a", "b"}, names(r)); diff != "" {
			t.Error(diff)
		}
		if w, _ := r.Get("a"); w == nil || w.Info().Description != a {
			t.Errorf("a is %v", w)
		}
	}
	expect("file")
	delete(files, "a.yaml")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("default")
}

func TestWhatIsRegisteredGoesBeforeAFile(t *testing.T) {
	r, err := OpenFS("flows", fstest.MapFS{"a.yaml": {Data: []byte("bots: {a: {}}")}})
	if err != nil {
		t.Fatal(err)
	}
	r.Register(Func("a", "code", nil, nil))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if w, _ := r.Get("a"); w.Info().Description != "code" {
		t.Error("the file took the place of what was registered")
	}
}

// FL-03: --watch.
func TestWatchReloadsWhatChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "bots: {a: {prompt: {file: p.md}}}")
	write(t, dir, "p.md", "old")
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var reports [][]string
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Watch(ctx, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, lines(err))
			})
		}()
		expect := func(what string, want ...[]string) {
			t.Helper()
			time.Sleep(2*watchInterval + time.Millisecond)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, reports); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			reports = nil
		}
		expect("nothing has changed")
		write(t, dir, "p.md", "new text {{ nope }}")
		expect("a prompt is broken", []string{dir + `/p.md:1:13: unknown variable "nope"; expected one of input, params and result`})
		write(t, dir, "p.md", "good again")
		expect("a prompt is well", nil)
		write(t, dir, "b.yaml", "bots: {a: {}}")
		expect("a file is new", nil)
		if diff := cmp.Diff([]string{"a", "b"}, names(r)); diff != "" {
			t.Error(diff)
		}
		if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		expect("a file is gone", nil)
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		expect("the folder is gone, which is said once", []string{dir + ": cannot open the workflow folder: no such file or directory"})
		if diff := cmp.Diff([]string{"b"}, names(r)); diff != "" {
			t.Error(diff)
		}
		if err := os.Rename(dir+"-away", dir); err != nil {
			t.Fatal(err)
		}
		expect("the folder is back", nil)
		cancel()
		<-done
	})
}

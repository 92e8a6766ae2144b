package fs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tool"
)

// at is a workspace with files, and a secret beside it.
func at(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "work")
	for name, text := range map[string]string{
		"work/a.txt": "hello", "work/sub/b.md": "天气很好", "work/empty": "", "work/binary": "a\x00b", "work/latin": "caf\xe9 au lait",
		"work/sub/deep/c": "c", "secret": "the secret",
	} {
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"inside": "sub/b.md", "folder": "sub", "out": "../secret", "away": "/etc", "up": "..", "absolute": filepath.Join(dir, "a.txt"),
		"loop": "loop", "hop": "sub/../../secret", "nowhere": "gone",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("there are no links here")
		}
	}
	return dir
}

func call(t testing.TB, dir, name, arguments string) string {
	t.Helper()
	tools, err := Tools(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range (&tool.Runner{}).Run(t.Context(), tools, []tool.Call{{ID: "1", Name: name, Arguments: json.RawMessage(arguments)}}) {
		if r.Err != nil {
			return r.Err.Kind + ": " + r.Err.Message
		}
		return r.Text()
	}
	panic("a call without a result")
}

func TestReadStaysBelowTheWorkspace(t *testing.T) { // AG-62
	dir := at(t)
	for _, row := range []struct{ name, path, want string }{
		{"a file", "a.txt", `{"text":"hello","size":5}`},
		{"a file below", "sub/b.md", `{"text":"天气很好","size":12}`},
		{"an empty file", "empty", `{"text":"","size":0}`},
		{"dots that stay inside", "sub/../a.txt", `{"text":"hello","size":5}`},
		{"an absolute path inside", filepath.Join(dir, "a.txt"), `{"text":"hello","size":5}`},
		{"a link inside", "inside", `{"text":"天气很好","size":12}`},
		{"through a linked folder", "folder/b.md", `{"text":"天气很好","size":12}`},
		{"dots", "../secret", `failed: "../secret" is not in the workspace`},
		{"more dots", "sub/../../secret", `failed: "sub/../../secret" is not in the workspace`},
		{"an absolute path", "/etc/passwd", `failed: "/etc/passwd" is not in the workspace`},
		{"a link out", "out", `failed: cannot read "out", or it leads out of the workspace`},
		{"a link to the folder above", "up/secret", `failed: cannot read "up/secret", or it leads out of the workspace`},
		{"a link away", "away/passwd", `failed: cannot read "away/passwd", or it leads out of the workspace`},
		{"a link over dots", "hop", `failed: cannot read "hop", or it leads out of the workspace`},
		{"a link in a circle", "loop", `failed: cannot read "loop", or it leads out of the workspace`},
		{"a link to nothing", "nowhere", `failed: the workspace has no "nowhere"`},
		{"nothing", "gone", `failed: the workspace has no "gone"`},
		{"below a file", "a.txt/b", `failed: cannot read "a.txt/b", or it leads out of the workspace`},
		{"a folder", "sub", `failed: "sub" is a folder; use fs_list`},
		{"the workspace", "", `failed: "" is a folder; use fs_list`},
		{"no text", "binary", `failed: "binary" is not text`},
		{"another encoding", "latin", `failed: "latin" is not text`},
		{"a null", "a\x00b", `invalid_arguments: the path has an invalid character`},
	} {
		t.Run(row.name, func(t *testing.T) {
			arguments, _ := json.Marshal(map[string]string{"path": row.path})
			got := call(t, dir, "fs.read", string(arguments))
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if strings.Contains(got, "the secret") || !strings.Contains(row.path, dir) && strings.Contains(got, dir) {
				t.Errorf("it says too much: %s", got)
			}
		})
	}
}

func TestReadPagesThroughAFile(t *testing.T) { // AG-62
	dir := t.TempDir()
	text := strings.Repeat("天a气🙂\n", 9000)
	if err := os.WriteFile(filepath.Join(dir, "long"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 1, 2, 3, 7, 1000, 65536, 1 << 30} {
		var got strings.Builder
		var offset int64
		for pages := 0; ; pages++ {
			var page readOut
			answer := call(t, dir, "fs.read", fmt.Sprintf(`{"path":"long","offset":%d,"limit":%d}`, offset, limit))
			if err := json.Unmarshal([]byte(answer), &page); err != nil {
				t.Fatal(answer)
			}
			if !utf8.ValidString(page.Text) || len(page.Text) > max(utf8.UTFMax, min(max(limit, usualLimit), maxLimit)) || page.Size != int64(len(text)) {
				t.Fatalf("limit %d: %d bytes of %d", limit, len(page.Text), page.Size)
			}
			got.WriteString(page.Text)
			if page.Next == 0 || pages == 200 {
				break
			}
			offset = page.Next
		}
		if !strings.HasPrefix(text, got.String()) || limit == 0 && got.Len() != len(text) {
			t.Errorf("limit %d: the pages do not make the file", limit)
		}
	}
	for _, arguments := range []string{`{"path":"long","offset":-1}`, `{"path":"long","limit":-1}`, `{"path":"long","offset":99999999}`, `{"path":"long","offset":9223372036854775807}`} {
		if got := call(t, dir, "fs.read", arguments); !strings.HasPrefix(got, "invalid_arguments: ") {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

func TestList(t *testing.T) { // AG-62
	dir := at(t)
	for _, row := range []struct{ name, arguments, want string }{
		{"the workspace", `{}`, `{"entries":[{"name":"a.txt","type":"file","size":5},{"name":"absolute","type":"link"},{"name":"away","type":"link"},` +
			`{"name":"binary","type":"file","size":3},{"name":"empty","type":"file","size":0},{"name":"folder","type":"link"},{"name":"hop","type":"link"},` +
			`{"name":"inside","type":"link"},{"name":"latin","type":"file","size":12},{"name":"loop","type":"link"},{"name":"nowhere","type":"link"},` +
			`{"name":"out","type":"link"},{"name":"sub","type":"folder"},{"name":"up","type":"link"}]}`},
		{"a folder", `{"path":"sub"}`, `{"entries":[{"name":"b.md","type":"file","size":12},{"name":"deep","type":"folder"}]}`},
		{"a linked folder", `{"path":"folder/deep"}`, `{"entries":[{"name":"c","type":"file","size":1}]}`},
		{"after a name", `{"path":"sub","after":"b.md"}`, `{"entries":[{"name":"deep","type":"folder"}]}`},
		{"after the last", `{"path":"sub","after":"z"}`, `{"entries":[]}`},
		{"a file", `{"path":"a.txt"}`, `failed: "a.txt" is not a folder; use fs_read`},
		{"above", `{"path":".."}`, `failed: ".." is not in the workspace`},
		{"a link above", `{"path":"up"}`, `failed: cannot read "up", or it leads out of the workspace`},
		{"a link away", `{"path":"away"}`, `failed: cannot read "away", or it leads out of the workspace`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, call(t, dir, "fs.list", row.arguments)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAListIsBounded(t *testing.T) { // AG-62
	dir := t.TempDir()
	for i := range 2600 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen int
	after := ""
	for {
		var page listOut
		if err := json.Unmarshal([]byte(call(t, dir, "fs.list", `{"after":"`+after+`"}`)), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if want := fmt.Sprintf("f%04d", seen); e.Name != want {
				t.Fatalf("got %s, want %s", e.Name, want)
			}
			seen++
			after = e.Name
		}
		if len(page.Entries) > maxEntries {
			t.Fatalf("%d entries at once", len(page.Entries))
		}
		if !page.More {
			break
		}
	}
	if seen != 2600 {
		t.Errorf("%d were listed", seen)
	}
}

func TestAWorkspaceThatIsNotThere(t *testing.T) { // AG-62
	dir := filepath.Join(t.TempDir(), "later")
	if got := call(t, dir, "fs.list", `{}`); got != "failed: cannot open the workspace" {
		t.Error(got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := call(t, dir, "fs.list", `{}`); got != `{"entries":[]}` {
		t.Error(got)
	}
}

// FuzzPaths: no path gets the secret, which lies beside the workspace.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"a.txt", "../secret", "up/secret", "sub/../../secret", "folder/../../secret", "/", "//", "./././..", "out", "hop", "up/work/out", "..\\secret", "a.txt\x00", "C:\\x", "sub//b.md"} {
		f.Add(s)
	}
	dir := at(f)
	f.Fuzz(func(t *testing.T, path string) {
		arguments, _ := json.Marshal(map[string]string{"path": path})
		for _, name := range []string{"fs.read", "fs.list"} {
			if got := call(t, dir, name, string(arguments)); bytes.Contains([]byte(got), []byte("the secret")) || strings.Contains(got, `"name":"secret"`) {
				t.Fatalf("%s of %q: %s", name, path, got)
			}
		}
	})
}

package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// DO-06: CheckData names each run that cannot be read, and nothing else.
func TestDO_06_CheckDataNamesRunsThatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	whole, bad := anEndedRun(t, NewID(), "text"), anEndedRun(t, NewID(), "text")
	for _, r := range []*Run{whole, bad} {
		if _, err := d.save(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	check := func(wantFiles int, want ...string) {
		t.Helper()
		var got []string
		files, err := CheckData(folder, func(file string, offset int64, _ string) { got = append(got, fmt.Sprint(file, ":", offset)) })
		if err != nil || files != wantFiles || !cmp.Equal(got, want) {
			t.Errorf("CheckData: %d files, %q, %v; expected %d files, %q", files, got, err, wantFiles, want)
		}
	}
	change := func(name string, by func([]byte) []byte) {
		t.Helper()
		path := filepath.Join(folder, filepath.FromSlash(name))
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, by(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check(2)
	change(FileOf(bad.ID), func(text []byte) []byte { return text[:len(text)-5] })
	check(2, FileOf(bad.ID)+":0")

	folder = filepath.Join(folder, "none")
	if _, err := CheckData(folder, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// DO-06: each change of the bytes of an ended run is found, whatever it is.
func TestDO_06_EachDamageOfEndedRunsIsFound(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	run := anEndedRun(t, NewID(), "some text of a run")
	run.owner = "ada"
	if _, err := d.save(run); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileOf(run.ID)} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(r *rapid.T) {
			damage := vfstest.DrawDamage(r, old)
			if bytes.Equal(damage.Text, old) {
				return
			}
			if err := os.WriteFile(path, damage.Text, 0o600); err != nil {
				r.Fatal(err)
			}
			found := 0
			if _, err := CheckData(folder, func(string, int64, string) { found++ }); err != nil {
				r.Fatal(err)
			}
			what := fmt.Sprintf("%s: %s of %d to %d", name, damage.Kind, damage.First, damage.Last)
			if found == 0 {
				r.Fatalf("%s is not found", what)
			}
		})
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

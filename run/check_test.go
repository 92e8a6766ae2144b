package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// DO-06: CheckData names each run and each key that cannot be read, and nothing else: a key that is being
// written is not damage.
func TestDO_06_CheckDataNamesRunsAndKeysThatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	whole, bad := anEndedRun(t, NewID(), "text"), anEndedRun(t, NewID(), "text")
	k := newKeys(time.Hour)
	for i, r := range []*Run{whole, bad} {
		if _, err := d.save(r); err != nil {
			t.Fatal(err)
		}
		if err := d.addKey(k.put("", fmt.Sprint("key-", i), [16]byte{byte(i)}, r.ID), lineage{Subject: Subject{Workflow: "w"}}); err != nil {
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
	check(3)
	change(keysFile, func(text []byte) []byte { return append(text, "0011"...) })
	check(3)
	change(FileOf(bad.ID), func(text []byte) []byte { return text[:len(text)-5] })
	check(3, FileOf(bad.ID)+":0")
	second := 0
	change(keysFile, func(text []byte) []byte {
		second = bytes.IndexByte(text, '\n') + 1
		clear(text[second : second+4])
		return text
	})
	check(3, fmt.Sprint(keysFile, ":", second), FileOf(bad.ID)+":0")

	folder = filepath.Join(folder, "none")
	if _, err := CheckData(folder, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// DO-06: each change of the bytes of an ended run or of a line of keys is found, whatever it is. An end of the file of keys that is cut off
// is what a crash leaves, and so is a run's file without its last line what an earlier version has written: neither loses anything.
func TestDO_06_EachDamageOfEndedRunsAndKeysIsFound(t *testing.T) {
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
	k := newKeys(time.Hour)
	for i := range 5 {
		of := lineage{Owner: "ada", Subject: Subject{Workflow: "w"}}
		if i%2 == 0 {
			of.Subject = Subject{Agent: "a b"}
		}
		if err := d.addKey(k.put("ada", fmt.Sprint("key-", i), [16]byte{byte(i)}, NewID()), of); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileOf(run.ID), keysFile} {
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
			if name == keysFile {
				lines, left := bytes.Count(old, []byte("\n")), bytes.Count(damage.Text, []byte("\n"))
				torn := !bytes.HasSuffix(damage.Text, []byte("\n"))
				if found == 0 && !torn && left == lines {
					r.Fatalf("%s is not found", what)
				}
				return
			}
			last := bytes.LastIndexByte(old[:len(old)-1], '\n') + 1
			if found == 0 && !bytes.HasPrefix(damage.Text, old[:last]) {
				r.Fatalf("%s is not found", what)
			}
		})
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// DO-06: files of an earlier version have no checksums, and are read as they are.
func TestDO_06_EndedRunsAndKeysOfAnEarlierVersionAreRead(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	run := anEndedRun(t, NewID(), "text")
	if _, err := d.save(run); err != nil {
		t.Fatal(err)
	}
	k := newKeys(time.Hour)
	if err := d.addKey(k.put("", "key", [16]byte{}, run.ID), lineage{Subject: Subject{Workflow: "w"}}); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	for name, sum := range map[string]string{FileOf(run.ID): `,"crc":"[0-9a-f]{8}"|crc [0-9a-f]{8}\n`, keysFile: ` [0-9a-f]{8}(\n)`} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		earlier := regexp.MustCompile(sum).ReplaceAll(text, []byte("$1"))
		if len(earlier) == len(text) {
			t.Fatalf("%s has no checksum: %s", name, text)
		}
		if err := os.WriteFile(path, earlier, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = openDisk(folder); err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if r, err := d.load(run.ID, 0); err != nil || r.result.Status != StatusCompleted {
		t.Errorf("the run: %v", err)
	}
	found := newKeys(time.Hour)
	if _, err := d.loadKeys(found, time.Now()); err != nil || len(found.entries) != 1 {
		t.Errorf("%d keys, %v; expected one", len(found.entries), err)
	}
}

package web

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// DO-06: of the files without checksums, CheckData names each run and each key that cannot be read, and nothing else: a key that is being
// written is not damage.
func TestDO_06_CheckDataNamesRunsAndKeysThatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	whole, bad := endedRun(t, newRunID(), "text"), endedRun(t, newRunID(), "text")
	k := newKeys(time.Hour)
	for i, r := range []*run{whole, bad} {
		if _, err := d.save(r); err != nil {
			t.Fatal(err)
		}
		if err := d.addKey(k.put("", fmt.Sprint("key-", i), [16]byte{byte(i)}, r.id), lineage{subject: subject{Workflow: "w"}}); err != nil {
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
	change(fileOf(bad.id), func(text []byte) []byte { return text[:len(text)-5] })
	check(3, fileOf(bad.id)+":0")
	second := 0
	change(keysFile, func(text []byte) []byte {
		second = bytes.IndexByte(text, '\n') + 1
		clear(text[second : second+4])
		return text
	})
	check(3, fmt.Sprint(keysFile, ":", second), fileOf(bad.id)+":0")

	folder = filepath.Join(folder, "none")
	if _, err := CheckData(folder, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

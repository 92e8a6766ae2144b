package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// anEndedRun makes a run that has ended with a document.
func anEndedRun(t testing.TB, id, text string) *Run {
	t.Helper()
	r := &Run{
		ID: id, Of: Subject{Workflow: "w"}, tube: tube.New(id, TubeOptions(0)), Began: time.Now(), done: make(chan struct{}),
		result: Result{
			Status: StatusCompleted, Usage: map[string]adapter.Usage{"b": {TotalTokens: 3}},
			Errors: []ling.ErrorData{{Code: "x", Message: "y"}},
		},
	}
	for _, e := range []tube.Event{
		{Kind: tube.Set, URI: []byte("a"), Value: []byte(`{}`)},
		{Kind: tube.Append, URI: []byte("a/b"), Value: []byte(text)},
		{Kind: tube.Set, URI: []byte("hidden"), Value: []byte("1"), Hidden: true},
	} {
		if _, err := r.tube.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.tube.Close(StatusCompleted); err != nil {
		t.Fatal(err)
	}
	close(r.done)
	return r
}

func TestARunComesBackFromDiskAsItWas(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	r := anEndedRun(t, NewID(), "text")
	if _, err := d.save(r); err != nil {
		t.Fatal(err)
	}
	back, err := d.load(r.ID, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resultText(r), resultText(back)); diff != "" {
		t.Error(diff)
	}
	if back.tube.Len() != r.tube.Len() || back.Of.Workflow != "w" || !back.Ended() {
		t.Errorf("%+v", back)
	}
	// SE-23: nobody else reads it.
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && path != folder && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// SE-20
func TestNoIDReachesAFileOutsideTheFolder(t *testing.T) {
	outside := t.TempDir()
	folder := filepath.Join(outside, "data")
	rs := bareService(Options{}, nil)
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	rs.disk = d
	secret := filepath.Join(outside, "secret.jsonl")
	if err := os.WriteFile(secret, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(folder, FileOf("link"))); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"../../secret", "..", "a/b", "a\x00b", "", strings.Repeat("a", 300), "C:a", "%2e%2e"} {
		if _, err := rs.get(t.Context(), access.Local, id); err != errUnknown {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := d.save(anEndedRun(t, id, "x")); err == nil {
			t.Errorf("%q was written", id)
		}
	}
	if _, err := d.load("link", 1<<20); err == nil {
		t.Error("a link out of the folder was followed")
	}
	files, err := d.list()
	if err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestExpiredIDsAreRememberedUpToABound(t *testing.T) {
	var e expired
	for i := range maxExpired + 100 {
		e.add(fmt.Sprint(i), "ann")
		e.add(fmt.Sprint(i), "ann")
	}
	has := func(id string) bool { owner, ok := e.owner(id); return ok && owner == "ann" }
	if len(e.ids) != maxExpired || has("0") || has("99") || !has("100") || !has(fmt.Sprint(maxExpired+99)) {
		t.Errorf("%d ids", len(e.ids))
	}
}

func TestRunIDsAreLongAndOfFileNameCharacters(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if len(id) != 26 || !ValidID(id) || strings.ToLower(id) != id || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}

// Two servers on one folder would both restore from it and write to it.
func TestAFolderIsForOneServerAtATime(t *testing.T) {
	folder := t.TempDir()
	first, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDisk(folder); !errors.Is(err, errInUse) || !strings.Contains(err.Error(), folder) {
		t.Errorf("a second one: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openDisk(folder)
	if err != nil {
		t.Fatalf("after the first: %v", err)
	}
	second.close()
}

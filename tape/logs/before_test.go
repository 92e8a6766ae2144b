package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// before copies the folder that the version before has written, with lines of the version before that one, damaged lines, batches that were
// cut off, a blob, an import and a fork.
func before(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "before"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

const beforeWorkspace = "/srv/lingserve"

// TA-60 to TA-64: tapes of earlier versions are read and continued.
func TestTapesOfEarlierVersionsAreReadAndContinued(t *testing.T) {
	dir := before(t)
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	want := map[string]tape.Info{
		"web:ann#long": {Entries: 66, LastID: 66, Anchors: 3, Title: "question 0: 天气 <&>", Agent: "helper"},
		"web:ann#copy": {Entries: 8, LastID: 8, Anchors: 1, Title: "question 0: 天气 <&>", Agent: "helper"},
		"imported":     {Entries: 3, LastID: 10, Anchors: 1, Title: "imported"},
		"damaged":      {Entries: 6, LastID: 7, Anchors: 1, Title: "one", Unreadable: 2},
		"torn":         {Entries: 3, LastID: 3, Anchors: 1, Title: "one"},
		"cut":          {Entries: 6, LastID: 6, Anchors: 1, Title: "one"},
		"first":        {Entries: 7, LastID: 7, Anchors: 1, Title: "one"},
		"unindexed":    {Entries: 7, LastID: 7, Anchors: 1, Title: "one"},
	}
	listed := map[string]bool{}
	for in, err := range s.Sessions(t.Context(), tape.SessionQuery{Workspace: beforeWorkspace}) {
		if err != nil {
			t.Fatal(err)
		}
		listed[in.Session] = true
		w, known := want[in.Session]
		if !known || in.Entries != w.Entries || in.LastID != w.LastID || in.Anchors != w.Anchors || in.Title != w.Title || in.Agent != w.Agent || in.Unreadable != w.Unreadable {
			t.Errorf("%s is %+v, want as %+v", in.Session, in, w)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("%d sessions are listed: %v", len(listed), listed)
	}
	for session, w := range want {
		name := tape.Name(beforeWorkspace, session)
		if first := add(t, s, name, "goes on"); first != w.LastID+1 {
			t.Errorf("%s goes on with id %d, want %d", session, first, w.LastID+1)
		}
		if got := texts(t, s, name, tape.Query{}); int64(len(got)) != w.Entries+1 {
			t.Errorf("%s has %q", session, got)
		}
	}
}

// AG-29, TA-41: blobs and forks of earlier versions are read, and erased with their session.
func TestBlobsAndForksOfEarlierVersions(t *testing.T) {
	dir := before(t)
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	name := tape.Name(beforeWorkspace, "web:ann#long")
	handles := 0
	err := filepath.WalkDir(filepath.Join(dir, name+blobsBefore), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		handles++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, size, err := s.ReadBlob(t.Context(), name, e.Name(), 3, 10)
		if want := text[min(3, len(text)):min(13, len(text))]; string(got) != string(want) || size != int64(len(text)) || err != nil {
			t.Errorf("blob %s: %q of %d, %v", e.Name(), got, size, err)
		}
		if len(text) == 0 {
			return nil
		}
		if err := os.WriteFile(path, text[1:], 0o600); err != nil {
			return err
		}
		if _, _, err := s.ReadBlob(t.Context(), name, e.Name(), 0, 1); !errors.Is(err, tape.ErrDamaged) {
			t.Errorf("a blob that was changed: %v", err)
		}
		return nil
	})
	if err != nil || handles != 2 {
		t.Errorf("%d blobs, %v", handles, err)
	}
	if err := s.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for _, left := range files(t, dir) {
		if strings.HasPrefix(left, name) {
			t.Errorf("%s is left", left)
		}
	}
}

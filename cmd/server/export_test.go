package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// AG-52
func TestATapeIsExportedToAFileOfItsOwn(t *testing.T) {
	store := tapetest.NewMemory(nil)
	defer store.Close()
	s, err := tape.Open(t.Context(), store, t.TempDir(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), tape.NewMessage("user", "空")); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := s.Export(t.Context(), &want); err != nil {
		t.Fatal(err)
	}
	h := &host{folder: filepath.Join(t.TempDir(), "exports")}
	for range 2 {
		e, err := h.Export(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(h.folder, e.Name))
		if err != nil || !bytes.Equal(got, want.Bytes()) || e.Bytes != int64(want.Len()) || e.Entries != 2 {
			t.Errorf("%+v %v %s", e, err, got)
		}
	}
	files, err := fs.Glob(os.DirFS(h.folder), "*")
	if err != nil || len(files) != 2 {
		t.Errorf("%v %v", files, err)
	}
	if _, err := new(host).Export(t.Context(), s); err == nil {
		t.Error("exported to nowhere")
	}
}

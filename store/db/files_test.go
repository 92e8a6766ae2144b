package db

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

// MO-25
func files(t *testing.T, open openEmpty) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	db := open(t, func() time.Time { return now })
	files, data := db.Files(), bytes.Repeat([]byte("0123456789abcdef"), 3*blobBytes/16)
	add := func(id, owner string, data []byte) store.File {
		t.Helper()
		f := store.File{ID: id, Owner: owner, Name: "a.txt", Type: "text/plain", Size: int64(len(data)), SHA256: hashOf(data), Created: now, Expires: now.Add(time.Hour)}
		if err := files.Add(t.Context(), f, data); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := add("file_1", "ann", data)
	add("file_2", "ann", []byte("x"))
	add("file_3", "", []byte("y"))
	if got, err := files.Find(t.Context(), "ann", "file_1"); got != f || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, f)
	}
	if got, err := files.Read(t.Context(), f); !bytes.Equal(got, data) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, owner := range []string{"bob", ""} {
		if _, err := files.Find(t.Context(), owner, "file_1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of %q: %v", owner, err)
		}
		if err := files.Remove(t.Context(), owner, "file_1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("removed by %q: %v", owner, err)
		}
	}
	held := func(owner string, wantCount int, wantSize int64) {
		t.Helper()
		if count, size, err := files.Held(t.Context(), owner); count != wantCount || size != wantSize || err != nil {
			t.Errorf("%q has %d files of %d bytes, %v, want %d of %d", owner, count, size, err, wantCount, wantSize)
		}
	}
	held("ann", 2, f.Size+1)
	held("", 1, 1)
	held("bob", 0, 0)
	if err := files.Remove(t.Context(), "ann", "file_1"); err != nil {
		t.Fatal(err)
	}
	held("ann", 1, 1)
	now = now.Add(time.Hour)
	if _, err := files.Find(t.Context(), "", "file_3"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after it has expired: %v", err)
	}
	if err := db.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"files", "blobs", "removals"} {
		if n := countRows(t, db, table); n != 0 {
			t.Errorf("there are %d rows in %s", n, table)
		}
	}
}

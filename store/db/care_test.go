package db

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// ST-08
func TestCheckFindsTapesThatMissEntries(t *testing.T) {
	db := openMemory(t)
	s := db.Tapes(nil)
	for i := range sessionRows + 3 { // more than a page
		create(t, s, fmt.Sprintf("t%03d", i), "one", "two")
	}
	if damages, err := db.Check(t.Context()); len(damages) > 0 || err != nil {
		t.Fatalf("%q, %v", damages, err)
	}
	for _, query := range []string{"DELETE FROM entries WHERE tape = 't000' AND id = 2", "UPDATE sessions SET last_id = 9 WHERE tape = 't202'"} {
		if err := db.Update(t.Context(), func(tx *Tx) { tx.exec(query) }); err != nil {
			t.Fatal(err)
		}
	}
	damages, err := db.Check(t.Context())
	if len(damages) != 2 || err != nil || !strings.Contains(damages[0], "(tape t000) should have 3 entries, the last with id 3; found 2, the last with id 3") ||
		!strings.Contains(damages[1], "(tape t202) should have 3 entries, the last with id 9; found 3, the last with id 3") {
		t.Errorf("%q, %v", damages, err)
	}
}

// ST-10: text that a reader has kept in the WAL is removed later.
func TestSweepWipesWhatAReaderHasKept(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "x.db"), nil)
	s := db.Tapes(nil)
	create(t, s, "a", "canary")
	reader, err := db.readers.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"BEGIN", "SELECT count(*) FROM entries"} {
		if _, err := reader.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Update(t.Context(), func(tx *Tx) { tx.exec("PRAGMA busy_timeout(1)") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a"); !errors.Is(err, tape.ErrAway) {
		t.Errorf("beside a reader: %v, want ErrAway", err)
	}
	if _, err := reader.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "x.db*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("canary")) {
			t.Errorf("%s has the erased text, %v", file, err)
		}
	}
}

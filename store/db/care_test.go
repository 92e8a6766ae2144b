package db

import (
	"fmt"
	"strings"
	"testing"
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
		if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.exec(query); return err }); err != nil {
			t.Fatal(err)
		}
	}
	damages, err := db.Check(t.Context())
	if len(damages) != 2 || err != nil || !strings.Contains(damages[0], "(tape t000) should have 3 entries, the last with id 3; found 2, the last with id 3") ||
		!strings.Contains(damages[1], "(tape t202) should have 3 entries, the last with id 9; found 3, the last with id 3") {
		t.Errorf("%q, %v", damages, err)
	}
}

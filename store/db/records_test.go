package db_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/store/storetest"
)

// place is one database, whose tables one process has.
type place struct{ d *db.DB }

func (p place) Open(t testing.TB) store.Engine {
	e := p.d.Tables()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestRecordsAreTablesLikeOthers(t *testing.T) {
	storetest.Tables(t, storetest.Setup{New: func(t testing.TB) storetest.Place {
		d, err := db.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return place{d}
	}})
}

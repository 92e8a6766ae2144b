package file_test

import (
	"testing"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/store/storetest/file"
)

// folder is a folder whose first engine owns it.
type folder struct {
	dir   vfs.Dir
	owned bool
}

func (f *folder) Open(t testing.TB) store.Engine {
	t.Helper()
	e, err := file.Open(f.dir, file.Options{Beside: f.owned})
	if err != nil {
		t.Fatal(err)
	}
	f.owned = true
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestTables(t *testing.T) {
	storetest.Tables(t, storetest.Setup{
		New:    func(t testing.TB) storetest.Place { return &folder{dir: vfs.At(t.TempDir())} },
		Bubble: true,
	})
}

// Without a data folder, a server keeps its tables in memory.
func TestTablesInMemory(t *testing.T) {
	storetest.Tables(t, storetest.Setup{
		New:    func(t testing.TB) storetest.Place { return &folder{dir: vfs.InMemory()} },
		Bubble: true,
	})
}

package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// logFolder is a folder that is owned by the first engine that is open.
type logFolder struct {
	dir    vfs.Dir
	spaces map[string]file.Layout
}

func (f *logFolder) Open(t testing.TB) store.Engine {
	t.Helper()
	e, err := file.Open(f.dir, file.Options{Spaces: f.spaces})
	if errors.Is(err, store.ErrInUse) {
		e, err = file.Open(f.dir, file.Options{Beside: true, Spaces: f.spaces})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// DamageEntry implements [storetest.Damager].
func (f *logFolder) DamageEntry(t testing.TB, space, name string, n uint64) {
	t.Helper()
	d, err := f.dir.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path := space + ".logs/" + name + ".log"
	text, err := vfs.ReadFile(d, path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, fmt.Append(nil, "entry ", n))
	file, err := d.Open(path, os.O_RDWR)
	if err != nil || at < 0 {
		t.Fatal(err, at)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("X"), int64(at)); err != nil {
		t.Fatal(err)
	}
}

func TestLogs(t *testing.T) {
	storetest.Logs(t, storetest.Setup{
		New:    func(t testing.TB) storetest.Place { return &logFolder{dir: vfs.At(t.TempDir())} },
		Bubble: true,
	})
}

// Without a data folder, a server keeps its logs in memory.
func TestLogsInMemory(t *testing.T) {
	storetest.Logs(t, storetest.Setup{
		New:    func(t testing.TB) storetest.Place { return &logFolder{dir: vfs.InMemory()} },
		Bubble: true,
	})
}

package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// what a key may have: the values that were acknowledged or are in doubt since the last acknowledged one. nil is none.
type may map[string][][]byte

func (m may) sure(key string, value []byte) { m[key] = [][]byte{value} }
func (m may) doubt(key string, value []byte) {
	if m[key] == nil {
		m.sure(key, nil)
	}
	m[key] = append(m[key], value)
}

func (m may) check(t *testing.T, tab store.Table, when string) {
	t.Helper()
	for key, values := range m {
		got, err := tab.Get(t.Context(), key)
		body := got.Body
		if errors.Is(err, store.ErrNotFound) {
			body, err = nil, nil
		}
		if err != nil || !slices.ContainsFunc(values, func(v []byte) bool { return (v == nil) == (body == nil) && bytes.Equal(v, body) }) {
			t.Fatalf("%s: %s has %q, %v, want one of %q", when, key, body, err, values)
		}
	}
}

// work changes a table as well as a failing disk lets it.
func work(t *testing.T, tab store.Table, known may) {
	for i := range 12 {
		key := fmt.Sprint("k", i%4)
		p := store.Put{Key: key, ID: storetest.NewID(), After: store.AnyRev, Body: bytes.Repeat([]byte{byte('a' + i)}, 100*i)}
		if p.Delete = i%5 == 4; p.Delete {
			p.Body = nil
		} else if p.Body == nil {
			p.Body = []byte{}
		}
		var written store.Record // if an attempt that was unsure has written it
		for attempt := range 2 {
			records, errs := tab.Put(t.Context(), p)
			switch err := errs[0]; {
			case err == nil, errors.Is(err, store.ErrNotFound):
				known.sure(key, p.Body)
				if written.Rev > 0 { // ST-05
					storetest.Same(t, records[0], written)
				}
			case errors.Is(err, store.ErrUnsure):
				known.doubt(key, p.Body)
			case !errors.Is(err, store.ErrAway):
				t.Fatalf("put %d: %v", i, err)
			}
			time.Sleep(3 * time.Second) // the table is kept: synced, erased, rewritten
			if attempt > 0 || !errors.Is(errs[0], store.ErrUnsure) {
				break
			}
			if r, err := tab.Get(t.Context(), key); err == nil && p.Body != nil && bytes.Equal(r.Body, p.Body) {
				written = r
			}
		}
	}
}

// TestEveryCallFails has the disk fail at its N-th call for every N, and ends the process, or the machine's power, afterwards (ST-06,
// ST-07, ST-30).
func TestEveryCallFails(t *testing.T) {
	for _, kind := range []vfstest.Kind{vfstest.NotDone, vfstest.Done, vfstest.Full} {
		for _, count := range []int{1, 0} {
			t.Run(fmt.Sprintf("%v, %d times", kind, count), func(t *testing.T) {
				t.Parallel()
				calls := 0
				synctest.Test(t, func(t *testing.T) { calls = failAt(t, vfstest.Fault{}) })
				for n := 1; n <= calls; n++ {
					synctest.Test(t, func(t *testing.T) { calls = max(calls, failAt(t, vfstest.Fault{First: n, Count: count, Kind: kind})) })
				}
				if calls < 50 {
					t.Errorf("%d calls", calls)
				}
			})
		}
	}
}

// failAt returns the number of calls to a disk that fails.
func failAt(t *testing.T, fault vfstest.Fault) int {
	disk := vfstest.New()
	open := func(disk *vfstest.Disk) (*file.Engine, store.Table, error) {
		e, err := file.Open(disk.Dir, file.Options{})
		if err != nil {
			return nil, nil, err
		}
		tab, err := e.Table(t.Context(), store.TableOptions{Name: "t", Durability: store.Synced})
		return e, tab, err
	}
	disk.Fail(fault)
	known := may{}
	e, tab, err := open(disk)
	if err == nil {
		work(t, tab, known)
	}
	calls := disk.Calls()
	disk.Mend()
	for _, power := range []bool{false, true} {
		e, tab, err := open(disk.Crash(power))
		if err != nil {
			t.Fatalf("call %d, power %t: %v", fault.First, power, err)
		}
		known.check(t, tab, fmt.Sprintf("call %d, %s, power %t", fault.First, disk.Hit(), power))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err == nil { // it goes on where the disk is well again
		time.Sleep(5 * time.Second)
		known.check(t, tab, "afterwards")
		p := store.Put{Key: "afterwards", ID: storetest.NewID(), Body: []byte("1")}
		if _, errs := tab.Put(t.Context(), p); errs[0] != nil {
			t.Fatalf("call %d, %s: a put afterwards: %v", fault.First, disk.Hit(), errs[0])
		}
	}
	if e != nil {
		_ = e.Close()
	}
	if open := disk.Open(); len(open) > 0 {
		t.Errorf("call %d, %s: open are %q", fault.First, disk.Hit(), open)
	}
	return calls
}

// TestWhatIsDeletedIsOverwritten looks for deleted and replaced bytes on the disk (ST-24).
func TestWhatIsDeletedIsOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.New()
		e, _ := file.Open(disk.Dir, file.Options{})
		tab, err := e.Table(t.Context(), store.TableOptions{Name: "t"})
		if err != nil {
			t.Fatal(err)
		}
		put := func(p store.Put) {
			t.Helper()
			p.ID, p.After = storetest.NewID(), store.AnyRev
			if _, errs := tab.Put(t.Context(), p); errs[0] != nil {
				t.Fatal(errs[0])
			}
		}
		put(store.Put{Key: "secret-key", Meta: []byte("secret-meta"), Body: []byte("secret-body")})
		put(store.Put{Key: "kept", Meta: []byte("secret-meta"), Body: []byte("kept-body")})
		put(store.Put{Key: "replaced", Body: []byte("secret-body")})
		put(store.Put{Key: "life", Body: []byte("secret-body"), Life: time.Second})
		put(store.Put{Key: "kept", Meta: []byte("kept-meta")})
		put(store.Put{Key: "replaced", Body: []byte("kept-too")})
		put(store.Put{Key: "secret-key", Delete: true})
		time.Sleep(time.Minute)
		text := read(t, disk, "t.table")
		if bytes.Contains(text, []byte("secret")) {
			t.Errorf("%q", text)
		}
		for _, key := range []string{"kept", "replaced"} {
			if got, err := tab.Get(t.Context(), key); err != nil || !bytes.HasPrefix(got.Body, []byte("kept")) {
				t.Errorf("%s: %q, %v", key, got.Body, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOneServerOwnsAFolder is ST-28.
func TestOneServerOwnsAFolder(t *testing.T) {
	dir := vfs.At(t.TempDir())
	e, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Open(dir, file.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = file.Open(dir, file.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, disk *vfstest.Disk, name string) []byte {
	t.Helper()
	d, err := disk.Dir(true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	text, err := vfs.ReadFile(d, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Package ownertest has what the tests of tables with owners need: owners without leases, and a place for each engine.
package ownertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/store/storetest/file"
)

// Alive are owners without leases. They are alive until they are killed.
type Alive struct {
	mu    sync.Mutex
	alive map[string]bool
	lost  map[string]chan struct{}
}

var _ owner.Owners = (*Alive)(nil)

// Begin implements [owner.Owners].
func (a *Alive) Begin(context.Context) (string, <-chan struct{}, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alive == nil {
		a.alive, a.lost = map[string]bool{}, map[string]chan struct{}{}
	}
	name := rand.Text()
	a.alive[name], a.lost[name] = true, make(chan struct{})
	return name, a.lost[name], func() { a.Kill(name) }, nil
}

// Alive implements [owner.Owners].
func (a *Alive) Alive(_ context.Context, name string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.alive[name], nil
}

// Kill ends an owner, which does not notice.
func (a *Alive) Kill(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.alive, name)
}

// Tell tells an owner that it was killed.
func (a *Alive) Tell(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.lost[name])
}

// Network is an engine whose answers a test can lose, and whose changes it can hold back.
type Network struct {
	store.Engine

	mu   sync.Mutex
	put  func(do func() ([]store.Record, []error)) ([]store.Record, []error)
	held chan struct{} // closed when changes are delivered again; nil while they are
}

// Put puts a function between callers and the engine. With nil nothing is between them.
func (n *Network) Put(between func(do func() ([]store.Record, []error)) ([]store.Record, []error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put = between
}

// Hold holds back all changes until release is called.
func (n *Network) Hold() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := make(chan struct{})
	n.held = held
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.held = nil
		close(held)
	}
}

// Lost returns the errors of puts without an answer.
func Lost(puts int, err error) ([]store.Record, []error) {
	errs := make([]error, puts)
	for i := range errs {
		errs[i] = err
	}
	return make([]store.Record, puts), errs
}

// Table implements [store.Engine].
func (n *Network) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	t, err := n.Engine.Table(ctx, o)
	return &distant{t, n}, err
}

// distant is a table behind a network.
type distant struct {
	store.Table
	n *Network
}

func (d *distant) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	d.n.mu.Lock()
	between := d.n.put
	d.n.mu.Unlock()
	do := func() ([]store.Record, []error) { return d.Table.Put(ctx, puts...) }
	if between == nil {
		return do()
	}
	return between(do)
}

func (d *distant) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		for c, err := range d.Table.Watch(ctx, prefix) {
			d.n.mu.Lock()
			held := d.n.held
			d.n.mu.Unlock()
			if held != nil {
				select {
				case <-held:
				case <-ctx.Done():
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Place is where the engines of one test keep their data.
type Place struct {
	Owners owner.Owners // nil: one process at a time
	Apart  bool         // each process has an engine of its own, which ends with it
	Kill   func(owner string)
	Open   func(testing.TB) store.Engine // for another process
}

// places is how many places there were.
var places atomic.Int64

// renamed is an engine whose tables are those of one place.
type renamed struct {
	store.Engine
	place int64
}

func (r renamed) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	o.Name += fmt.Sprint("-", r.place)
	return r.Engine.Table(ctx, o)
}

// Folder returns a place in a folder. When it is opened again, the engine of before is closed.
func Folder(dir vfs.Dir) Place {
	var last store.Engine
	return Place{Kill: func(string) {}, Open: func(t testing.TB) store.Engine {
		t.Helper()
		if last != nil {
			if err := last.Close(); err != nil {
				t.Error(err)
			}
		}
		e, err := file.Open(dir, file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		last = e
		return e
	}}
}

// shared returns a place that processes share.
func shared(open func(testing.TB) store.Engine) Place {
	alive, n := new(Alive), places.Add(1)
	return Place{Owners: alive, Apart: true, Kill: alive.Kill, Open: func(t testing.TB) store.Engine {
		t.Helper()
		e := open(t)
		t.Cleanup(func() { _ = e.Close() })
		return renamed{e, n}
	}}
}

// Main runs the tests of a package, for TestMain.
func Main(m *testing.M) {
	longtest.Parallel(6) // they wait for processes that die, and for servers
	longtest.Run(func() int { return postgrestest.Main(m) })
}

// Postgres returns a place in a database. Without PostgreSQL the test is skipped.
func Postgres(t testing.TB) Place {
	t.Helper()
	url := postgrestest.Shared(t).URL()
	return shared(func(t testing.TB) store.Engine {
		d, err := db.Open(t.Context(), url, &db.Options{Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return process{d.Tables(), d}
	})
}

// process is an engine with its own connections to a database.
type process struct {
	store.Engine
	db *db.DB
}

// Close ends the engine and its connections.
func (p process) Close() error { return errors.Join(p.Engine.Close(), p.db.Close()) }

// InMemory returns a place in memory that processes share.
func InMemory(t testing.TB) Place {
	t.Helper()
	e, err := file.Open(vfs.InMemory(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	alive := new(Alive)
	return Place{Owners: alive, Kill: alive.Kill, Open: func(testing.TB) store.Engine { return e }}
}

// EachShared runs a test on each engine that processes share.
func EachShared(t *testing.T, run func(t *testing.T, p Place)) {
	t.Run("memory", func(t *testing.T) { run(t, InMemory(t)) })
	t.Run("postgres", func(t *testing.T) { run(t, Postgres(t)) })
}

// Each runs a suite on each engine. Each call of place returns an empty place.
func Each(t *testing.T, suite func(t *testing.T, place func(testing.TB) Place)) {
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		suite(t, func(t testing.TB) Place {
			dir, err := os.MkdirTemp(dir, "")
			if err != nil {
				t.Fatal(err)
			}
			return Folder(vfs.At(dir))
		})
	})
	t.Run("memory", func(t *testing.T) { suite(t, func(testing.TB) Place { return Folder(vfs.InMemory()) }) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		suite(t, Postgres)
	})
}

// Package storetest tests an engine against every rule of package store.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/store"
)

// Place is where the engines of one test keep their data.
type Place interface {
	// Open opens an engine, which is closed when the test ends. Each call stands for another process.
	Open(t testing.TB) store.Engine
}

// Setup is an engine that is tested.
type Setup struct {
	New func(t testing.TB) Place
	// Bubble runs each test in a bubble of package synctest: the engine uses no time but the test's.
	Bubble bool
	// NoTrim says that logs cannot be trimmed.
	NoTrim bool
}

// NewID returns an ID for a put.
func NewID() (id [16]byte) {
	rand.Read(id[:])
	return id
}

func table(t testing.TB, e store.Engine, o store.TableOptions) store.Table {
	t.Helper()
	if o.Name == "" {
		o.Name = "things"
	}
	got, err := e.Table(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func put(t testing.TB, tab store.Table, p store.Put) store.Record {
	t.Helper()
	r, err := try(t, tab, p)
	if err != nil {
		t.Fatalf("put %s: %v", p.Key, err)
	}
	return r
}

func try(t testing.TB, tab store.Table, p store.Put) (store.Record, error) {
	t.Helper()
	if p.ID == [16]byte{} {
		p.ID = NewID()
	}
	records, errs := tab.Put(t.Context(), p)
	if len(records) != 1 || len(errs) != 1 {
		t.Fatalf("%d records and %d errors of one put", len(records), len(errs))
	}
	return records[0], errs[0]
}

func get(t testing.TB, tab store.Table, key string) store.Record {
	t.Helper()
	r, err := tab.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return r
}

func absent(t testing.TB, tab store.Table, key string) {
	t.Helper()
	if r, err := tab.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get %s: %+v, %v, want %v", key, r, err, store.ErrNotFound)
	}
}

func keys(t testing.TB, tab store.Table, prefix string) (keys []string) {
	t.Helper()
	for r, err := range tab.Range(t.Context(), prefix, false) {
		if err != nil {
			t.Fatalf("range: %v", err)
		}
		keys = append(keys, r.Key)
	}
	return keys
}

// Tables tests the tables of an engine.
func Tables(t *testing.T, s Setup) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Setup)
	}{
		{"a record is read as it was put", testRecord},
		{"ST-01 names are checked", testNames},
		{"ST-04 one of all writers with one revision wins", testOneWins},
		{"ST-05 a put that is sent again is written once", testAgain},
		{"ST-11 what one process was told, another sees", testSeen},
		{"ST-05 a deletion that is sent again is made once", testDeleteAgain},
		{"ST-19 puts of a call stand or fail by themselves", testBatch},
		{"ST-20 revisions rise in the order of commit", testRevisions},
		{"ST-21 a nil body stays", testNilBody},
		{"ST-21, ST-22 a nil body stays when the life changes", testNilBodyLife},
		{"ST-22 a record is there for its life", testLife},
		{"ST-23 a watcher is told of every key", testWatch},
		{"ST-23 a watcher that begins among changes misses no key", testWatchBusy},
		{"ST-08 a list that is made among changes misses no key", testRangeBusy},
		{"ST-23 watchers are told of deletions and ends of life", testWatchGone},
		{"ST-19 ST-23 many records are written, read and watched", testMany},
		{"ST-25 a table without Oldest is full", testFull},
		{"ST-25 the oldest record goes", testOldest},
		{"a call whose context has ended does nothing", testEnded},
		{"ST-27 a closed engine refuses", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if s.Bubble {
				synctest.Test(t, func(t *testing.T) { test.run(t, s) })
				return
			}
			test.run(t, s)
		})
	}
	t.Run("a table is a map", func(t *testing.T) {
		t.Parallel()
		testModel(t, s)
	})
}

func testRecord(t *testing.T, s Setup) {
	place := s.New(t)
	tab := table(t, place.Open(t), store.TableOptions{})
	absent(t, tab, "a")
	before := time.Now().Add(-time.Minute)
	made := put(t, tab, store.Put{Key: "a", Meta: []byte("m"), Body: []byte("b"), Life: time.Hour})
	if made.Key != "a" || made.Made == 0 || made.Rev == 0 || string(made.Meta) != "m" || made.At.Before(before) {
		t.Errorf("%+v", made)
	}
	if left := time.Until(made.Expires); left < 50*time.Minute || left > time.Hour+2*time.Second {
		t.Errorf("it expires in %v", left)
	}
	for _, read := range []func(context.Context, string) (store.Record, error){tab.Get, tab.Peek} {
		got, err := read(t.Context(), "a")
		if err != nil || string(got.Body) != "b" || string(got.Meta) != "m" || got.Rev != made.Rev || got.Made != made.Made || !got.At.Equal(made.At) {
			t.Errorf("%+v, %v, want %+v", got, err, made)
		}
	}
	changed := put(t, tab, store.Put{Key: "a", After: made.Rev, Body: []byte{}})
	if changed.Rev <= made.Rev || changed.Made != made.Made || len(changed.Meta) != 0 || !changed.Expires.IsZero() {
		t.Errorf("%+v after %+v", changed, made)
	}
	if got := get(t, tab, "a"); len(got.Body) != 0 || len(got.Meta) != 0 {
		t.Errorf("%+v", got)
	}
	removed := put(t, tab, store.Put{Key: "a", After: changed.Rev, Delete: true})
	if removed.Rev != changed.Rev {
		t.Errorf("removed %+v, want %+v", removed, changed)
	}
	absent(t, tab, "a")
	if _, err := try(t, tab, store.Put{Key: "a", After: store.AnyRev, Delete: true}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if anew := put(t, tab, store.Put{Key: "a"}); anew.Made <= changed.Rev {
		t.Errorf("made anew at %d, after %d", anew.Made, changed.Rev)
	}
	for _, meta := range []string{"a: b", " a ", "a\r\nb: c\r\n\r\n", "\x00\xff", "é", "a  \"b\""} {
		put(t, tab, store.Put{Key: "meta", After: store.AnyRev, Meta: []byte(meta)})
		if got := get(t, tab, "meta"); string(got.Meta) != meta {
			t.Errorf("the meta %q is %q", meta, got.Meta)
		}
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	put(t, tab, store.Put{Key: "big", Body: big})
	if got := get(t, tab, "big"); !bytes.Equal(got.Body, big) {
		t.Errorf("%d bytes, want %d", len(got.Body), len(big))
	}
}

func testNames(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	long := strings.Repeat("~", 128)
	valid := []string{"a", "A/b/0/~-_.", strings.Repeat("x", 128), "a..b", strings.Join([]string{long, long, long, long}, "/")}
	for _, key := range valid {
		put(t, tab, store.Put{Key: key, Body: []byte(key)})
		if got := get(t, tab, key); string(got.Body) != key || got.Key != key {
			t.Errorf("%s has %q", key, got.Body)
		}
	}
	slices.Sort(valid)
	if got := keys(t, tab, ""); !slices.Equal(got, valid) {
		t.Errorf("%q, want %q", got, valid)
	}
	for _, key := range []string{"", "/", "a/", "/a", "a//b", ".a", "a/.b", "a/b/c/d/e", strings.Repeat("x", 129), "a b", "é", "a*", "a>", "a\x00"} {
		if _, err := try(t, tab, store.Put{Key: key}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("put %q: %v", key, err)
		}
		if _, err := tab.Get(t.Context(), key); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("get %q: %v", key, err)
		}
	}
	for _, p := range []store.Put{{Key: "k", Meta: make([]byte, store.MaxMeta+1)}, {Key: "k", Body: make([]byte, store.MaxBody+1)}} {
		if _, err := try(t, tab, p); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%d and %d bytes: %v", len(p.Meta), len(p.Body), err)
		}
	}
	if _, errs := tab.Put(t.Context(), store.Put{Key: "k"}); !errors.Is(errs[0], store.ErrInvalid) {
		t.Errorf("without an ID: %v", errs[0])
	}
}

func testOneWins(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	rev := uint64(0)
	for round := range 4 {
		var won, moved atomic.Int64
		var next atomic.Uint64
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				r, err := try(t, []store.Table{a, b}[i%2], store.Put{Key: "k", After: rev, Body: []byte{byte(i)}})
				var m *store.Moved
				switch {
				case err == nil:
					won.Add(1)
					next.Store(r.Rev)
				case errors.As(err, &m) && m.Key == "k" && m.Rev > rev:
					moved.Add(1)
				default:
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		wait.Wait()
		if won.Load() != 1 || moved.Load() != 7 {
			t.Fatalf("round %d: %d have won, %d have moved", round, won.Load(), moved.Load())
		}
		rev = next.Load()
	}
	for _, p := range []store.Put{{Key: "k"}, {Key: "k", After: rev - 1}, {Key: "k", After: rev + 1, Delete: true}, {Key: "other", After: 1}} {
		if _, err := try(t, a, p); !errors.Is(err, store.ErrMoved) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	put(t, a, store.Put{Key: "k", After: store.AnyRev})
	put(t, a, store.Put{Key: "free", After: store.AnyRev})
}

func testAgain(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	var last store.Record
	for _, p := range []store.Put{
		{Meta: []byte("1"), Body: []byte("one"), Life: time.Hour},
		{Meta: []byte("2")},
		{Body: []byte("two"), Life: 2 * time.Hour},
		{After: store.AnyRev},
	} {
		p.Key, p.ID, p.After = "k", NewID(), max(p.After, last.Rev)
		first := put(t, a, p)
		if first.Rev <= last.Rev {
			t.Errorf("%+v behind %+v", first, last)
		}
		for _, tab := range []store.Table{a, b, a} {
			Same(t, put(t, tab, p), first)
		}
		last = first
	}
	p := store.Put{Key: "k", ID: NewID(), After: last.Rev, Body: []byte("3")}
	third := put(t, a, p)
	fourth := put(t, b, store.Put{Key: "k", After: third.Rev, Body: []byte("4")})
	if _, err := try(t, a, p); !errors.Is(err, store.ErrMoved) {
		t.Errorf("behind another: %v", err)
	}
	if got := get(t, a, "k"); got.Rev != fourth.Rev || string(got.Body) != "4" {
		t.Errorf("%+v", got)
	}
}

// Same compares two records without their bodies.
func Same(t testing.TB, got, want store.Record) {
	t.Helper()
	if got.Key != want.Key || got.Made != want.Made || got.Rev != want.Rev || !bytes.Equal(got.Meta, want.Meta) ||
		!got.At.Equal(want.At) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func testDeleteAgain(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	first := store.Put{Key: "k", ID: NewID(), Meta: []byte("m"), Body: []byte("1")}
	was := put(t, a, first)
	remove := store.Put{Key: "k", ID: NewID(), After: was.Rev, Delete: true}
	Same(t, put(t, a, remove), was)
	for _, tab := range []store.Table{a, b, table(t, place.Open(t), store.TableOptions{})} {
		if again := put(t, tab, remove); again.Key != "k" || again.Rev != was.Rev || again.Made != was.Made {
			t.Errorf("%+v, want %+v", again, was)
		}
		absent(t, tab, "k")
		if _, err := try(t, tab, first); !errors.Is(err, store.ErrMoved) {
			t.Errorf("what was deleted, sent again: %v", err)
		}
		absent(t, tab, "k")
	}
	next := put(t, b, store.Put{Key: "k", Body: []byte("2")})
	for _, tab := range []store.Table{a, b} {
		if _, err := try(t, tab, remove); err != nil && !errors.Is(err, store.ErrMoved) {
			t.Errorf("behind another: %v", err)
		}
	}
	if got := get(t, a, "k"); got.Rev != next.Rev || string(got.Body) != "2" {
		t.Errorf("%+v, want %+v", got, next)
	}
}

func testSeen(t *testing.T, s Setup) {
	place := s.New(t)
	tabs := []store.Table{table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})}
	rev := uint64(0)
	for i := range 20 {
		writes, reads := tabs[i%2], tabs[(i+1)%2]
		rev = put(t, writes, store.Put{Key: "k", After: rev, Body: fmt.Append(nil, i)}).Rev
		if got := get(t, reads, "k"); got.Rev != rev || string(got.Body) != fmt.Sprint(i) {
			t.Fatalf("%+v, want revision %d", got, rev)
		}
		if got := keys(t, reads, "k"); len(got) != 1 {
			t.Fatalf("%q", got)
		}
	}
	put(t, tabs[0], store.Put{Key: "k", After: rev, Delete: true})
	absent(t, tabs[1], "k")
}

func testBatch(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	was := put(t, tab, store.Put{Key: "was"})
	same := NewID()
	records, errs := tab.Put(t.Context(),
		store.Put{Key: "a", ID: NewID(), Body: []byte("a")},
		store.Put{Key: "was", ID: NewID()}, // expects none
		store.Put{Key: "b", ID: NewID(), Body: []byte("b")},
		store.Put{Key: ".", ID: NewID()},
		store.Put{Key: "was", ID: NewID(), After: was.Rev, Delete: true},
		store.Put{Key: "c", ID: same},
	)
	for i, want := range []error{nil, store.ErrMoved, nil, store.ErrInvalid, nil, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("put %d: %v, want %v", i, errs[i], want)
		}
		if want == nil && records[i].Key == "" {
			t.Errorf("put %d: %+v", i, records[i])
		}
	}
	if got := keys(t, tab, ""); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if records, errs := tab.Put(t.Context()); len(records) != 0 || len(errs) != 0 {
		t.Errorf("%v, %v", records, errs)
	}
}

func testRevisions(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	var highest atomic.Uint64
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			low := highest.Load()
			n := uint64(0)
			for r, err := range b.Range(t.Context(), "", false) {
				if err != nil {
					t.Errorf("range: %v", err)
					return
				}
				if r.Rev <= low {
					n++
				}
			}
			if n < low && low > 0 && n == 0 {
				t.Errorf("no record up to revision %d", low)
			}
		}
	})
	var revs sync.Map
	for w := range 4 {
		writers.Go(func() {
			last := uint64(0)
			for i := range 10 {
				r, err := try(t, []store.Table{a, b}[w%2], store.Put{Key: fmt.Sprint(w, "/", i)})
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := revs.LoadOrStore(r.Rev, r.Key); twice || r.Rev <= last {
					t.Errorf("revision %d after %d, twice: %t", r.Rev, last, twice)
				}
				last = r.Rev
				for {
					if h := highest.Load(); h >= r.Rev || highest.CompareAndSwap(h, r.Rev) {
						break
					}
				}
				if got, err := b.Get(t.Context(), r.Key); err != nil || got.Rev != r.Rev {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

func testNilBody(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	r := put(t, tab, store.Put{Key: "k", Meta: []byte("1"), Body: []byte("body")})
	for i := range 5 {
		r = put(t, tab, store.Put{Key: "k", After: r.Rev, Meta: fmt.Append(nil, i)})
		if got := get(t, tab, "k"); string(got.Body) != "body" || string(got.Meta) != fmt.Sprint(i) || got.Rev != r.Rev {
			t.Fatalf("%+v", got)
		}
	}
	r = put(t, tab, store.Put{Key: "k", After: r.Rev, Body: []byte("next")})
	put(t, tab, store.Put{Key: "k", After: r.Rev, Meta: []byte("m")})
	for r, err := range tab.Range(t.Context(), "", true) {
		if err != nil || string(r.Body) != "next" || string(r.Meta) != "m" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	put(t, tab, store.Put{Key: "k", After: store.AnyRev, Delete: true})
	put(t, tab, store.Put{Key: "k"})
	if got := get(t, tab, "k"); len(got.Body) != 0 {
		t.Errorf("the body of a deleted record: %q", got.Body)
	}
}

func testLife(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	short := put(t, tab, store.Put{Key: "short", Life: 2 * time.Second})
	put(t, tab, store.Put{Key: "long", Life: time.Hour})
	put(t, tab, store.Put{Key: "ever"})
	get(t, tab, "short")
	time.Sleep(4 * time.Second)
	absent(t, tab, "short")
	if got := keys(t, tab, ""); !slices.Equal(got, []string{"ever", "long"}) {
		t.Errorf("%q", got)
	}
	if _, err := try(t, tab, store.Put{Key: "short", After: short.Rev}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("behind what has expired: %v", err)
	}
	put(t, tab, store.Put{Key: "short"})
}

func testNilBodyLife(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	hour, short := time.Hour, 2*time.Second
	for key, lives := range map[string][]time.Duration{
		"longer": {short, hour}, "much longer": {short, hour, 0}, "shorter": {hour, short}, "much shorter": {0, short},
		"longer and shorter": {hour, 2 * hour, short}, "shorter and longer": {hour, short, hour},
	} {
		key = strings.ReplaceAll(key, " ", "_")
		r := put(t, tab, store.Put{Key: key, Body: []byte(key), Life: lives[0]})
		for _, life := range lives[1:] {
			r = put(t, tab, store.Put{Key: key, After: r.Rev, Meta: []byte(life.String()), Life: life})
		}
		if got := get(t, tab, key); string(got.Body) != key {
			t.Errorf("%s: the body is %q", key, got.Body)
		}
	}
	time.Sleep(4 * time.Second)
	for _, key := range []string{"longer", "much_longer", "shorter_and_longer"} {
		if got := get(t, tab, key); string(got.Body) != key {
			t.Errorf("%s: the body is %q", key, got.Body)
		}
	}
	for _, key := range []string{"shorter", "much_shorter", "longer_and_shorter"} {
		absent(t, tab, key)
	}
	if got := keys(t, tab, ""); !slices.Equal(got, []string{"longer", "much_longer", "shorter_and_longer"}) {
		t.Errorf("%q", got)
	}
	if got := get(t, tab, put(t, tab, store.Put{Key: "shorter"}).Key); len(got.Body) != 0 {
		t.Errorf("the body of a record that has ended: %q", got.Body)
	}
}

// watch collects what a watcher is told, until the test ends.
type watch struct {
	t       testing.TB
	changes chan store.Change
}

func startWatch(t testing.TB, tab store.Table, prefix string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, changes: make(chan store.Change, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := range tab.Watch(ctx, prefix) {
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
					t.Errorf("watch: %v", err)
				}
				return
			}
			w.changes <- c
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

func (w *watch) next() store.Change {
	w.t.Helper()
	select {
	case c := <-w.changes:
		return c
	case <-time.After(time.Hour):
		w.t.Fatal("the watcher is told nothing")
		return store.Change{}
	}
}

func (w *watch) live() (keys []string) {
	w.t.Helper()
	for {
		c := w.next()
		if c.Live {
			return keys
		}
		if c.Gone || c.Body != nil {
			w.t.Errorf("%+v before the end of the beginning", c)
		}
		keys = append(keys, c.Key)
	}
}

func testWatch(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	for _, key := range []string{"in/1", "in/2", "out/1"} {
		put(t, a, store.Put{Key: key, Body: []byte("b")})
	}
	for _, tab := range []store.Table{a, b} {
		w := startWatch(t, tab, "in/")
		got := w.live()
		slices.Sort(got)
		if want := keys(t, a, "in/"); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		put(t, a, store.Put{Key: "out/1", After: store.AnyRev})
		r := put(t, a, store.Put{Key: "in/2", After: store.AnyRev, Meta: []byte("m")})
		if c := w.next(); c.Key != "in/2" || c.Rev != r.Rev || string(c.Meta) != "m" || c.Body != nil {
			t.Errorf("%+v, want %+v", c, r)
		}
		// Many changes: each key's last one is told, in the order of revisions.
		want := map[string]uint64{}
		for i := range 50 {
			r := put(t, a, store.Put{Key: fmt.Sprint("in/", i%7), After: store.AnyRev})
			want[r.Key] = r.Rev
		}
		for last := uint64(0); len(want) > 0; {
			c := w.next()
			if c.Rev <= last {
				t.Fatalf("revision %d after %d", c.Rev, last)
			}
			last = c.Rev
			if want[c.Key] == c.Rev {
				delete(want, c.Key)
			}
		}
	}
}

// busy changes keys all the time until stop is called.
func busy(t testing.TB, tab store.Table, keys int) (stop func()) {
	t.Helper()
	var puts []store.Put
	for i := range keys {
		puts = append(puts, store.Put{Key: fmt.Sprint("k", i), After: store.AnyRev})
	}
	write := func() {
		for i := range puts {
			puts[i].ID = NewID()
		}
		if _, errs := tab.Put(t.Context(), puts...); errors.Join(errs...) != nil {
			t.Error(errors.Join(errs...))
		}
	}
	write()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
				write()
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

func testWatchBusy(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	const there = 20
	for range 3 {
		stop := busy(t, a, there)
		ctx, cancel := context.WithCancel(t.Context())
		seen, last, after := map[string]uint64{}, uint64(0), 0
		for c, err := range b.Watch(ctx, "k") {
			if err != nil {
				t.Fatal(err)
			}
			if c.Live {
				if len(seen) != there {
					t.Errorf("%d keys before Live, want %d", len(seen), there)
				}
				last = 1
				continue
			}
			if last > 0 {
				if c.Rev <= last || c.Rev <= seen[c.Key] || c.Gone {
					t.Errorf("%+v behind revision %d and its own %d", c, last, seen[c.Key])
				}
				last = c.Rev
				if after++; after == 2*there {
					break
				}
			}
			seen[c.Key] = c.Rev
		}
		cancel()
		stop()
	}
}

func testRangeBusy(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	const there = 20
	stop := busy(t, a, there)
	defer stop()
	for range 10 {
		if got := keys(t, b, "k"); len(got) != there {
			t.Errorf("%d keys, want %d: %q", len(got), there, got)
		}
	}
}

func testWatchGone(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	put(t, a, store.Put{Key: "deleted"})
	put(t, a, store.Put{Key: "short", Life: 2 * time.Second})
	w := startWatch(t, b, "")
	w.live()
	put(t, a, store.Put{Key: "deleted", After: store.AnyRev, Delete: true})
	if c := w.next(); c.Key != "deleted" || !c.Gone {
		t.Errorf("%+v", c)
	}
	if c := w.next(); c.Key != "short" || !c.Gone { // within a minute
		t.Errorf("%+v", c)
	}
}

// testMany has more records, more bytes and more changes at once than an engine reads in one piece.
func testMany(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := table(t, place.Open(t), store.TableOptions{}), table(t, place.Open(t), store.TableOptions{})
	const many = 1200
	var want []string
	putAll := func(after uint64) map[string]uint64 { // revisions by key
		t.Helper()
		puts := make([]store.Put, many)
		for i := range puts {
			puts[i] = store.Put{Key: fmt.Sprintf("in/%04d", i), ID: NewID(), After: after, Body: make([]byte, 3000)}
		}
		revs, keys := map[string]uint64{}, map[uint64]string{}
		records, errs := a.Put(t.Context(), puts...)
		for i, r := range records {
			if errs[i] != nil || r.Key != puts[i].Key || r.Rev == 0 || keys[r.Rev] != "" {
				t.Fatalf("put %d: %+v, %v; its revision is also that of %q", i, r, errs[i], keys[r.Rev])
			}
			revs[r.Key], keys[r.Rev] = r.Rev, r.Key
		}
		return revs
	}
	for i := range many {
		want = append(want, fmt.Sprintf("in/%04d", i))
	}
	put(t, a, store.Put{Key: "in0"}) // behind all that begin with "in/"
	putAll(0)
	w := startWatch(t, b, "in/")
	got := w.live()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d records are watched, want %d", len(got), many)
	}
	if got := keys(t, b, "in/"); !slices.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), many)
	}
	n := 0
	for r, err := range b.Range(t.Context(), "in/", true) {
		if err != nil || r.Key != want[n] || len(r.Body) != 3000 {
			t.Fatalf("record %d: %s with %d bytes, %v", n, r.Key, len(r.Body), err)
		}
		n++
	}
	if n != many {
		t.Errorf("%d records with bodies", n)
	}
	revs := putAll(store.AnyRev)
	last := uint64(0)
	for i := range many {
		c := w.next()
		if c.Rev != revs[c.Key] || c.Rev <= last || c.Gone {
			t.Fatalf("change %d: %+v behind revision %d, want revision %d", i, c, last, revs[c.Key])
		}
		last = c.Rev
	}
}

func testFull(t *testing.T, s Setup) {
	place := s.New(t)
	few := table(t, place.Open(t), store.TableOptions{Name: "few", MaxRecords: 10})
	for i := range 10 {
		put(t, few, store.Put{Key: fmt.Sprint(i)})
	}
	if _, err := try(t, few, store.Put{Key: "more"}); !errors.Is(err, store.ErrFull) {
		t.Errorf("an eleventh: %v", err)
	}
	put(t, few, store.Put{Key: "3", After: store.AnyRev})
	put(t, few, store.Put{Key: "3", After: store.AnyRev, Delete: true})
	put(t, few, store.Put{Key: "more"})
	small := table(t, place.Open(t), store.TableOptions{Name: "small", MaxBytes: 100_000})
	stored := 0
	for i := range 30 {
		_, err := try(t, small, store.Put{Key: fmt.Sprint(i), Body: make([]byte, 10_000)})
		switch {
		case err == nil:
			stored++
		case !errors.Is(err, store.ErrFull):
			t.Fatal(err)
		}
	}
	if stored < 8 || stored > 10 {
		t.Errorf("%d records of 10000 bytes in 100000", stored)
	}
}

func testOldest(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{MaxRecords: 10, Oldest: true})
	for i := range 10 {
		put(t, tab, store.Put{Key: fmt.Sprint("k", i)})
	}
	put(t, tab, store.Put{Key: "k0", After: store.AnyRev, Meta: []byte("changed")}) // k1 is the oldest now
	for i := range 3 {
		put(t, tab, store.Put{Key: fmt.Sprint("new", i)})
	}
	want := []string{"k0", "k4", "k5", "k6", "k7", "k8", "k9", "new0", "new1", "new2"}
	if got := keys(t, tab, ""); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 100 {
		put(t, tab, store.Put{Key: fmt.Sprint("x", i)})
	}
	if got := keys(t, tab, ""); len(got) != 10 || !slices.Contains(got, "x99") {
		t.Errorf("%q", got)
	}
}

func testEnded(t *testing.T, s Setup) {
	tab := table(t, s.New(t).Open(t), store.TableOptions{})
	r := put(t, tab, store.Put{Key: "k"})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller has left")
	cancel(why)
	_, getErr := tab.Get(ctx, "k")
	_, peekErr := tab.Peek(ctx, "k")
	_, errs := tab.Put(ctx, store.Put{Key: "k", ID: NewID(), After: r.Rev}, store.Put{Key: "new", ID: NewID()})
	for _, err := range []error{getErr, peekErr, errs[0], errs[1]} {
		if !errors.Is(err, why) || errors.Is(err, store.ErrUnsure) {
			t.Errorf("%v, want %v", err, why)
		}
	}
	for _, err := range tab.Range(ctx, "", false) {
		if !errors.Is(err, why) {
			t.Errorf("range: %v", err)
		}
	}
	absent(t, tab, "new")
	if got := get(t, tab, "k"); got.Rev != r.Rev {
		t.Errorf("%+v, want %+v", got, r)
	}
}

func testClosed(t *testing.T, s Setup) {
	place := s.New(t)
	e := place.Open(t)
	tab := table(t, e, store.TableOptions{Durability: store.Synced})
	put(t, tab, store.Put{Key: "a", Lazy: true, Body: []byte("lazy")})
	ended := make(chan error)
	live := make(chan struct{})
	go func() {
		for c, err := range tab.Watch(context.WithoutCancel(t.Context()), "") {
			if c.Live {
				close(live)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	<-live
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("the watcher ends with %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	_, err := tab.Get(t.Context(), "a")
	_, putErr := try(t, tab, store.Put{Key: "b"})
	_, tableErr := e.Table(t.Context(), store.TableOptions{Name: "more"})
	for _, err := range []error{err, putErr, tableErr} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%v, want %v", err, store.ErrClosed)
		}
	}
	if got := get(t, table(t, place.Open(t), store.TableOptions{Durability: store.Synced}), "a"); string(got.Body) != "lazy" {
		t.Errorf("%+v", got)
	}
}

// testModel holds a table, used by two processes, to a map.
func testModel(t *testing.T, s Setup) {
	place := s.New(t)
	engines := []store.Engine{place.Open(t), place.Open(t)}
	var drawn atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		o := store.TableOptions{Name: fmt.Sprint("model", drawn.Add(1))}
		tabs := []store.Table{table(t, engines[0], o), table(t, engines[1], o)}
		model := map[string]store.Record{}
		highest := uint64(0)
		pick := func() store.Table { return rapid.SampledFrom(tabs).Draw(r, "process") }
		key := rapid.SampledFrom([]string{"a", "b", "b/c", "b/c/d"})
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				k := key.Draw(r, "key")
				now, there := model[k]
				p := store.Put{Key: k, ID: NewID(), After: now.Rev, Meta: rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(r, "meta")}
				if rapid.Bool().Draw(r, "body") {
					p.Body = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "bytes")
				}
				p.Delete = rapid.IntRange(0, 3).Draw(r, "delete") == 0
				wrong := rapid.IntRange(0, 4).Draw(r, "wrong") == 0
				if wrong {
					p.After = highest + 7
				}
				records, errs := pick().Put(t.Context(), p)
				switch {
				case wrong:
					if !errors.Is(errs[0], store.ErrMoved) {
						r.Fatalf("%+v: %v", p, errs[0])
					}
				case p.Delete && !there:
					if !errors.Is(errs[0], store.ErrNotFound) {
						r.Fatalf("%+v: %v", p, errs[0])
					}
				case errs[0] != nil:
					r.Fatalf("%+v: %v", p, errs[0])
				case p.Delete:
					delete(model, k)
				default:
					got := records[0]
					if got.Rev <= highest {
						r.Fatalf("revision %d after %d", got.Rev, highest)
					}
					highest = got.Rev
					got.Body = p.Body
					if p.Body == nil {
						got.Body = now.Body
					}
					model[k] = got
				}
			},
			"get": func(r *rapid.T) {
				k := key.Draw(r, "key")
				got, err := pick().Get(t.Context(), k)
				want, there := model[k]
				if there != (err == nil) || !there && !errors.Is(err, store.ErrNotFound) {
					r.Fatalf("%s: %+v, %v, want %+v", k, got, err, want)
				}
				if there && (got.Rev != want.Rev || got.Made != want.Made || !bytes.Equal(got.Body, want.Body) || !bytes.Equal(got.Meta, want.Meta)) {
					r.Fatalf("%s: %+v, want %+v", k, got, want)
				}
			},
			"range": func(r *rapid.T) {
				prefix := rapid.SampledFrom([]string{"", "b", "b/", "x"}).Draw(r, "prefix")
				var got, want []string
				for rec, err := range pick().Range(t.Context(), prefix, true) {
					if err != nil || !bytes.Equal(rec.Body, model[rec.Key].Body) {
						r.Fatalf("%+v, %v", rec, err)
					}
					got = append(got, rec.Key)
				}
				for k := range model {
					if strings.HasPrefix(k, prefix) {
						want = append(want, k)
					}
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					r.Fatalf("%q, want %q", got, want)
				}
			},
		})
	})
}

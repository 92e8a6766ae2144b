package postgres

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

var body = bytes.Repeat([]byte("x"), 500)

// BenchmarkPut times puts of new records of 500 bytes, by so many callers at once. README.md has the figures.
func BenchmarkPut(b *testing.B) {
	for _, durability := range []store.Durability{store.Synced, store.Async} {
		for _, callers := range []int{1, 16, 200} {
			b.Run(fmt.Sprintf("%s/%d at once", map[store.Durability]string{store.Synced: "synced", store.Async: "async"}[durability], callers), func(b *testing.B) {
				e := open(b, Options{Connections: 16})
				benchmarkPuts(b, callers, table(b, e, store.TableOptions{Durability: durability}))
			})
		}
	}
}

// BenchmarkPutsOfTwoProcesses has 100 callers in each of two processes, with one table and with two: what a table shares is its row, and
// what all share is the lock of notices.
func BenchmarkPutsOfTwoProcesses(b *testing.B) {
	for name, tables := range map[string][2]string{"one table": {"a", "a"}, "two tables": {"a", "b"}} {
		b.Run(name, func(b *testing.B) {
			schema := newSchema()
			var tabs []*Table
			for _, name := range tables {
				tabs = append(tabs, table(b, open(b, Options{Schema: schema}), store.TableOptions{Name: name, Durability: store.Synced}))
			}
			benchmarkPuts(b, 200, tabs...)
		})
	}
}

// BenchmarkPutAsyncBesideSynced times an Async put while another table has Synced ones.
func BenchmarkPutAsyncBesideSynced(b *testing.B) {
	e := open(b, Options{})
	synced, async := table(b, e, store.TableOptions{Name: "synced", Durability: store.Synced}), table(b, e, store.TableOptions{Name: "async"})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				put(b, synced, store.Put{Key: fmt.Sprint(n), Body: body})
			}
		}
	}()
	benchmarkPuts(b, 1, async)
	close(stop)
	<-done
}

func benchmarkPuts(b *testing.B, callers int, tabs ...*Table) {
	var key, left atomic.Int64
	left.Store(int64(b.N))
	finished := make(chan struct{})
	b.ResetTimer()
	for caller := range callers {
		go func() {
			defer func() { finished <- struct{}{} }()
			for left.Add(-1) >= 0 {
				_, errs := tabs[caller%len(tabs)].Put(b.Context(), store.Put{Key: fmt.Sprint("k", key.Add(1)), ID: storetest.NewID(), Body: body})
				if errs[0] != nil {
					b.Error(errs[0])
					return
				}
			}
		}()
	}
	for range callers {
		<-finished
	}
}

// BenchmarkChange times a change of the meta of a record whose body has 500 bytes, or 100 000.
func BenchmarkChange(b *testing.B) {
	for _, size := range []int{500, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			tab := table(b, open(b, Options{}), store.TableOptions{})
			r := put(b, tab, store.Put{Key: "a", Body: bytes.Repeat([]byte("x"), size)})
			for b.Loop() {
				r = put(b, tab, store.Put{Key: "a", After: r.Rev, Meta: []byte("m")})
			}
		})
	}
}

// BenchmarkPutOldest times a put that removes the oldest of 10 000 records.
func BenchmarkPutOldest(b *testing.B) {
	e := open(b, Options{})
	tab := table(b, e, store.TableOptions{MaxRecords: 10_000, Oldest: true})
	for n := 0; n < 10_000; n += 500 {
		var puts []store.Put
		for i := range 500 {
			puts = append(puts, store.Put{Key: fmt.Sprint("k", n+i), ID: storetest.NewID(), Body: body})
		}
		if _, errs := tab.Put(b.Context(), puts...); errs[0] != nil {
			b.Fatal(errs[0])
		}
	}
	n := 0
	for b.Loop() {
		put(b, tab, store.Put{Key: fmt.Sprint("new", n), Body: body})
		n++
	}
}

// BenchmarkGet times a read of a record of 500 bytes, by one caller and by 16.
func BenchmarkGet(b *testing.B) {
	tab := table(b, open(b, Options{Connections: 16}), store.TableOptions{})
	put(b, tab, store.Put{Key: "a", Body: body})
	b.Run("1 at once", func(b *testing.B) {
		for b.Loop() {
			if _, err := tab.Get(b.Context(), "a"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("16 at once", func(b *testing.B) {
		b.SetParallelism(8) // of two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := tab.Get(b.Context(), "a"); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkNotice times from a put in one process to the watcher in another.
func BenchmarkNotice(b *testing.B) {
	b.Run("synced", func(b *testing.B) { benchmarkNotice(b, store.TableOptions{Durability: store.Synced}) })
	b.Run("async", func(b *testing.B) { benchmarkNotice(b, store.TableOptions{}) })
}

func benchmarkNotice(b *testing.B, o store.TableOptions) {
	schema := newSchema()
	writes, reads := table(b, open(b, Options{Schema: schema}), o), table(b, open(b, Options{Schema: schema}), o)
	put(b, writes, store.Put{Key: "a"})
	w := startWatch(b, reads, "")
	w.live()
	for b.Loop() {
		w.until("a", put(b, writes, store.Put{Key: "a", After: store.AnyRev}).Rev)
	}
}

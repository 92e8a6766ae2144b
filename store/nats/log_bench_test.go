package nats_test

import (
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/nats"
)

// oneProcess is a server in a process of its own, so that its memory and its work are not counted as the replica's.
func oneProcess(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	arg, err := json.Marshal(cluster.Options{Servers: cluster.Embedded, Name: "n", Dir: tb.TempDir(), Listen: address})
	if err != nil {
		tb.Fatal(err)
	}
	clustertest.Start(tb, "nats", string(arg)).Expect("ready")
	return "nats://" + address
}

// openAt opens a space of a process on servers.
func openAt(tb testing.TB, url, prefix string, o store.LogOptions) store.Log {
	tb.Helper()
	c, err := cluster.Open(tb.Context(), cluster.Options{Servers: url, Prefix: prefix})
	if err != nil {
		tb.Fatal(err)
	}
	e := nats.Open(c, nats.Options{})
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return openLog(tb, e, o)
}

// BenchmarkLogs measures what tapes do: compare it with the benchmarks of package tape/logs, and with those of other engines.
func BenchmarkLogs(b *testing.B) {
	for name, url := range map[string]func() string{
		"one": func() string { return oneProcess(b) }, "three": func() string { return clustertest.ThreeCrashing(b).URL() },
	} {
		b.Run(name, func(b *testing.B) { benchLogs(b, url()) })
	}
}

func benchLogs(b *testing.B, url string) {
	o := store.LogOptions{Space: "bench", Indexed: true, Durability: store.Synced}
	l := openAt(b, url, clustertest.Prefix(), o)
	head := []byte(`{"tape":"a","session":"web:1","title":"start","created":1795737652486615,"updated":1795737652486615,"entries":1,"last":1}`)
	x, y := []byte(strings.Repeat("x", 200)), []byte(strings.Repeat("y", 200))
	b.Run("append 200 bytes", func(b *testing.B) {
		rev := mustAppend(b, l, "appended", store.Batch{Head: head}).Rev
		b.ReportAllocs()
		for b.Loop() {
			rev = mustAppend(b, l, "appended", store.Batch{After: rev, Head: head, Entries: []store.Entry{{Data: x}}}).Rev
		}
	})
	for _, batches := range []int{1000, 50_000} {
		if testing.Short() && batches > 1000 {
			continue
		}
		name := fmt.Sprint("long", batches)
		rev := store.New
		for i := range batches {
			entries := []store.Entry{{Data: x}, {Data: y}}
			if i == batches-25 {
				entries = []store.Entry{{Data: x, Mark: true}}
			}
			rev = mustAppend(b, l, name, store.Batch{After: rev, Head: head, Entries: entries}).Rev
		}
		b.Run(fmt.Sprintf("context of 50 behind the last mark of %d", 2*batches), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				info, err := l.Info(b.Context(), name)
				if err != nil {
					b.Fatal(err)
				}
				if all, err := readAll(l, b.Context(), name, store.Range{From: info.LastMark}); err != nil || len(all) != 49 {
					b.Fatal(len(all), err)
				}
			}
		})
		b.Run(fmt.Sprintf("the newest 50 of %d", 2*batches), func(b *testing.B) {
			for b.Loop() {
				if all, err := readAll(l, b.Context(), name, store.Range{Newest: true, Limit: 50}); err != nil || len(all) != 50 {
					b.Fatal(len(all), err)
				}
			}
		})
	}
	b.Run("read 2000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if all, err := readAll(l, b.Context(), "long1000", store.Range{}); err != nil || len(all) != 1999 {
				b.Fatal(len(all), err)
			}
		}
	})
	b.Run("info", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Info(b.Context(), "long1000"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkListOfLogs times pages of 100 000 logs, or of 1000 with -short.
func BenchmarkListOfLogs(b *testing.B) {
	const writers = 64
	logs := 100_000
	if testing.Short() {
		logs = 1000
	}
	url, prefix := oneProcess(b), clustertest.Prefix()
	o := store.LogOptions{Space: "bench", Indexed: true}
	writer := openAt(b, url, prefix, o)
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w; i < logs; i += writers {
				mustAppend(b, writer, fmt.Sprintf("%016x__%016x", 7, i), store.Batch{Label: fmt.Sprintf("owner-%d#", i%500), Entries: entriesOf("x")})
			}
		})
	}
	wait.Wait()
	l := openAt(b, url, prefix, o)
	before := heap()
	began := time.Now()
	if n, err := l.Count(b.Context(), ""); err != nil || n != logs {
		b.Fatal(n, err)
	}
	b.Logf("%.1f MiB of heap; started in %v", float64(heap()-before)/(1<<20), time.Since(began).Round(time.Millisecond))
	page := func(name string, listing store.Listing) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range l.List(b.Context(), listing) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != listing.Limit {
					b.Fatal(n)
				}
			}
		})
	}
	page("first 20", store.Listing{Limit: 20})
	page("first 2 of a label", store.Listing{Label: "owner-7#", Limit: 2})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			if n, err := l.Count(b.Context(), ""); err != nil || n != logs {
				b.Fatal(n, err)
			}
		}
	})
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package postgres

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

func logs(tb testing.TB, e *Engine, o store.LogOptions) *Log {
	tb.Helper()
	if o.Space == "" {
		o.Space = "logs"
	}
	got, err := e.Log(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return got.(*Log)
}

func add(tb testing.TB, l *Log, name string, b store.Batch) store.Info {
	tb.Helper()
	info, err := tryAdd(tb, l, name, b)
	if err != nil {
		tb.Fatalf("append to %s: %v", name, err)
	}
	return info
}

func tryAdd(tb testing.TB, l *Log, name string, b store.Batch) (store.Info, error) {
	tb.Helper()
	if b.ID == [16]byte{} {
		b.ID = storetest.NewID()
	}
	return l.Append(tb.Context(), name, b)
}

func entriesOf(n, size int) []store.Entry {
	entries := make([]store.Entry, n)
	for i := range entries {
		entries[i].Data = bytes.Repeat([]byte("x"), size)
	}
	return entries
}

// BenchmarkAppend times a batch of one entry of 200 bytes, behind the one before, in so many logs at once. README.md has the figures.
func BenchmarkAppend(b *testing.B) {
	for _, durability := range []store.Durability{store.Synced, store.Async} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d at once", map[store.Durability]string{store.Synced: "synced", store.Async: "async"}[durability], callers), func(b *testing.B) {
				l := logs(b, open(b, Options{Connections: 16}), store.LogOptions{Durability: durability, Indexed: true})
				var wg sync.WaitGroup
				left := make(chan struct{}, b.N)
				for range b.N {
					left <- struct{}{}
				}
				close(left)
				b.ResetTimer()
				for caller := range callers {
					wg.Go(func() {
						name := fmt.Sprint("k", caller)
						info := store.Info{}
						for range left {
							info = add(b, l, name, store.Batch{After: info.Rev, Entries: entriesOf(1, 200), Head: body})
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkContext times a read of the 50 entries from the last mark on, of a log with 20 000 or 100 000 before it.
func BenchmarkContext(b *testing.B) {
	for _, before := range []int{100, 20_000, 100_000} {
		b.Run(fmt.Sprint("of ", before), func(b *testing.B) {
			l := logs(b, open(b, Options{}), store.LogOptions{Indexed: true})
			info := store.Info{}
			for n := 0; n < before; n += 100 {
				info = add(b, l, "k", store.Batch{After: info.Rev, Entries: entriesOf(100, 90)})
			}
			batch := entriesOf(50, 90)
			batch[0].Mark = true
			for _, e := range batch {
				info = add(b, l, "k", store.Batch{After: info.Rev, Entries: []store.Entry{e}})
			}
			for b.Loop() {
				info, err := l.Info(b.Context(), "k")
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for _, err := range l.Read(b.Context(), "k", store.Range{From: info.LastMark}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 50 {
					b.Fatalf("%d entries", n)
				}
			}
		})
	}
}

// BenchmarkRead1000 times a read of 1000 entries of 200 bytes, each of a batch of its own.
func BenchmarkRead1000(b *testing.B) {
	l := logs(b, open(b, Options{}), store.LogOptions{Indexed: true})
	info := store.Info{}
	for range 1000 {
		info = add(b, l, "k", store.Batch{After: info.Rev, Entries: entriesOf(1, 200)})
	}
	for b.Loop() {
		n := 0
		for _, err := range l.Read(b.Context(), "k", store.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			b.Fatalf("%d entries", n)
		}
	}
}

// serverTime returns the time that processors have spent on the processes of the server.
func serverTime(b *testing.B, e *Engine) time.Duration {
	var pids []int
	if err := e.db.Pool.QueryRow(b.Context(), `SELECT array_agg(pid) FROM pg_stat_activity WHERE pid IS NOT NULL`).Scan(&pids); err != nil {
		b.Fatal(err)
	}
	ticks := int64(0)
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] { // utime and stime
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func ownTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRuns has the load of run logs: 400 runs with 50 events of 100 bytes a second each. It prints the time of processors per event.
// Fenced: each 10 ms, the runs that have an event write it, each in a batch of its own. Pages: each 5 ms, one batch has the events of all.
func BenchmarkRuns(b *testing.B) {
	const runs, perSecond, size = 400, 50, 100
	measure := func(b *testing.B, e *Engine, write func(stop <-chan struct{}) (events int)) {
		stop := make(chan struct{})
		go func() {
			<-time.After(5 * time.Second)
			close(stop)
		}()
		own, server, began := ownTime(b), serverTime(b, e), time.Now()
		events := write(stop)
		own, server = ownTime(b)-own, serverTime(b, e)-server
		b.ReportMetric(float64(own.Microseconds())/float64(events), "µs-client/event")
		b.ReportMetric(float64(server.Microseconds())/float64(events), "µs-server/event")
		b.ReportMetric(float64(events)/time.Since(began).Seconds(), "events/s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("fenced", func(b *testing.B) {
		e := open(b, Options{})
		l := logs(b, e, store.LogOptions{Space: "runs", Keep: time.Hour})
		var groups [2][]chan struct{}
		var wg sync.WaitGroup
		for run := range runs {
			tick := make(chan struct{}, 100)
			groups[run%2] = append(groups[run%2], tick)
			info := add(b, l, fmt.Sprint("run", run), store.Batch{Head: body[:100]})
			wg.Go(func() {
				for range tick {
					info = add(b, l, info.Name, store.Batch{After: info.Rev, Entries: entriesOf(1, size)})
				}
			})
		}
		measure(b, e, func(stop <-chan struct{}) (events int) {
			ticker := time.NewTicker(time.Second / perSecond / 2)
			defer ticker.Stop()
			for n := 0; ; n++ {
				select {
				case <-ticker.C:
				case <-stop:
					for _, group := range groups {
						for _, tick := range group {
							close(tick)
						}
					}
					wg.Wait()
					return events
				}
				for _, tick := range groups[n%2] {
					tick <- struct{}{}
					events++
				}
			}
		})
	})
	b.Run("pages", func(b *testing.B) {
		e := open(b, Options{})
		l := logs(b, e, store.LogOptions{Space: "pages", Keep: time.Hour})
		measure(b, e, func(stop <-chan struct{}) (events int) {
			const each = runs * perSecond / 200
			ticker := time.NewTicker(5 * time.Millisecond)
			defer ticker.Stop()
			for info := (store.Info{}); ; events += each {
				select {
				case <-ticker.C:
				case <-stop:
					return events
				}
				info = add(b, l, "page", store.Batch{After: info.Rev, Entries: entriesOf(1, each*size)})
			}
		})
	})
}

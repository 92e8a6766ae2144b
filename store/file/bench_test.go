package file_test

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// BenchmarkAppend appends an entry of 200 bytes, which is not synced.
func BenchmarkAppend(b *testing.B) {
	for _, indexed := range []bool{true, false} {
		b.Run(fmt.Sprintf("indexed=%t", indexed), func(b *testing.B) {
			_, l := openLogs(b, vfs.At(b.TempDir()), store.LogOptions{Space: "s", Indexed: indexed}, file.Options{})
			data, head := make([]byte, 200), make([]byte, 200)
			rev := store.New
			b.ReportAllocs()
			for b.Loop() {
				batch := store.Batch{ID: storetest.NewID(), After: rev, Head: head, Entries: []store.Entry{{Data: data}}}
				info, err := l.Append(b.Context(), "k", batch)
				if err != nil {
					b.Fatal(err)
				}
				rev = info.Rev
			}
		})
	}
}

// BenchmarkSinceTheMark reads the 50 entries behind the last mark of a log, in a process that begins.
func BenchmarkSinceTheMark(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint("entries=", n), func(b *testing.B) {
			dir := vfs.At(b.TempDir())
			o := store.LogOptions{Space: "s", Indexed: true}
			e, l := openLogs(b, dir, o, file.Options{})
			var batch []store.Entry
			for i := 1; i <= n; i++ {
				batch = append(batch, store.Entry{Data: make([]byte, 200), Mark: i == n-50 || i%1000 == 1})
				if len(batch) == 50 {
					appendTo(b, l, "k", batch...)
					batch = nil
				}
			}
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e, l := openLogs(b, dir, o, file.Options{})
				info, err := l.Info(b.Context(), "k")
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for range l.Read(b.Context(), "k", store.Range{From: info.LastMark + 1}) {
					n++
				}
				if err := e.Close(); err != nil || n != 50 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkListAPage lists 20 of 100 000 logs, in a process that begins, and in one that has listed before.
func BenchmarkListAPage(b *testing.B) {
	dir := vfs.At(b.TempDir())
	o := store.LogOptions{Space: "s", Indexed: true}
	e, l := openLogs(b, dir, o, file.Options{Interval: -1})
	const many = 100_000
	for i := range many {
		appendTo(b, l, fmt.Sprintf("%032x", i), store.Entry{Data: make([]byte, 200)})
	}
	page := func(l store.Log) {
		n := 0
		for _, err := range l.List(b.Context(), store.Listing{Limit: 20}) {
			if n++; err != nil {
				b.Fatal(err)
			}
		}
		if n != 20 {
			b.Fatal(n)
		}
	}
	page(l)
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			e, l := openLogs(b, dir, o, file.Options{})
			page(l)
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("later", func(b *testing.B) {
		_, l := openLogs(b, dir, o, file.Options{})
		page(l)
		for b.Loop() {
			page(l)
		}
	})
}

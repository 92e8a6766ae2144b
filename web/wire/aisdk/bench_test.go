package aisdk_test

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/web/wire/aisdk"
)

// BenchmarkAppend is one token of a stream: of a text, and of a document's strings.
func BenchmarkAppend(b *testing.B) {
	for name, uri := range map[string]string{"text": "answer", "document": "article/sections/0/body"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			dst, ev := make([]byte, 0, 1<<20), text(uri, "word ")
			e := aisdk.New(aisdk.Options{Run: runID})
			written, n := 0, 0
			for b.Loop() {
				if n++; n%20_000 == 0 { // a document of 100 kB
					e = aisdk.New(aisdk.Options{Run: runID})
				}
				written += len(e.Append(dst[:0], ev))
			}
			b.ReportMetric(float64(written)/float64(b.N), "bytes/token")
		})
	}
}

// BenchmarkRun is a whole run of 10 000 tokens in a document of a hundred sections, as a client comes late that is told all of it.
func BenchmarkRun(b *testing.B) {
	tb := newTube(0)
	for i := range 10_000 {
		_, _ = tb.Send(text(fmt.Sprintf("article/sections/%d/body", i/100), "word "))
	}
	_ = tb.Close("completed")
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		e := aisdk.New(aisdk.Options{Run: runID})
		n := 0
		for ev := range tb.NewReader(0).Waiting() {
			dst = e.Append(dst[:0], ev)
			n += len(dst)
		}
		b.SetBytes(int64(n))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/event")
}

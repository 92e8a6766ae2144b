package coze

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// canned answers every request with the same bytes, so that only this package is measured.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(&segments{b: c}),
	}, nil
}

// segments gives bytes in pieces of the size that a connection's buffer gives.
type segments struct{ b []byte }

func (s *segments) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b[:min(len(s.b), 4096)])
	s.b = s.b[n:]
	return n, nil
}

const benchTokens = 1000

// stream makes an answer of n tokens as Coze writes it.
func stream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(chatCreated)
	for i := range n {
		fmt.Fprintf(&b, "event:conversation.message.delta\n"+
			`data:{"id":"7382159494123470858","conversation_id":"7381473525342978089","bot_id":"7379462189365198898","role":"assistant",`+
			`"type":"answer","content":"tok%d","content_type":"text","chat_id":"7382159487131697202","section_id":"7381473525342978089",`+
			`"created_at":1718792949}`+"\n\n", i%10)
	}
	b.WriteString(chatCompleted + done)
	return b.Bytes()
}

// The cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	p, err := New(Options{Transport: canned(stream(benchTokens))}, "")
	if err != nil {
		b.Fatal(err)
	}
	m, _ := p.Model("7379462189365198898")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for c, err := range m.Stream(context.Background(), adapter.Request{}) {
			if err != nil {
				b.Fatal(err)
			}
			if c.Text != "" {
				n++
			}
		}
	}
	if n != b.N*benchTokens {
		b.Fatalf("%d tokens", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/token")
}

// A token costs the allocation of its text, and no other.
func TestATokenCostsOneAllocation(t *testing.T) {
	m, err := newProvider(t, Options{Transport: canned(stream(benchTokens))}).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() {
		for range m.Stream(t.Context(), adapter.Request{}) {
		}
	}); n > benchTokens+200 {
		t.Errorf("%v for %d tokens", n, benchTokens)
	}
}

// What of it is this package's own share.
func BenchmarkDecode(b *testing.B) {
	_, data, _ := strings.Cut(string(stream(1)), "data:{\"id\":\"7382")
	data, _, _ = strings.Cut("{\"id\":\"7382"+data, "\n")
	var e event
	b.ReportAllocs()
	for b.Loop() {
		if err := e.decode(data); err != nil || string(e.content) != "tok0" {
			b.Fatal(err, string(e.content))
		}
	}
}

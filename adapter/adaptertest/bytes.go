package adaptertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// recorded returns the bytes of an answer as the stand-in sends it.
func (s *Subject) recorded(t testing.TB, a fakeproviders.Answer) []byte {
	t.Helper()
	up := &fakeproviders.Server{Script: always(a)}
	defer up.Close()
	var said bytes.Buffer
	m := s.bare(t, Options{Transport: trip(func(r *http.Request) (*http.Response, error) {
		res, err := up.Transport().RoundTrip(r)
		if err == nil && said.Len() == 0 {
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(res.Body, &said), res.Body}
		}
		return res, err
	})})
	got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	return said.Bytes()
}

// everything is an answer with all kinds of content that the wire can say.
func (s *Subject) everything(text string) fakeproviders.Answer {
	a := fakeproviders.Answer{Text: text}
	if !s.NoReasoning {
		a.Reasoning = "so " + text
	}
	if !s.NoTools {
		a.ToolCalls = []fakeproviders.ToolCall{{ID: "c1", Name: "look", Arguments: `{"é":1}`}, {ID: "c2", Name: "see", Arguments: `{"n":[]}`}}
	}
	return a
}

// replay is a model of which every answer has the body that it makes.
func (s *Subject) replay(t testing.TB, maxEvent int, body func() io.Reader) adapter.Model {
	t.Helper()
	return s.bare(t, Options{MaxEvent: maxEvent, Transport: trip(func(*http.Request) (*http.Response, error) {
		return response(200, s.Wire.ContentType, body()), nil
	})})
}

// testCuts ends a stream after each of its bytes, by a clean end and by a broken connection: what comes of it is the whole
// answer or an error, and never anything that is not in the answer.
func testCuts(t *testing.T, s Subject) {
	stream := s.recorded(t, s.everything("Hé🙂\n."))
	read := func(r func() io.Reader) heard {
		return hear(t, t.Context(), s.replay(t, 0, r).Stream(t.Context(), question()), nil)
	}
	whole := read(func() io.Reader { return bytes.NewReader(stream) })
	if whole.err != nil {
		t.Fatal(whole.err)
	}
	failed := 0
	for at := range stream {
		for i, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			if i == 1 && at%7 != 0 {
				continue // the same as above, most of the time
			}
			got := read(func() io.Reader { return io.MultiReader(bytes.NewReader(stream[:at]), iotest.ErrReader(end)) })
			if got.err == nil {
				if diff := cmp.Diff(whole, got, append(s.compare(), cmp.FilterPath(func(p cmp.Path) bool {
					return p.Last().String() == ".Model"
				}, cmp.Ignore()))...); diff != "" {
					t.Fatalf("cut after %d of %d bytes, an answer that is not the whole one: %s", at, len(stream), diff)
				}
				continue
			}
			failed++
			if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeProtocol {
				t.Fatalf("cut after %d bytes: %v", at, got.err)
			}
			if !strings.HasPrefix(whole.Text, strings.TrimRight(got.Text, "\uFFFD")) || !strings.HasPrefix(whole.Reasoning, strings.TrimRight(got.Reasoning, "\uFFFD")) {
				t.Fatalf("cut after %d bytes: %q %q", at, got.Reasoning, got.Text)
			}
		}
	}
	if failed < len(stream)/2 {
		t.Errorf("only %d cuts of %d bytes were noticed", failed, len(stream))
	}
}

// testPieces gives a stream in pieces of one byte, and of any lengths.
func testPieces(t *testing.T, s Subject) {
	stream := s.recorded(t, s.everything(difficult))
	want := List(s.replay(t, 0, func() io.Reader { return bytes.NewReader(stream) }).Stream(t.Context(), question()))
	for i := range 50 {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		cut := func() io.Reader { return &pieces{stream, random} }
		if i == 0 {
			cut = func() io.Reader { return iotest.OneByteReader(bytes.NewReader(stream)) }
		}
		got := List(s.replay(t, 0, cut).Stream(t.Context(), question()))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("pieces of seed %d: %s", i, diff)
		}
	}
}

// pieces reads b in pieces of random length.
type pieces struct {
	b      []byte
	random *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(1+p.random.IntN(300), len(p.b))])
	p.b = p.b[n:]
	return n, nil
}

// testHuge sends events of 4 MiB, which pass, and larger ones, which are refused and take no memory to speak of.
func testHuge(t *testing.T, s Subject) {
	w := s.Wire
	big := strings.Repeat("x", 4<<20-len(w.Text(""))) // the event has just 4 MiB
	head, _, _ := strings.Cut(w.Text("HERE"), "HERE")
	pings := 4 << 20
	if w.ContentType == "application/vnd.amazon.eventstream" {
		pings = 1 << 18 // Amazon's decoder allocates for each message, and all that is allocated counts
	}
	rows := []struct {
		name  string
		skip  bool
		max   int
		body  func() io.Reader
		chars int
		code  string
	}{
		{"4 MiB", false, 0, func() io.Reader { return strings.NewReader(w.Open + w.Text(big) + w.Finish + w.Done) }, len(big), ""},
		{"a limit of its own", false, 64 << 10, func() io.Reader {
			return strings.NewReader(w.Open + w.Text(strings.Repeat("x", 65<<10)) + w.Finish + w.Done)
		}, 0, adapter.CodeProtocol},
		{"within a limit of its own", false, 64 << 10, func() io.Reader {
			return strings.NewReader(w.Open + w.Text(strings.Repeat("x", 63<<10)) + w.Finish + w.Done)
		}, 63 << 10, ""},
		{"an event of 100 MiB", false, 0, func() io.Reader {
			return io.MultiReader(strings.NewReader(w.Open+head), endless("x", 100<<20))
		}, 0, adapter.CodeProtocol},
		{"100 MiB of nothing but a line", false, 0, func() io.Reader { return endless("x", 100<<20) }, 0, adapter.CodeProtocol},
		{"millions of pings", w.Ping == "", 0, func() io.Reader {
			return io.MultiReader(endless(w.Ping, pings*len(w.Ping)), strings.NewReader(w.Open+w.Text("a")+w.Finish+w.Done))
		}, 1, ""},
	}
	if strings.HasPrefix(w.ContentType, "text/event-stream") {
		for name, line := range map[string]string{"lines without a blank one": "data: x\n", "CR": "data: x\rid: 1\r", "a comment": ":"} {
			row := rows[3]
			row.name, row.body = "100 MiB of "+name, func() io.Reader { return endless(line, 100<<20) }
			rows = append(rows, row)
		}
	}
	// What is no stream is read for the log, as far as that keeps it.
	for _, other := range []struct {
		status int
		kind   string
	}{{500, "application/json"}, {404, "text/html"}, {200, "text/html"}} {
		t.Run(fmt.Sprintf("100 MiB of %s with status %d", other.kind, other.status), func(t *testing.T) {
			m := s.bare(t, Options{Transport: trip(func(*http.Request) (*http.Response, error) {
				return response(other.status, other.kind, endless(`{"error":"<html>`, 100<<20)), nil
			})})
			bounded(t, 40, func() {
				if got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil); got.err == nil {
					t.Error("no error")
				}
			})
		})
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.skip {
				t.Skip("the wire has no such thing")
			}
			m := s.replay(t, row.max, row.body)
			chars := 0
			var last error
			bounded(t, 48, func() { // doubling up to 4 MiB, and the event's own copies
				for c, err := range m.Stream(t.Context(), question()) { // what hear keeps would count
					chars, last = chars+len(c.Text), err
				}
			})
			if e, _ := errors.AsType[*adapter.Error](last); chars != row.chars || (e == nil) != (row.code == "") || e != nil && e.Code != row.code {
				t.Errorf("%d characters, %v", chars, last)
			}
		})
	}
}

// bounded calls f, which is to allocate no more than so many MiB.
func bounded(t *testing.T, limit uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	runtime.ReadMemStats(&after)
	all := after.TotalAlloc - before.TotalAlloc
	t.Logf("%v, %d MiB allocated", time.Since(began).Round(time.Millisecond), all>>20)
	if all > limit<<20 {
		t.Errorf("%d MiB allocated", all>>20)
	}
}

// endless repeats unit up to n bytes.
func endless(unit string, n int) io.Reader {
	return &endlessly{b: strings.Repeat(unit, 1+4096/len(unit)), n: n}
}

// endlessly repeats b up to n bytes, in pieces of at most 4 KiB as a connection gives them.
type endlessly struct {
	b  string
	n  int
	at int
}

func (e *endlessly) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 4096, e.n)], e.b[e.at:])
	e.at = (e.at + n) % len(e.b)
	e.n -= n
	return n, nil
}

// Fuzz feeds an adapter with whatever comes as a stream: no panic; a last chunk with a Finish or an error, and not both but for
// a content filter; whole characters; the same however it is cut. The seeds are streams beside those of the stand-in.
func Fuzz(f *testing.F, s Subject, seeds ...[]byte) {
	if s.Model == "" {
		s.Model = "m"
	}
	for _, a := range []fakeproviders.Answer{{Text: "Hello, world"}, s.everything(difficult)} {
		f.Add(s.recorded(f, a))
	}
	w := s.Wire
	f.Add([]byte(w.Open + w.Text("a") + w.Ping + w.Error))
	f.Add([]byte(w.Open + w.Text("a") + w.Finish + w.Done + w.Text("b")))
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream []byte) { s.feed(t, stream) })
}

// feed gives an adapter a stream at once and byte by byte.
func (s *Subject) feed(t testing.TB, stream []byte) {
	t.Helper()
	var all [2]string
	for i, cut := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		m := s.replay(t, 1<<10, func() io.Reader { return cut(bytes.NewReader(stream)) })
		finishes, failures := 0, 0
		var finish string
		for c, err := range m.Stream(t.Context(), question()) {
			if failures > 0 || finishes > 0 && err == nil {
				t.Fatalf("something after the end: %+v %v", c, err)
			}
			if err != nil {
				failures++
				if e, ok := errors.AsType[*adapter.Error](err); !ok || strings.Contains(fmt.Sprintf("%v %+v %v", e, e, e.Cause), Key) {
					t.Fatalf("not an error of package adapter, or the key is in it: %v", err)
				}
			}
			if c.Finish != "" {
				finishes, finish = finishes+1, c.Finish
			}
			if !utf8.ValidString(c.Text) || !utf8.ValidString(c.Reasoning) || c.ToolCall != nil && !utf8.ValidString(c.ToolCall.Arguments) {
				t.Fatalf("not UTF-8: %+v", c)
			}
		}
		if finishes+failures != 1 && finish != adapter.FinishContentFilter {
			t.Fatalf("%d finishes and %d errors", finishes, failures)
		}
		all[i] = List(m.Stream(t.Context(), question()))
	}
	if all[0] != all[1] {
		t.Fatalf("at once:\n%s\nbyte by byte:\n%s", all[0], all[1])
	}
}

package frame_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// recorder notes each write and flush with the time since its making.
type recorder struct {
	begin time.Time
	calls []string
	bytes.Buffer
	flushes int
	fail    error
}

func newRecorder() *recorder { return &recorder{begin: time.Now()} }

func (r *recorder) Write(p []byte) (int, error) {
	if r.fail != nil {
		return 0, r.fail
	}
	r.calls = append(r.calls, fmt.Sprintf("%v write %q", time.Since(r.begin), p))
	return r.Buffer.Write(p)
}

func (r *recorder) Flush() error {
	r.flushes++
	r.calls = append(r.calls, fmt.Sprintf("%v flush", time.Since(r.begin)))
	return nil
}

func TestTB_07_UnderASlowProducerEachEventIsOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, out := newTube(), newRecorder()
		go func() {
			for range 2 {
				time.Sleep(20 * time.Millisecond)
				_, _ = tb.Send(text("a", "x"))
			}
			time.Sleep(20 * time.Millisecond)
			_, _ = tb.Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Hidden: true})
			_ = tb.Close("completed")
		}()
		if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.JSONL}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{
			`20ms write "{\"id\":\"run:0\",\"uri\":\"a\",\"delta\":\"x\"}\n"`, "20ms flush",
			`40ms write "{\"id\":\"run:1\",\"uri\":\"a\",\"delta\":\"x\"}\n"`, "40ms flush",
			`60ms write "{\"id\":\"run:3\",\"event\":\"finished\",\"data\":{\"status\":\"completed\"}}\n"`, "60ms flush",
		}, out.calls); d != "" {
			t.Error(d)
		}
	})
}

func TestAnIdleStreamIsKeptOpen(t *testing.T) {
	for _, c := range []struct {
		format      frame.Format
		comment, id string
	}{{frame.SSE, `":\n"`, `"id: run:0`}, {frame.JSONL, `"\n"`, `"{\"id\":\"run:0\"`}} {
		t.Run(string(c.format), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, out := newTube(), newRecorder()
				time.AfterFunc(25*time.Second, func() { _, _ = tb.Send(text("a", "x")) })
				time.AfterFunc(50*time.Second, func() { _ = tb.Close("completed") })
				if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: c.format, KeepAlive: 10 * time.Second}); err != nil {
					t.Fatal(err)
				}
				var writes []string
				for _, call := range out.calls {
					if !strings.HasSuffix(call, "flush") {
						writes = append(writes, call)
					}
				}
				if out.flushes != len(writes) {
					t.Errorf("%d flushes for %d writes", out.flushes, len(writes))
				}
				// Ten seconds of silence, counted from the last write: 10, 20, event at 25, 35, 45, the end at 50.
				if len(writes) != 6 || !strings.HasPrefix(writes[2], "25s write "+c.id) || !strings.HasPrefix(writes[5], "50s") {
					t.Fatalf("%q", writes)
				}
				for i, at := range map[int]string{0: "10s", 1: "20s", 3: "35s", 4: "45s"} {
					if writes[i] != at+" write "+c.comment {
						t.Errorf("write %d is %s", i, writes[i])
					}
				}
			})
		})
	}
}

func TestCopyEndsForEachReason(t *testing.T) {
	gone := errors.New("the client is gone")
	waiting := func(*tube.Tube) {}
	backlog := func(tb *tube.Tube) {
		for range 10_000 {
			_, _ = tb.Send(text("a", "word"))
		}
	}
	for _, c := range []struct {
		name    string
		prepare func(*tube.Tube)
		fail    error // of a write
		cancel  error // of the context
	}{
		{"canceled while it waits", waiting, nil, gone},
		{"canceled in a backlog", backlog, nil, gone},
		{"a write fails", backlog, gone, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, out := newTube(), newRecorder()
				c.prepare(tb)
				out.fail = c.fail
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				if c.cancel != nil && tb.Len() == 0 {
					time.AfterFunc(time.Millisecond, func() { cancel(c.cancel) })
				} else if c.cancel != nil {
					cancel(c.cancel)
				}
				wrote := func(int, int) {
					if c.fail != nil {
						t.Error("it is told of what was not taken")
					}
				}
				err := frame.Copy(ctx, out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE, KeepAlive: time.Second, Wrote: wrote})
				if !errors.Is(err, gone) {
					t.Errorf("%v", err)
				}
				if took := time.Since(began); took > time.Millisecond {
					t.Errorf("it took %v to notice", took) // and not only when a comment was due
				}
				if strings.Contains(out.String(), "finished") {
					t.Error("the stream looks as if the run had ended")
				}
				if s := out.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
					t.Error("broken off inside an event")
				}
				cancel(nil)
			})
		})
	}
	t.Run("a framing that is none", func(t *testing.T) {
		if err := frame.Copy(t.Context(), newRecorder(), "run", newTube().NewReader(0), frame.Options{Format: frame.JSON}); err == nil {
			t.Error("no error")
		}
	})
}

func TestTB_07_WhatWaitsIsWrittenInLargePiecesAndFlushedOnce(t *testing.T) {
	for waiting, writes := range map[int]int{100: 1, 10_000: 9} {
		tb, out := newTube(), newRecorder()
		for range waiting {
			_, _ = tb.Send(text("a", "word"))
		}
		_ = tb.Close("completed")
		told, size := 0, 0
		o := frame.Options{Format: frame.SSE, Wrote: func(events, bytes int) { told += events; size += bytes }}
		if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), o); err != nil {
			t.Fatal(err)
		}
		if got := len(out.calls) - out.flushes; out.flushes != 1 || got > writes || strings.Count(out.String(), "\n\n") != waiting+1 {
			t.Errorf("%d events: %d bytes in %d writes and %d flushes", waiting, out.Len(), got, out.flushes)
		}
		if told != waiting+1 || size != out.Len() {
			t.Errorf("told of %d events and %d bytes, of %d and %d", told, size, waiting+1, out.Len())
		}
	}
}

// shouting greets, writes texts in capitals, and has heard enough when it has had one with an exclamation mark.
type shouting struct {
	greeting string
	over     bool
}

func (s *shouting) Open(dst []byte) []byte { return append(dst, s.greeting...) }
func (s *shouting) Over() bool             { return s.over }

func (s *shouting) Append(dst []byte, e tube.Event) []byte {
	if e.Kind != tube.Append {
		return dst
	}
	s.over = bytes.HasSuffix(e.Value, []byte("!"))
	return append(append(dst, bytes.ToUpper(e.Value)...), '\n')
}

func TestAnEncoderWritesInItsOwnWordsAndMayEndBeforeTheRun(t *testing.T) {
	for want, e := range map[string]*shouting{
		"ONE\nTWO!\n":        {},
		"hello\nONE\nTWO!\n": {greeting: "hello\n"},
		"hello\n":            {greeting: "hello\n", over: true},
	} {
		tb, out := newTube(), newRecorder()
		for _, word := range []string{"one", "two!", "three"} {
			if _, err := tb.Send(text("a", word)); err != nil {
				t.Fatal(err)
			}
		}
		if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE, Encoder: e}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

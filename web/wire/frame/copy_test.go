package frame_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
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

func TestTB_07_WhatWaitsIsOneWriteAndOneFlush(t *testing.T) {
	tb := newTube()
	for range 100 {
		_, _ = tb.Send(text("a", "word"))
	}
	_ = tb.Close("completed")
	out := newRecorder()
	if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE}); err != nil {
		t.Fatal(err)
	}
	if len(out.calls) != 2 || out.flushes != 1 {
		t.Errorf("%d calls, %d flushes", len(out.calls), out.flushes)
	}
	if n := strings.Count(out.String(), "\n\n"); n != 101 {
		t.Errorf("%d events", n)
	}
}

func TestTB_07_ALargeBacklogIsWrittenInPiecesAndFlushedOnce(t *testing.T) {
	tb := newTube()
	for range 10_000 {
		_, _ = tb.Send(text("a", "word"))
	}
	_ = tb.Close("completed")
	out := newRecorder()
	if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.JSONL}); err != nil {
		t.Fatal(err)
	}
	if writes := len(out.calls) - out.flushes; out.flushes != 1 || writes < 5 || writes > out.Len()/(64<<10)+1 {
		t.Errorf("%d bytes in %d writes and %d flushes", out.Len(), writes, out.flushes)
	}
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

func TestWithoutKeepAliveAnIdleStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, out := newTube(), newRecorder()
		time.AfterFunc(time.Hour, func() { _ = tb.Close("completed") })
		if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE}); err != nil {
			t.Fatal(err)
		}
		if len(out.calls) != 2 {
			t.Errorf("%q", out.calls)
		}
	})
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
				err := frame.Copy(ctx, out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE, KeepAlive: time.Second})
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

// conn is an Output with a deadline for each write, as web has one over HTTP.
type conn struct {
	net.Conn
	timeout time.Duration
}

func (c conn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.timeout))
	return c.Conn.Write(p)
}

func (c conn) Flush() error { return nil }

func TestTB_06_APeerThatHasStoppedReadingDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTube()
		here, there := net.Pipe()
		defer there.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			begin := time.Now()
			err := frame.Copy(t.Context(), conn{here, 30 * time.Second}, "run", tb.NewReader(0), frame.Options{Format: frame.SSE})
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begin) != 30*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
		good := newRecorder()
		wg.Go(func() {
			if err := frame.Copy(t.Context(), good, "run", tb.NewReader(0), frame.Options{Format: frame.SSE}); err != nil {
				t.Error(err)
			}
		})
		for range 1000 {
			if _, err := tb.Send(text("a", "word")); err != nil {
				t.Fatal(err)
			}
		}
		_ = tb.Close("completed")
		wg.Wait()
		if n := strings.Count(good.String(), "\n\n"); n != 1001 {
			t.Errorf("the other reader got %d events", n)
		}
	})
}

// Four connections follow a run while it is written, two in each framing.
func TestTB_03_AndFT30OneRunIsReadInBothFramingsAtOnce(t *testing.T) {
	tb := newTube()
	outs := []*recorder{newRecorder(), newRecorder(), newRecorder(), newRecorder()}
	var wg sync.WaitGroup
	for i, out := range outs {
		wg.Go(func() {
			format := []frame.Format{frame.SSE, frame.JSONL}[i%2]
			if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: format}); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 5000 {
		_, _ = tb.Send(text(fmt.Sprint("a/", i%3), fmt.Sprint(i)))
	}
	_ = tb.Close("completed")
	wg.Wait()
	if outs[0].String() != outs[2].String() || outs[1].String() != outs[3].String() {
		t.Error("two readers in one framing got different streams")
	}
	lines := 0
	for s := bufio.NewScanner(&outs[1].Buffer); s.Scan(); lines++ {
		if want := fmt.Sprintf(`{"id":"run:%d",`, lines); !strings.HasPrefix(s.Text(), want) {
			t.Fatalf("line %d is %s", lines, s.Text())
		}
	}
	if n := strings.Count(outs[0].String(), "\n\n"); n != 5001 || lines != 5001 {
		t.Errorf("%d SSE events, %d lines", n, lines)
	}
}

// shouting writes texts in capitals, and has heard enough when it has had one with an exclamation mark.
type shouting struct{ over bool }

func (s *shouting) Append(dst []byte, e tube.Event) []byte {
	if e.Kind != tube.Append {
		return dst
	}
	s.over = bytes.HasSuffix(e.Value, []byte("!"))
	return append(append(dst, bytes.ToUpper(e.Value)...), '\n')
}

func (s *shouting) Over() bool { return s.over }

func TestAnEncoderWritesInItsOwnWordsAndMayEndBeforeTheRun(t *testing.T) {
	tb := newTube()
	for _, text := range []string{"one", "two!", "three"} {
		if _, err := tb.Send(tube.Event{URI: []byte("a"), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	out := newRecorder()
	if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE, Encoder: new(shouting)}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "ONE\nTWO!\n" {
		t.Errorf("%q", got)
	}
}

// greeting is a shouting that has something to say first, and may have said all with it.
type greeting struct {
	shouting
	text string
}

func (g *greeting) Open(dst []byte) []byte { return append(dst, g.text...) }

func TestAnEncoderMaySaySomethingBeforeTheFirstEvent(t *testing.T) {
	for _, c := range []struct {
		name string
		over bool
		want string
	}{
		{"and go on", false, "hello\nONE!\n"},
		{"and nothing else", true, "hello\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := newTube()
			if _, err := tb.Send(text("a", "one!")); err != nil {
				t.Fatal(err)
			}
			out, e := newRecorder(), &greeting{text: "hello\n"}
			e.over = c.over
			if err := frame.Copy(t.Context(), out, "run", tb.NewReader(0), frame.Options{Format: frame.SSE, Encoder: e}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestWhatIsWrittenIsTold(t *testing.T) {
	tb := newTube()
	for range 3000 {
		if _, err := tb.Send(text("a", "0123456789012345678901234567890123456789")); err != nil {
			t.Fatal(err)
		}
	}
	_ = tb.Close("completed")
	var out bytes.Buffer
	writes, events, size := 0, 0, 0
	o := frame.Options{Format: frame.SSE, Wrote: func(e, n int) { writes++; events += e; size += n }}
	if err := frame.Copy(t.Context(), flushed{&out}, runID, tb.NewReader(0), o); err != nil {
		t.Fatal(err)
	}
	if events != 3001 || size != out.Len() || writes < 2 {
		t.Errorf("told of %d events and %d bytes in %d writes, of %d bytes", events, size, writes, out.Len())
	}
	// What was not taken is not told.
	events = 0
	if err := frame.Copy(t.Context(), refusing{}, runID, tb.NewReader(0), o); err == nil || events != 0 {
		t.Errorf("told of %d events that nobody took, %v", events, err)
	}
}

type flushed struct{ *bytes.Buffer }

func (flushed) Flush() error { return nil }

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errors.New("gone") }
func (refusing) Flush() error              { return nil }

package wire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
)

// comments counts what is written.
type comments struct{ written, flushed int }

func (c *comments) Write(p []byte) (int, error) {
	c.written++
	return len(p), nil
}

func (c *comments) Flush() error {
	c.flushed++
	return nil
}

func named(name, data string) tube.Event {
	return tube.Event{Kind: tube.Named, Name: name, Value: []byte(data)}
}

func grow(uri, text string) tube.Event {
	return tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)}
}

func set(uri, value string) tube.Event {
	return tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)}
}

func send(t *testing.T, tb *tube.Tube, events ...tube.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
	}
}

const restartedData = `{"attempt":2,"bots":[{"bot":"b","root":"a"}],"parts":["a","a/$tools/0"]}`

func TestStreamOfTextBeginsWhenNothingIsTakenBackAnyMore(t *testing.T) {
	finished := func(tb *tube.Tube) { _ = tb.Close("interrupted") }
	for _, c := range []struct {
		name   string
		before []tube.Event // of the server that was lost
		there  []tube.Event // behind that, when the client comes
		waits  []tube.Event // the stream does not begin
		begins tube.Event   // but with this one
		ends   func(*tube.Tube)
		atOnce bool
	}{
		{name: "nothing was written", before: []tube.Event{named("bot", "{}")}, atOnce: true},
		{
			name: "a document is taken back in part", before: []tube.Event{grow("a", "x"), set("a/$tools/0", "{}"), grow("b", "y")},
			waits: []tube.Event{named("waiting", "{}"), named("restarted", restartedData), set("a", "null")}, begins: set("a/$tools/0", "null"),
		},
		{
			name: "a part was not there", before: []tube.Event{grow("a", "x")},
			waits: []tube.Event{named("restarted", restartedData), set("a", "null")}, begins: named("bot", "{}"),
		},
		{
			name: "all of a document is taken back", before: []tube.Event{grow("a", "x")},
			waits: []tube.Event{named("restarted", `{"parts":[""]}`), set("", "null")}, begins: set("", "{}"),
		},
		{
			name: "the client comes amid that", before: []tube.Event{grow("a", "x"), set("a/$tools/0", "{}")},
			there: []tube.Event{named("restarted", restartedData), set("a", "null")}, begins: set("a/$tools/0", "null"),
		},
		{
			name: "the client comes behind that", before: []tube.Event{grow("a", "x"), set("a/$tools/0", "{}")},
			there: []tube.Event{named("restarted", restartedData), set("a", "null"), set("a/$tools/0", "null")}, atOnce: true,
		},
		{
			name: "an earlier restart does not count", before: []tube.Event{named("restarted", `{"parts":[]}`), grow("a", "x")},
			waits: []tube.Event{named("waiting", "{}")}, begins: named("restarted", `{"parts":[]}`),
		},
		{
			name: "nothing says that the run was restarted", before: []tube.Event{grow("a", "x")},
			waits: []tube.Event{named("waiting", "{}"), set("a", "null")}, begins: grow("a", "y"),
		},
		{name: "the run has ended", before: []tube.Event{grow("a", "x")}, waits: []tube.Event{named("error", "{}")}, ends: finished},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := tube.New("r", &tube.Options{})
				send(t, tb, named("started", "{}"))
				send(t, tb, c.before...)
				tb.Leap(run.Epoch)
				send(t, tb, c.there...)
				var out comments
				over := make(chan error, 1)
				go func() { over <- awaitRestart(t.Context(), &out, tb.NewReader(0), 10*time.Second) }()
				begun := func() bool {
					synctest.Wait()
					return len(over) > 0
				}
				if begun() != c.atOnce {
					t.Fatalf("the stream begins at once: %t", !c.atOnce)
				}
				if c.atOnce {
					return
				}
				for _, e := range c.waits {
					if send(t, tb, e); begun() {
						t.Fatalf("the stream begins with %s", e.AppendJSON(nil))
					}
				}
				time.Sleep(25 * time.Second)
				if synctest.Wait(); out.written != 2 || out.flushed != 2 {
					t.Errorf("%d comments in 25 s, %d flushed", out.written, out.flushed)
				}
				if c.ends != nil {
					c.ends(tb)
				} else {
					send(t, tb, c.begins)
				}
				if !begun() {
					t.Fatal("the stream does not begin")
				}
				if err := <-over; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitForRestartEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := tube.New("r", &tube.Options{})
		send(t, tb, grow("a", "x"))
		tb.Leap(run.Epoch)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("gone")
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		if err := awaitRestart(ctx, new(comments), tb.NewReader(0), 0); !errors.Is(err, cause) {
			t.Error(err)
		}
	})
}

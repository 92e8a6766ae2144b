package runlogtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// Replica is a log that is open, and what the harness of its tests can do with it.
type Replica struct {
	runlog.Log
	Name string         // of the replica, in a shared log
	Left []*runlog.Left // what those before have left, that have crashed or were closed
	// Crash ends it as the end of a process would: what is not written is lost.
	Crash func()
}

// Tube returns the options of the tubes that logs make in these tests.
func Tube() *tube.Options {
	return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }}
}

// wait is for what has no word for its end, on a machine that is busy.
const wait = time.Hour

func (r *Replica) tube(from uint64) func(id string) *tube.Tube {
	return func(id string) *tube.Tube {
		o := Tube()
		o.From, o.Held = from, r.Holds()
		return tube.New(id, o)
	}
}

// keep takes in a new run.
func (r *Replica) keep(id string) (*tube.Tube, runlog.Entry) {
	t := r.tube(0)(id)
	return t, r.Keep(runlog.Run{ID: id, Opening: []byte("opening of " + id), Tube: t})
}

func (r *Replica) flush(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := r.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

func (r *Replica) close(t testing.TB) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// left finds what was left of a run, nil where nothing was.
func (r *Replica) left(id string) *runlog.Left {
	for _, l := range r.Left {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// state is what a log has of a run.
type state struct {
	Opening, Head string
	Ended         bool
	Events        []string
}

// look says what there is of a run that nobody writes; false where there is no such run.
func (r *Replica) look(t testing.TB, id string) (state, bool) {
	t.Helper()
	if l := r.left(id); l != nil {
		return state{string(l.Opening), string(l.Head), l.Head != nil, events(l.Tube)}, true
	}
	shared, ok := r.Log.(runlog.Shared)
	if !ok {
		return state{}, false
	}
	f, err := shared.Find(t.Context(), id)
	if errors.Is(err, runlog.ErrUnknown) {
		return state{}, false
	}
	if err != nil {
		t.Fatalf("find %s: %v", id, err)
	}
	tail := follow(t, shared, id)
	defer tail.Leave()
	if f.Ended && string(tail.Head()) != string(f.Head) || string(tail.Opening()) != string(f.Opening) {
		t.Fatalf("%s: found %q, %q, followed %q, %q", id, f.Opening, f.Head, tail.Opening(), tail.Head())
	}
	return state{string(f.Opening), string(f.Head), f.Ended, events(tail.Tube())}, true
}

func follow(t testing.TB, l runlog.Shared, id string) runlog.Tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	tail, err := l.Follow(ctx, id)
	if err != nil {
		t.Fatalf("follow %s: %v", id, err)
	}
	return tail
}

func say(t testing.TB, tb *tube.Tube, uri, content string) {
	t.Helper()
	if _, err := tb.Send(tube.Event{URI: []byte(uri), Value: []byte(content)}); err != nil {
		t.Fatal(err)
	}
}

func name(t testing.TB, tb *tube.Tube, event, data string) {
	t.Helper()
	if _, err := tb.Send(tube.Event{Kind: tube.Named, Name: event, Value: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

// events are all of a tube that are there for readers.
func events(tb *tube.Tube) []string {
	var all []string
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for e, err := range tb.AllEvents(ctx, 0) {
		if err == nil {
			all = append(all, line(e))
		}
	}
	return all
}

func line(e tube.Event) string {
	mark := ""
	if e.Hidden {
		mark = " hidden"
	}
	if e.Part {
		mark += " part"
	}
	return fmt.Sprintf("%d %s%s", e.N, e.AppendJSON(nil), mark)
}

// await waits until a tube has so many events for its readers.
func await(t testing.TB, tb *tube.Tube, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	r := tb.NewReader(tb.Len())
	defer r.Leave()
	for tb.Len() < n {
		select {
		case <-r.More():
			for range r.Waiting() {
			}
		case <-ctx.Done():
			t.Fatalf("waited %v for event %d; there are %d", wait, n, tb.Len())
		}
	}
}

func closed(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(wait):
		t.Fatalf("waited %v for %s", wait, what)
	}
}

func same(t rapid.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s: -want +got\n%s", what, d)
	}
}

func document(tb *tube.Tube) string {
	d, _ := tb.Snapshot(false)
	var b bytes.Buffer
	if err := json.Compact(&b, d); err != nil {
		return err.Error()
	}
	return b.String()
}

func words(n int) string { return strings.Repeat("word ", n) }

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// modelT is a test, or one case of it.
type modelT interface {
	rapid.TB
	Context() context.Context
}

// world is what the clients of one server know, and what work was done.
type world struct {
	t      modelT
	net    *network
	alive  *node // the server's connection with the database
	s      *Service
	mu     sync.Mutex
	work   map[string]int // how often the work of a run began, by its id
	ledger *adapter.Ledger

	other  func(replica string) *Service // that can be reached; nil: it cannot
	stormy func() bool                   // the database may be away

	runs map[string]*told
	keys map[string]string // the id that a key leads to
}

// told is what clients were told of a run.
type told struct {
	workflow string
	key      string
	events   map[uint64]string // by their numbers
	status   string            // of its end; "" is not told
	at       time.Time         // of that
	crashes  int               // since it was accepted, while it had not ended
	drains   int               // likewise: being handed over is no attempt
}

const (
	modelRuns = 3 // that work at once
	work      = "work"
	again     = "again"
)

// open starts the server on what is in the database.
func (w *world) open() {
	w.alive = w.net.join()
	o := w.options()
	o.Store = w.alive
	var err error
	if w.s, err = Open(bareOptions(o)); err != nil {
		w.t.Fatal(err)
	}
	w.ledger = w.s.o.Ledger
}

// options are those of a server that has the workflows.
func (w *world) options() Options {
	workflows := new(flow.Registry)
	f := func(ctx context.Context, m *ling.Manager, input map[string]any) error {
		w.mu.Lock()
		w.work[m.Tube().Run()]++
		w.mu.Unlock()
		steps, err := strconv.Atoi(fmt.Sprint(input["steps"]))
		if err != nil {
			return err
		}
		return m.Go(func(ctx context.Context) error {
			for i := range steps {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: fmt.Append(nil, i, " ")}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	workflows.Register(flow.Func(work, "", nil, f))
	workflows.Register(resumable{flow.Func(again, "", nil, f)})
	return Options{Workflows: workflows, Models: new(adapter.Registry), Files: noFiles{}, MaxRuns: modelRuns, Retention: 24 * time.Hour}
}

// worked is how often the work of each run began.
func (w *world) worked() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.work)
}

// noFiles keeps no files.
type noFiles struct{}

func (noFiles) Open(_ access.Principal, _ string, list []adapter.Part) ([]adapter.Part, error) {
	return list, nil
}
func (noFiles) Size(access.Principal, string) int64 { return 0 }
func (noFiles) Keep(context.Context, string, string, []byte) (string, error) {
	return "", nil
}

// start starts a run, or repeats a request.
func (w *world) start(t *rapid.T) {
	req := &Request{Who: access.Local, Subject: Subject{Workflow: rapid.SampledFrom([]string{work, again}).Draw(t, "workflow")}}
	req.Input, _ = json.Marshal(map[string]int{"steps": rapid.IntRange(0, 8).Draw(t, "steps")})
	if rapid.Bool().Draw(t, "keyed") {
		req.Key = fmt.Sprint("k", rapid.IntRange(0, 3).Draw(t, "key"))
		req.Subject.Workflow, req.Input = work, json.RawMessage(`{"steps":5}`) // one request for each key
	}
	id, known := w.keys[req.Key]
	other := known && rapid.IntRange(0, 4).Draw(t, "other") == 0 // another request
	if other {
		req.Input = json.RawMessage(`{"steps":6}`)
	}
	before := w.worked()
	r, out, err := w.s.Start(t.Context(), req)
	synctest.Wait()
	switch {
	case errors.Is(err, ErrOverloaded):
		if known && !other || w.s.Load().Running < modelRuns {
			t.Fatalf("RU-67: refused, with %d runs: %v", w.s.Load().Running, err)
		}
		if !maps.Equal(before, w.worked()) {
			t.Fatal("RU-67: a refused start has worked")
		}
	case errors.Is(err, ErrKeyReused):
		if !known || !other {
			t.Fatalf("RU-67: the key is not free: %v", err)
		}
	case err != nil:
		t.Fatalf("RU-68: %v", err)
	case other && known:
		t.Fatal("RU-61: a key has started two requests")
	case known:
		if r.ID != id || !out.Replayed {
			t.Fatalf("RU-61: the key leads to %s (%v), expected %s", r.ID, out, id)
		}
	case out != (Outcome{}) || w.runs[r.ID] != nil:
		t.Fatalf("%v %s", out, r.ID)
	default:
		w.runs[r.ID] = &told{workflow: req.Workflow, key: req.Key, events: map[uint64]string{}}
		if req.Key != "" {
			w.keys[req.Key] = r.ID
		}
	}
}

// some is a run that was told.
func (w *world) some(t *rapid.T) (string, *told) {
	if len(w.runs) == 0 {
		t.Skip("there are none")
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.runs))).Draw(t, "run")
	return id, w.runs[id]
}

// look reads a run from one of its events on.
func (w *world) look(t *rapid.T) {
	id, m := w.some(t)
	from := rapid.Uint64Range(0, 20).Draw(t, "from")
	if len(m.events) > 0 && rapid.Bool().Draw(t, "resume") { // as a client does that comes back
		from = slices.Max(slices.Collect(maps.Keys(m.events))) + 1
	}
	w.read(id, m, from)
}

// find finds a run, as a client does that is forwarded.
func (w *world) find(id string, who access.Principal) (*Run, error) {
	r, err := w.s.Find(w.t.Context(), who, id)
	if e, ok := errors.AsType[*Elsewhere](err); ok {
		if other := w.other(e.Replica); other != nil {
			r, err = other.Find(w.t.Context(), who, id)
		}
		if _, ok := errors.AsType[*Elsewhere](err); ok {
			err = away() // a forwarded request is not forwarded again
		}
	}
	return r, err
}

// read reads what there is of a run.
func (w *world) read(id string, m *told, from uint64) {
	t := w.t
	if _, err := w.find(id, access.Principal{Name: "eve"}); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrAway) {
		t.Fatalf("RU-73: another finds it: %v", err)
	}
	r, err := w.find(id, access.Local)
	if errors.Is(err, ErrAway) && w.stormy() {
		return
	}
	if err != nil {
		t.Fatalf("RU-62: %s is not found: %v", id, err)
	}
	over := r.Ended()
	reader, err := r.Read(from)
	if errors.Is(err, ErrAhead) {
		if _, had := m.events[from-1]; had {
			t.Fatalf("RU-64: event %d was told", from-1)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var document jsonuri.Document
	last, first, group := uint64(0), true, false
	for e := range reader.Waiting() {
		if !first && e.N < last {
			t.Fatalf("RU-64: %d after %d", e.N, last)
		}
		last, first = e.N, false
		if !e.Part && !group && e.Kind != tube.Set { // runs only append: what is set, and what ends a group, is a snapshot
			text := fmt.Sprintf("%d %s %s %s", e.Kind, e.URI, e.Name, e.Value)
			if before, had := m.events[e.N]; had && before != text {
				t.Fatalf("RU-64: event %d of %s was %q and is %q", e.N, id, before, text)
			}
			m.events[e.N] = text
		}
		group = e.Part
		switch e.Kind {
		case tube.Append:
			_ = document.Append(e.URI, e.Value)
		case tube.Set:
			_ = document.Set(e.URI, e.Value)
		}
	}
	result, text, _ := r.Result()
	if over {
		w.end(id, m, result.Status)
		if got := document.AppendJSON(nil); from == 0 && string(got) != string(text) {
			t.Fatalf("RU-65: %s is folded to %s, and its result is %s", id, got, text)
		}
	}
}

// end is what a client is told of the end of a run.
func (w *world) end(id string, m *told, status string) {
	if status == StatusFailed && m.workflow != answerer && m.crashes < MaxCrashes && !w.stormy() { // a turn may lose its lease, and a run its replicas
		w.t.Fatalf("%s has failed", id)
	}
	if m.status != "" && m.status != status {
		w.t.Fatalf("RU-63: the end of %s was %s and is %s", id, m.status, status)
	}
	if m.status == "" {
		m.status, m.at = status, time.Now()
	}
}

// cancel ends a run.
func (w *world) cancel(t *rapid.T) {
	id, m := w.some(t)
	r, err := w.find(id, access.Local)
	if err != nil {
		t.Fatalf("RU-62: %v", err)
	}
	err = w.s.Cancel(r)
	synctest.Wait()
	if err != nil && !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	if m.status != "" && err == nil {
		t.Fatalf("RU-63: %s was canceled after its end", id)
	}
	if !r.Ended() {
		t.Fatalf("%s goes on after its cancellation", id)
	}
}

// sleep lets time pass.
func (w *world) sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
	synctest.Wait()
}

// drain ends the server with a word to its runs, and starts the next one.
func (w *world) drain(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(0, 4).Draw(t, "patience"))*time.Second)
	defer cancel()
	for id, m := range w.runs {
		if r := w.s.runsInMemory()[id]; r != nil && !r.Ended() {
			m.drains++
		}
	}
	if err := w.s.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	w.close()
	w.open()
	synctest.Wait()
}

func (w *world) close() {
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// crash ends the server without a word, and starts the next one: readers have seen more than is stored.
func (w *world) crash(t *rapid.T) {
	w.alive.silence(true, 0)
	time.Sleep(time.Duration(rapid.IntRange(0, 3).Draw(t, "unstored")) * time.Second)
	synctest.Wait()
	for id, m := range w.runs {
		w.read(id, m, 0)
	}
	for id, m := range w.runs {
		if r := w.s.runsInMemory()[id]; r != nil && !r.Ended() {
			m.crashes++
		}
	}
	done := w.worked()
	w.close()
	w.mu.Lock()
	w.work = done
	w.mu.Unlock()
	w.open()
	synctest.Wait()
}

// noDeadline is a test whose time rapid does not ask for, which is not that of the bubble.
type noDeadline struct{ testing.TB }

// A single server, its clients, restarts and crashes: RU-61 to RU-69, RU-72 to RU-74, and RU-01 by the table of states.
func TestRU_ASingleServerKeepsItsPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			w := &world{other: func(string) *Service { return nil }, t: rt, net: newNetwork(rt), work: map[string]int{}, runs: map[string]*told{}, keys: map[string]string{}}
			w.stormy = func() bool { return w.alive.cut() != nil }
			w.open()
			defer func() {
				_ = w.s.Close()
				_ = w.net.db.Close()
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"start": w.start, "start more": w.start, "read": w.look, "cancel": w.cancel, "sleep": w.sleep, "drain": w.drain, "crash": w.crash,
			})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for id, m := range w.runs {
				if len(m.events) > 0 {
					w.read(id, m, slices.Max(slices.Collect(maps.Keys(m.events)))+1)
				}
				w.read(id, m, 0)
				if m.status == "" {
					rt.Fatalf("RU-69: %s (%s) does not end", id, m.workflow)
				}
				if n := w.worked()[id]; m.workflow == work && n > 1 || n > MaxCrashes+m.drains {
					rt.Fatalf("RU-66: the work of %s began %d times", id, n)
				}
				if m.workflow == again && (m.status == StatusInterrupted || m.status == StatusFailed && m.crashes < MaxCrashes) {
					rt.Fatalf("DU-05: %s ends %s after %d crashes and %d drains", id, m.status, m.crashes, m.drains)
				}
			}
			if l, h := w.s.Load(), w.ledger.Holdings(); l.Running != 0 || h.Waiting != 0 {
				rt.Fatalf("RU-72: %+v %+v", l, h)
			}
		})
	})
}

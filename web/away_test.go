package web

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
)

// runsAway is a store of runs that cannot be reached since it was opened. err is the error of Find; nil: [store.ErrAway].
type runsAway struct {
	run.Store
	err error
}

func (runsAway) Start(context.Context, store.Run, *store.IdempotencyKey) (*store.IdempotencyKey, error) {
	return nil, store.ErrAway
}

func (runsAway) FindKey(context.Context, string, string) (store.IdempotencyKey, bool, error) {
	return store.IdempotencyKey{}, false, store.ErrAway
}

func (r runsAway) Find(context.Context, string) (store.Run, error) {
	return store.Run{}, cmp.Or(r.err, store.ErrAway)
}

// awayBench is a server whose store of runs cannot be reached.
func awayBench(t testing.TB) *bench { return unreadableBench(t, nil) }

// unreadableBench is a server whose store of runs finds none, because of an error.
func unreadableBench(t testing.TB, err error) *bench {
	d, openErr := db.Open(t.Context(), "memory", nil)
	if openErr != nil {
		t.Fatal(openErr)
	}
	t.Cleanup(func() { _ = d.Close() })
	return newBench(t, func(o *Options) { o.Runs = runsAway{d.Runs(), err} }).serve()
}

// A reader that resumes while the run cannot be found out about is broken off, and comes back: a 503 would end an EventSource, and "gone" would be wrong.
func TestAReaderIsBrokenOffWhileItsRunCannotBeRead(t *testing.T) {
	for name, err := range map[string]error{"away": store.ErrAway, "closed": store.ErrClosed, "moved": run.ErrMoved, "draining": run.ErrDraining} {
		t.Run(name, func(t *testing.T) {
			b := unreadableBench(t, err)
			id := run.NewID()
			for _, path := range []string{"/v1/runs/" + id + "/events", "/v1/runs?workflow=steps"} {
				if resp, err := b.try(t.Context(), "GET", path, "", asEvents, "Last-Event-ID: "+id+":0"); err == nil {
					t.Errorf("%s: %d %s", path, resp.StatusCode, text(t, resp))
				}
			}
		})
	}
}

// A reader that has had events of a later attempt of a run is broken off at a replica that does not know yet that it has lost the run.
func TestAReaderOfALaterAttemptIsBrokenOff(t *testing.T) {
	b := newBench(t, nil).serve()
	started := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async"))
	st := <-b.steps.came
	defer st.finish()
	for _, path := range []string{"/v1/runs/" + started.Run + "/events", "/v1/runs?workflow=steps"} {
		if resp, err := b.try(t.Context(), "GET", path, "", asEvents, fmt.Sprintf("Last-Event-ID: %s:%d", started.Run, uint64(run.Epoch))); err == nil {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text(t, resp))
		}
	}
}

// databaseAway is the error of a database that cannot be reached.
type databaseAway struct{}

func (databaseAway) Error() string        { return "away" }
func (databaseAway) ErrorCode() string    { return wire.CodeOverloaded }
func (databaseAway) Is(target error) bool { return target == store.ErrAway || target == tape.ErrAway }

// tapesAway is a store of tapes that cannot be reached.
type tapesAway struct{ tape.Store }

func (tapesAway) Info(context.Context, string) (tape.Info, error) { return tape.Info{}, databaseAway{} }

func (tapesAway) Sessions(context.Context, tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) { yield(tape.Info{}, databaseAway{}) }
}

// failingFiles is a store of files that has an error.
type failingFiles struct {
	FileStore
	err error
}

func (f failingFiles) Find(context.Context, string, string) (store.File, error) {
	return store.File{}, f.err
}

func (f failingFiles) Held(context.Context, string) (int, int64, error) { return 0, 0, f.err }

func (f failingFiles) Remove(context.Context, string, string) error { return f.err }

// endsAway is a store of runs that takes no ends while it is away.
type endsAway struct {
	run.Store
	away atomic.Bool
}

func (e *endsAway) End(ctx context.Context, end store.RunEnd) error {
	if e.away.Load() {
		return store.ErrAway
	}
	return e.Store.End(ctx, end)
}

// RU-13: who waits for a document whose end cannot be stored for long gets 503 with the run's id, and the document when the database is back.
func TestADocumentWhoseEndCannotBeStoredIsThereLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), "memory", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ends := &endsAway{Store: d.Runs()}
		b := newBench(t, func(o *Options) { o.Runs = ends }).servePipes()
		defer b.down()
		ends.away.Store(true)
		answered := make(chan *http.Response, 1)
		go func() { answered <- b.do("POST", "/v1/runs?format=json", `{"workflow":"steps"}`) }()
		st := <-b.steps.came
		st.send("a", "b")
		st.finish()
		resp := <-answered
		p := readProblem(t, resp)
		if p.Status != 503 || p.Code != wire.CodeOverloaded || p.Run == "" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%+v %v", p, resp.Header)
		}
		ends.away.Store(false)
		time.Sleep(10 * time.Second)
		if got := readDocument(t, b.do("GET", "/v1/runs/"+p.Run, "")); got.Status != run.StatusCompleted || string(got.Result) != `{"a":"b"}` {
			t.Errorf("%s %s", got.Status, got.Result)
		}
	})
}

package web

import (
	"context"
	"iter"
	"testing"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
)

// runsAway is a store of runs that cannot be reached since it was opened.
type runsAway struct{ run.Store }

func (runsAway) Start(context.Context, store.Run, *store.IdempotencyKey) (*store.IdempotencyKey, error) {
	return nil, store.ErrAway
}

func (runsAway) FindKey(context.Context, string, string) (store.IdempotencyKey, bool, error) {
	return store.IdempotencyKey{}, false, store.ErrAway
}

func (runsAway) Find(context.Context, string) (store.Run, error) { return store.Run{}, store.ErrAway }

// awayBench is a server whose store of runs cannot be reached.
func awayBench(t testing.TB) *bench {
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return newBench(t, func(o *Options) { o.Runs = runsAway{d.Runs()} }).serve()
}

// Who comes back while the database is away is broken off, and comes back once more: to be told 503 would end an EventSource.
func TestWhoComesBackWhileTheDatabaseIsAwayIsBrokenOff(t *testing.T) {
	b := awayBench(t)
	id := run.NewID()
	for _, path := range []string{"/v1/runs/" + id + "/events", "/v1/runs?workflow=steps"} {
		if resp, err := b.try(t.Context(), "GET", path, "", asEvents, "Last-Event-ID: "+id+":0"); err == nil {
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

package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tool"
)

// Store is where runs, their events and the Idempotency-Keys are stored. Errors: [store.ErrAway] and [store.ErrFull], and what a method names.
type Store interface {
	// Start stores a run, and the key that leads to it. Where the key leads to a run already, it stores nothing and returns the key.
	Start(ctx context.Context, r store.Run, key *store.IdempotencyKey) (taken *store.IdempotencyKey, err error)
	// FindKey returns a key that has not expired.
	FindKey(ctx context.Context, owner, key string) (store.IdempotencyKey, bool, error)
	// PutKey stores a key, unless it is there already: then it returns that one.
	PutKey(ctx context.Context, k store.IdempotencyKey) (taken *store.IdempotencyKey, err error)
	// MoveKey lets a key that leads to one run lead to another.
	MoveKey(ctx context.Context, owner, key, from, to string) (bool, error)
	// Append stores events of runs. It returns the runs of which it stored none: they are not this replica's any more.
	Append(ctx context.Context, replica string, batches []store.RunBatch) (moved []string, err error)
	// SetState stores the state of a run. Error: [store.ErrMoved].
	SetState(ctx context.Context, id, replica string, attempt int, state string) error
	// Suspend stores that a run waits, and that nobody works on it until a time. Error: [store.ErrMoved].
	Suspend(ctx context.Context, id, replica string, attempt int, wake time.Time) error
	// Stepped stores that runs of a replica have finished a step: they have not crashed since.
	Stepped(ctx context.Context, replica string, ids []string) error
	// End stores the end of a run with its last events. Error: [store.ErrMoved].
	End(ctx context.Context, e store.RunEnd) error
	// Release leaves runs to whoever takes them.
	Release(ctx context.Context, replica string, ids []string) error
	// Find returns a run. Error: [store.ErrNotFound].
	Find(ctx context.Context, id string) (store.Run, error)
	// Batches calls each with the events of a run in order.
	Batches(ctx context.Context, id string, each func(store.RunBatch) error) error
	// Left lists runs that go on, the oldest first, whose replica is none of those.
	Left(ctx context.Context, alive []string, limit int) ([]store.Run, error)
	// Take gives a run to a replica, as its next attempt. Error: [store.ErrMoved].
	Take(ctx context.Context, t store.Takeover) (store.Run, error)
	// List lists runs, the newest first. next is the cursor of the rest; "" is the end.
	List(ctx context.Context, q store.RunQuery) (list []store.Run, next string, err error)
	// LatestOf returns the run that was started last in a session. Error: [store.ErrNotFound].
	LatestOf(ctx context.Context, session string) (store.Run, error)
}

// origin is what a run is from its start to its end. Its JSON is the column request of the run, which has what no other column has.
type origin struct {
	ID    string    `json:"-"`
	Of    Subject   `json:"-"`
	Began time.Time `json:"-"`
	owner string    // who started it; "" is the one user of a server without keys

	Session    string    `json:"session,omitempty"`    // of a turn, as its owner calls it; "" for none
	Keyed      bool      `json:"keyed,omitempty"`      // started with an Idempotency-Key: kept longer, and across restarts
	Caller     string    `json:"caller,omitempty"`     // the name that it counts for; "" for none
	Role       tool.Role `json:"role,omitempty"`       // of who started it
	KeyTag     string    `json:"key_tag,omitempty"`    // of the API key that started it; "" for none
	Again      *Request  `json:"again,omitempty"`      // what it goes on from if its server is lost; nil: it does not
	Unattended bool      `json:"unattended,omitempty"` // see [Request.Unattended]
}

// Lane is the session that the run is a turn of, as tapes and turns call it; "" for none.
func (o *origin) Lane() string {
	if o.Session == "" {
		return ""
	}
	return webchannel.SessionKey(o.owner, o.Session)
}

// originOf returns the origin of a row. With an error it is what the other columns have.
func originOf(row *store.Run) (o origin, err error) {
	if len(row.Request) > 0 {
		err = json.Unmarshal(row.Request, &o)
	}
	o.ID, o.Of, o.owner, o.Began = row.ID, Subject{row.Workflow, row.Agent}, row.Owner, row.Created
	return o, err
}

// rowOf returns the row of a run that starts.
func (s *Service) rowOf(sp *spec) store.Run {
	o := sp.origin
	if o.Again != nil {
		again := *o.Again
		again.Session, o.Again = o.Session, &again
	}
	return store.Run{
		ID: o.ID, Workflow: o.Of.Workflow, Agent: o.Of.Agent, Owner: o.owner, Session: o.Lane(), Replica: s.replica, Attempt: 1,
		State: sp.state(), Request: mustJSON(o), Created: o.Began,
	}
}

// storeStart stores that a run starts, before its work begins. One that goes on is stored already.
func (s *Service) storeStart(sp *spec) error {
	if sp.resumed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.working, storeWait)
	defer cancel()
	sp.Began = time.Now()
	key := s.keyOf(sp, sp.ID)
	if sp.steered { // it leads to the run that was steered
		key = nil
	}
	row := s.rowOf(sp)
	taken, err := s.store.Start(ctx, row, key)
	if errors.Is(err, store.ErrUnsure) { // it finds itself
		taken, err = s.store.Start(ctx, row, key)
	}
	switch {
	case err != nil:
		return s.storeError(ctx, err)
	case taken != nil:
		return &keyTaken{*taken}
	}
	return nil
}

// storeError is the error for a caller of one of the store.
func (s *Service) storeError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrFull):
		s.log.ErrorContext(ctx, "cannot store a run: disk failed or full", "error", err)
		s.o.Pressure.DiskFailed()
		return diskFull()
	case errors.Is(err, store.ErrAway), errors.Is(err, store.ErrUnsure), errors.Is(err, context.DeadlineExceeded):
		s.log.WarnContext(ctx, "cannot reach the database", "error", err)
		return away()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	e := internal("the server cannot store or read the run; find the cause in its log under this id")
	s.log.ErrorContext(ctx, "cannot use the store of runs", "id", e.ID, "error", err)
	return e
}

// state is what the store says of the run when its work begins.
func (sp *spec) state() string {
	if sp.queued {
		return store.RunQueued
	}
	return store.RunRunning
}

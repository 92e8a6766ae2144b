package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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

// begun is what the column request of a run says: what is known of it beside the other columns.
type begun struct {
	Session string    `json:"session,omitempty"` // as its owner calls it
	Keyed   bool      `json:"keyed,omitempty"`
	Caller  string    `json:"caller,omitempty"`  // whom it is counted for
	Role    tool.Role `json:"role,omitempty"`    // of who started it
	KeyTag  string    `json:"key_tag,omitempty"` // of the API key that started it
	Again   *Request  `json:"again,omitempty"`   // what it goes on from if its server is lost; nil: it does not

	Unattended bool `json:"unattended,omitempty"` // see [Request.Unattended]
}

// rowOf is a run that starts as a row.
func (s *Service) rowOf(sp *spec) store.Run {
	b := begun{Session: sp.session, Keyed: sp.key != "", Caller: sp.caller, Role: sp.role, KeyTag: sp.keyTag}
	if sp.request != nil {
		again := *sp.request
		if again.Session = sp.session; sp.agent != nil {
			b.Unattended = sp.agent.unattended
		}
		b.Again = &again
	}
	of := sp.of()
	return store.Run{
		ID: sp.id, Workflow: of.Workflow, Agent: of.Agent, Owner: sp.owner, Session: sp.lane(), Replica: s.replica, Attempt: 1,
		State: sp.state(), Request: mustJSON(b), Created: time.Now(),
	}
}

// storeStart stores that a run starts, before its work begins. One that goes on is stored already.
func (s *Service) storeStart(sp *spec) error {
	if sp.resumed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.working, storeWait)
	defer cancel()
	key := s.keyOf(sp, sp.id)
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

// begunOf reads the column request.
func begunOf(row *store.Run) (b begun, err error) {
	if len(row.Request) > 0 {
		err = json.Unmarshal(row.Request, &b)
	}
	return b, err
}

// state is what the store says of the run when its work begins.
func (sp *spec) state() string {
	if sp.queued || sp.resumed != nil {
		return store.RunQueued // until its turn begins, or it has a slot
	}
	return store.RunRunning
}

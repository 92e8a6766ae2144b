package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// Store is where runs, their events and the Idempotency-Keys are stored. Errors: [store.ErrAway] and [store.ErrFull], and what a method names.
type Store interface {
	// Start stores a run, and the key that leads to it. Where the key leads to a run already, it stores nothing and returns the key.
	Start(ctx context.Context, r store.Run, key *store.IdempotencyKey) (taken *store.IdempotencyKey, err error)
	// FindKey returns a key that has not expired.
	FindKey(ctx context.Context, owner, key string) (store.IdempotencyKey, bool, error)
	// SetKey stores a key, or makes it lead to another run.
	SetKey(ctx context.Context, k store.IdempotencyKey) error
	// Append stores events of runs. It returns the runs of which it stored none: they are not this replica's any more.
	Append(ctx context.Context, replica string, batches []store.RunBatch) (moved []string, err error)
	// SetState stores the state of a run, and how many servers in a row it has crashed. Error: [store.ErrMoved].
	SetState(ctx context.Context, id, replica string, attempt int, state string, crashes int) error
	// Suspend stores that a run waits, and that no replica works on it until a time. Error: [store.ErrMoved].
	Suspend(ctx context.Context, id, replica string, attempt int, wake time.Time) error
	// End stores the end of a run with its last events. Error: [store.ErrMoved].
	End(ctx context.Context, e store.RunEnd) error
	// Release hands runs over: any replica may take them.
	Release(ctx context.Context, replica string, ids []string) error
	// Find returns a run. Error: [store.ErrNotFound].
	Find(ctx context.Context, id string) (store.Run, error)
	// Batches calls each with the events of a run in order.
	Batches(ctx context.Context, id string, each func(store.RunBatch) error) error
	// Left lists runs that go on, the oldest first, whose replica is none of those alive and has not just joined. Those of own are among them
	// unless it is in alive.
	Left(ctx context.Context, own string, alive []string, limit int) ([]store.Run, error)
	// Take gives a run to a replica, as its next attempt. Error: [store.ErrMoved].
	Take(ctx context.Context, t store.Takeover) error
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
	detail := "the server cannot store or read the run; find the cause in its log under this id"
	return s.internal(ctx, detail, "cannot use the store of runs", "error", err)
}

// state returns the state of the run's row at the start.
func (sp *spec) state() string {
	if sp.queued {
		return store.RunQueued
	}
	return store.RunRunning
}

// mustJSON is for what can always be JSON: our own types, and text of requests that was read as such.
func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("run: %w", err))
	}
	return text
}

// Kinds of what is in the events of a batch: one byte, and then what is named. A text stands behind its length.
const (
	batchBegins = 'b' // number of the first event; base. What came before is not needed.
	batchPiece  = 'p' // number of its block's first event, offset in the block, bytes
	batchNote   = 'n' // note of the run's workflow
)

// lockNext locks the recording and returns the next batch. If there is no batch, or the end of the run is being stored, it returns nil and does not
// lock.
func (v *recording) lockNext(r *Run) *store.RunBatch {
	if !v.mu.TryLock() {
		return nil
	}
	b := v.next(r)
	if b == nil {
		v.mu.Unlock()
	}
	return b
}

// next returns the next batch; nil is none. It is called with the recording locked.
func (v *recording) next(r *Run) *store.RunBatch {
	if v.pending != nil {
		return v.pending
	}
	t, first := r.tube, v.at.End()
	var text []byte
	if !v.began {
		text, v.began, first = v.begin(t), true, t.From()
	}
	for len(text) < maxBatch {
		piece, ok := t.Piece(&v.at)
		if !ok {
			text = v.begin(t)
			continue
		}
		if len(piece.Data) == 0 {
			break
		}
		text = append(text, batchPiece)
		text = binary.AppendUvarint(text, piece.First)
		text = binary.AppendUvarint(text, uint64(piece.Offset))
		text = appendText(text, piece.Data)
	}
	if m := r.manager.Load(); m != nil {
		for _, note := range m.Notes(v.at.End()) {
			text = appendText(append(text, batchNote), note)
		}
	}
	if len(text) == 0 {
		return nil
	}
	v.pending = &store.RunBatch{Run: r.ID, Attempt: v.attempt, Seq: v.seq, First: first, Events: text}
	return v.pending
}

// begin returns the beginning of the events: what they have come to, as far as the pieces that follow do not say it.
func (v *recording) begin(t *tube.Tube) []byte {
	v.at = tube.Place{}
	var base []byte
	if !t.Compact(smallLog) {
		base = t.AppendBase(nil, &v.at)
	}
	return appendText(binary.AppendUvarint([]byte{batchBegins}, t.From()), base)
}

// stored says that the batch that next returned is stored. It is called with the recording locked.
func (v *recording) stored() {
	v.pending = nil
	v.seq++
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// errBatch says that events that are stored cannot be read.
var errBatch = errors.New("the stored events cannot be read")

// stored is what is stored of the events of a run.
type stored struct {
	tube   *tube.Tube     // nil where there are none
	last   store.RunBatch // without its events
	notes  [][]byte
	replay *tube.Replay // makes the tube
}

// readStored reads the stored events of a run. With [errBatch] it returns those before the damage.
func (s *Service) readStored(ctx context.Context, id string) (so stored, err error) {
	err = s.store.Batches(ctx, id, func(b store.RunBatch) error { return so.read(b, s.o.MaxLog) })
	if so.replay != nil && (err == nil || errors.Is(err, errBatch)) {
		so.tube, so.replay = so.replay.Tube(), nil
	}
	return so, err
}

// read reads the next batch.
func (so *stored) read(b store.RunBatch, maxLog int) (err error) {
	rest := bytes.NewBuffer(b.Events)
	so.last = b
	so.last.Events = nil
	number := func() (n uint64) {
		if err == nil {
			n, err = binary.ReadUvarint(rest)
		}
		return n
	}
	text := func() []byte {
		n := number()
		if err == nil && n > uint64(rest.Len()) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil
		}
		return slices.Clip(rest.Next(int(n)))
	}
	for err == nil && rest.Len() > 0 {
		switch kind, _ := rest.ReadByte(); kind {
		case batchBegins:
			o := TubeOptions(maxLog)
			o.From = number()
			if base := text(); err == nil {
				if so.replay = tube.NewReplay(b.Run, o); len(base) > 0 {
					err = so.replay.Base(base)
				}
			}
		case batchPiece:
			piece := tube.Piece{First: number(), Offset: int(number() & (1<<31 - 1)), Data: text()}
			if err == nil && so.replay == nil {
				err = errors.New("a piece before the first event")
			}
			if err == nil {
				err = so.replay.Piece(piece)
			}
		case batchNote:
			so.notes = append(so.notes, text())
		default:
			err = fmt.Errorf("unknown kind %q", kind)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: batch %d of attempt %d: %w", errBatch, b.Seq, b.Attempt, err)
	}
	return nil
}

// TubeOptions are those of tubes that no manager makes.
func TubeOptions(maxLog int) *tube.Options {
	return &tube.Options{MaxBytes: maxLog}
}

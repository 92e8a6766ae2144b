package logs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// patience is how long an append tries again because other writers were first.
const patience = 15 * time.Second

// request is a batch that waits to be written. Its fields belong to the call that has the turn of the tape, and then to the caller.
type request struct {
	batch    tape.Batch
	entries  []tape.Entry // of the batch, checked
	numbered bool         // they have ids and dates
	size     int64        // bytes of their lines
	first    int64
	err      error
	done     bool
}

// end ends a request; written is the id of its first entry.
func (r *request) end(written int64, err error) {
	r.first, r.err, r.done = written, err, true
	if err != nil {
		r.first = 0
	}
}

// Append implements [tape.Store].
func (s *Store) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	if err := tape.CheckName(name); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return 0, err
	}
	defer done()
	r := &request{batch: b, entries: entries}
	s.append(ctx, name, r)
	if o := s.options.Observer; o != nil && (r.err != nil || r.size > 0) { // a batch that happens once may have been there
		if r.err != nil {
			r.size = 0
		}
		o.Appended(len(entries), r.size, r.err)
	}
	return r.first, r.err
}

// append waits for the turn of the tape. Who gets it writes the batches of all who wait.
func (s *Store) append(ctx context.Context, name string, r *request) {
	sl := s.join(name, r)
	defer s.leave(name, sl)
	select {
	case sl.turn <- struct{}{}:
	case <-ctx.Done():
		if s.dequeue(sl, r) {
			r.end(0, context.Cause(ctx))
			return
		}
		sl.turn <- struct{}{} // it is being written in this moment
	}
	defer func() { <-sl.turn }()
	if r.done {
		return
	}
	s.mu.Lock()
	queue := sl.queue
	sl.queue = nil
	s.mu.Unlock()
	if len(queue) > 1 { // others must not lose their batches with this caller
		ctx = context.WithoutCancel(ctx)
	}
	for len(queue) > 0 {
		queue = queue[s.write(ctx, name, sl, queue):]
	}
}

// dequeue takes a request back that is not yet being written.
func (s *Store) dequeue(sl *slot, r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(sl.queue, r)
	if i >= 0 {
		sl.queue = slices.Delete(sl.queue, i, i+1)
	}
	return i >= 0
}

// groupBytes bounds what is written with one batch for several callers.
const groupBytes = 1 << 20

// write writes the first requests of a queue with one batch, and returns how many of them have ended.
func (s *Store) write(ctx context.Context, name string, sl *slot, queue []*request) (ended int) {
	fail := func(err error) int {
		for _, r := range queue {
			r.end(0, err)
		}
		return len(queue)
	}
	held := s.holding(name)
	began := time.Now()
	// What the tape was last is mostly what it is: the engine takes nothing that was made for another revision. Only a refusal needs to be
	// sure.
	now := sl.state.Swap(nil)
	for sure := false; ; sure = true {
		if now == nil {
			var err error
			if now, err = s.look(ctx, name); err != nil {
				return fail(err)
			}
			sure = true
		}
		if !sure && held != nil && held.behind(now) {
			now = nil
			continue
		}
		by, err := s.fenced(held, now)
		if err != nil {
			return fail(err)
		}
		next := *now.seen(name)
		next.epoch = by
		n, ok := s.number(ctx, &next, queue, sure)
		if !ok {
			now = nil
			continue
		}
		if n == 0 {
			if now.exists() {
				sl.state.Store(now)
			}
			return 1
		}
		group := queue[:n]
		if now.importing { // of an import that was cut off, or that has lost against this batch
			if err := s.space.Delete(ctx, now.key); err != nil {
				return fail(s.explain(name, err))
			}
		}
		err = s.store(ctx, name, &next, group)
		if err == nil {
			sl.state.Store(&next)
			s.indexer.grown(now.seen(name).info.Entries, &next)
			for _, r := range group {
				r.end(r.entries[0].ID, nil)
			}
			return len(group)
		}
		moved, ok := errors.AsType[*store.MovedLog](err)
		if ok && time.Since(began) > patience {
			err = &Error{textBusy, err}
		}
		if !ok || time.Since(began) > patience {
			for _, r := range group {
				r.end(0, s.explain(name, err))
			}
			return len(group)
		}
		if now, err = s.stateOf(ctx, name, moved.Info); err != nil {
			return fail(err)
		}
	}
}

// number gives ids to the first n requests, as many as can be one batch, and adds them to the state. If the first is refused, it ends, if the state is
// sure; else the result is false.
func (s *Store) number(ctx context.Context, st *state, queue []*request, sure bool) (n int, ok bool) {
	size := 0
	for i, r := range queue {
		for _, e := range r.entries {
			size += len(e.Payload) + len(e.Meta)
		}
		if i > 0 && (r.batch.Fork != "" || size > groupBytes) {
			return i, true
		}
		if r.numbered { // for another revision
			r.entries, _ = r.batch.Check()
		}
		r.numbered = true
		written, err := r.batch.Number(r.entries, st.info, time.Now(), s.entriesOf(ctx, st, r))
		if err != nil || written > 0 {
			if i == 0 && sure {
				r.end(written, err)
			}
			return i, i > 0 || sure // behind others, it is looked at when they are written
		}
		st.info.AddBatch(r.batch, r.entries)
	}
	return len(queue), true
}

// entriesOf reads the entries of a tape for a request that wants to be written once, which is the first of its group.
func (s *Store) entriesOf(ctx context.Context, st *state, r *request) func(after int64) iter.Seq2[tape.Entry, error] {
	if r.batch.Fork == "" {
		return nil // it looks for none
	}
	return func(after int64) iter.Seq2[tape.Entry, error] {
		return (&source{ctx: ctx, s: s, state: st}).Entries(after, st.info.LastID+1, false)
	}
}

// seen is what writers see of a tape: of an import that has not ended they see nothing.
func (st *state) seen(name string) *state {
	if st.exists() {
		return st
	}
	return &state{info: tape.Info{Tape: name}}
}

// store writes batches behind the revision of a state, which has their entries already, and gives the state its new revision. Without
// batches it changes only the head.
func (s *Store) store(ctx context.Context, name string, st *state, group []*request) (err error) {
	b := store.Batch{After: st.rev}
	_, _ = rand.Read(b.ID[:]) // never fails
	size := 0
	for _, r := range group {
		for _, e := range r.entries {
			size += lineSize + len(e.Kind) + len(e.Payload) + len(e.Meta)
		}
	}
	lines := make([]byte, 0, size)
	for _, r := range group {
		r.size = 0
		for _, e := range r.entries {
			start := len(lines)
			lines = e.AppendJSON(lines)
			b.Entries = append(b.Entries, store.Entry{N: uint64(e.ID), Data: lines[start:len(lines):len(lines)], Mark: e.Kind == tape.KindAnchor})
			r.size += int64(len(lines) - start)
		}
	}
	if st.rev == store.New {
		b.Label, st.key = groupOf(st.info.Session), keyOf(name)
	}
	b.Updated = st.info.Updated // also of a fence, which does not change the place of the tape in lists
	if b.Head, err = st.encode(); err != nil {
		return err
	}
	in, err := s.space.Append(ctx, st.key, b)
	if err != nil {
		return err
	}
	st.rev, st.first, st.head, st.info.Bytes = in.Rev, in.First, b.Head, in.Bytes
	return nil
}

// lineSize is the most that a line has beside kind, payload and meta.
const lineSize = 128

// importBytes is how many bytes an import appends at once.
const importBytes = 256 << 10

// Import implements [tape.Importer]. The entries are appended as they come; the head says that there is no tape before the last batch.
func (s *Store) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	sl, err := s.take(ctx, name)
	if err != nil {
		return err
	}
	defer s.give(name, sl)
	sl.state.Store(nil)
	now, err := s.look(ctx, name)
	if err != nil {
		return err
	}
	if now.exists() {
		return fmt.Errorf("%w: the tape has %d entries", tape.ErrNotEmpty, now.info.Entries)
	}
	by, err := s.fenced(s.holding(name), now)
	if err != nil {
		return err
	}
	if now.importing {
		if err := s.space.Delete(ctx, now.key); err != nil {
			return s.explain(name, err)
		}
	}
	in := importer{s: s, name: name, state: state{importing: true, epoch: by, info: tape.Info{Tape: name}}, session: session, workspace: workspace}
	if err = in.run(ctx, entries); err == nil {
		sl.state.Store(&in.state)
		s.indexer.add(in.state.key)
	}
	return err
}

// undoTime bounds the removal of an import that has failed.
const undoTime = 5 * time.Second

// importer is an import under way.
type importer struct {
	s                        *Store
	name, session, workspace string

	state   state // with the entries that wait
	waiting []tape.Entry
	lost    bool // another writer made the tape
}

// checked yields the entries as they are stored, and adds each to the state.
func (in *importer) checked(ctx context.Context, entries iter.Seq2[tape.Entry, error]) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		i := &in.state.info
		for e, err := range entries {
			if err == nil {
				err = context.Cause(ctx)
			}
			if err == nil {
				var checked []tape.Entry
				if checked, err = (tape.Batch{Entries: []tape.Entry{e}}).Check(); err != nil {
					err = fmt.Errorf("entry %d: %w", e.ID, err)
				} else if e = checked[0]; e.ID <= i.LastID {
					err = fmt.Errorf("%w: id %d follows %d; expected rising ids", tape.ErrInvalid, e.ID, i.LastID)
				}
			}
			if err != nil {
				yield(tape.Entry{}, err)
				return
			}
			if e.Date.IsZero() {
				e.Date = time.Now()
			}
			e.Date = e.Date.UTC().Truncate(time.Microsecond)
			i.Add(e)
			if in.session != "" {
				i.Session, i.Workspace = in.session, in.workspace
			}
			if !yield(e, nil) {
				return
			}
		}
		if i.Entries == 0 {
			yield(tape.Entry{}, fmt.Errorf("%w: expected at least one entry in an import", tape.ErrInvalid))
		}
	}
}

// run imports batch by batch.
func (in *importer) run(ctx context.Context, entries iter.Seq2[tape.Entry, error]) (err error) {
	defer func() {
		if err != nil && in.state.rev != store.New && !in.lost {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
			defer cancel()
			err = errors.Join(err, in.s.space.Delete(end, in.state.key))
		}
	}()
	size := 0
	for e, err := range in.checked(ctx, entries) {
		if err != nil {
			return err
		}
		e.Payload, e.Meta = slices.Clone(e.Payload), slices.Clone(e.Meta) // they are valid up to the next one
		in.waiting = append(in.waiting, e)
		if size += len(e.Payload) + len(e.Meta); size >= importBytes {
			if err := in.flush(ctx); err != nil {
				return err
			}
			size = 0
		}
	}
	in.state.importing = false
	return in.flush(ctx) // perhaps only the head
}

// flush appends what waits.
func (in *importer) flush(ctx context.Context) error {
	err := in.s.store(ctx, in.name, &in.state, []*request{{entries: in.waiting}})
	if errors.Is(err, store.ErrMoved) {
		in.lost = true
		return fmt.Errorf("%w: another process is creating the tape", tape.ErrNotEmpty)
	}
	in.waiting = in.waiting[:0]
	return in.s.explain(in.name, err)
}

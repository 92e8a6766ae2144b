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
	first, size, err := s.append(ctx, name, b, entries)
	if o := s.options.Observer; o != nil && (err != nil || size > 0) { // a batch that happens once may have been there
		o.Appended(len(entries), size, err)
	}
	return first, err
}

func (s *Store) append(ctx context.Context, name string, b tape.Batch, checked []tape.Entry) (first, size int64, err error) {
	sl, err := s.take(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer s.give(name, sl)
	held := s.holding(name)
	began := time.Now()
	// What the tape was last is mostly what it is: the engine takes nothing that was made for another revision. Only a refusal needs to be
	// sure.
	known := sl.state
	sl.state = nil
	for now := known; ; {
		if now == nil {
			if now, err = s.look(ctx, name); err != nil {
				return 0, 0, err
			}
			known = nil
		}
		if known != nil && held != nil && held.behind(now) {
			now = nil
			continue
		}
		by, err := s.fenced(held, now)
		if err != nil {
			return 0, 0, err
		}
		was := now.seen(name)
		entries := slices.Clone(checked)
		written, err := b.Number(entries, was.info, time.Now(), func(after int64) iter.Seq2[tape.Entry, error] {
			return (&source{ctx: ctx, s: s, state: was}).Entries(after, was.info.LastID+1, false)
		})
		if (err != nil || written > 0) && known != nil {
			now = nil
			continue
		}
		if err != nil || written > 0 {
			if now.exists() {
				sl.state = now
			}
			return written, 0, err
		}
		if now.importing { // of an import that was cut off, or that has lost against this batch
			if err := s.log.Delete(ctx, now.key); err != nil {
				return 0, 0, s.explain(name, err)
			}
		}
		next := state{rev: was.rev, key: was.key, first: was.first, info: was.info, epoch: by}
		next.info.AddBatch(b, entries)
		err = s.store(ctx, name, &next, entries)
		if err == nil {
			sl.state = &next
			s.indexer.grown(&next, entries)
			return entries[0].ID, next.info.Bytes - was.info.Bytes, nil
		}
		moved, ok := errors.AsType[*store.MovedLog](err)
		if !ok {
			return 0, 0, s.explain(name, err)
		}
		if time.Since(began) > patience {
			return 0, 0, &Error{textBusy, err}
		}
		known = nil
		if now, err = s.stateOf(ctx, name, moved.Info); err != nil {
			return 0, 0, err
		}
	}
}

// seen is what writers see of a tape: of an import that has not ended they see nothing.
func (st *state) seen(name string) *state {
	if st.exists() {
		return st
	}
	return &state{info: tape.Info{Tape: name}}
}

// store writes entries behind the revision of a state, which has them already, and gives the state its new revision.
func (s *Store) store(ctx context.Context, name string, st *state, entries []tape.Entry) error {
	b := store.Batch{After: st.rev, Entries: make([]store.Entry, len(entries))}
	_, _ = rand.Read(b.ID[:]) // never fails
	size := 0
	for _, e := range entries {
		size += lineSize + len(e.Kind) + len(e.Payload) + len(e.Meta)
	}
	lines := make([]byte, 0, size)
	for i, e := range entries {
		start := len(lines)
		lines = e.AppendJSON(lines)
		b.Entries[i] = store.Entry{N: uint64(e.ID), Data: lines[start:len(lines):len(lines)], Mark: e.Kind == tape.KindAnchor}
	}
	if st.rev == store.New {
		b.Label = groupOf(st.info.Session)
		var err error
		if st.key, err = keyOf(name); err != nil {
			return err
		}
	}
	if len(entries) > 0 {
		b.Updated = st.info.Updated
	}
	var err error
	if b.Head, err = st.encode(); err != nil {
		return err
	}
	in, err := s.log.Append(ctx, st.key, b)
	if err != nil {
		return err
	}
	st.rev, st.first, st.info.Bytes = in.Rev, in.First, in.Bytes
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
	sl.state = nil
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
		if err := s.log.Delete(ctx, now.key); err != nil {
			return s.explain(name, err)
		}
	}
	in := importer{s: s, name: name, state: state{importing: true, epoch: by, info: tape.Info{Tape: name}}, session: session, workspace: workspace}
	if err := in.run(ctx, entries); err != nil {
		if in.state.rev != store.New && !in.lost {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
			defer cancel()
			err = errors.Join(err, s.log.Delete(end, in.state.key))
		}
		return err
	}
	sl.state = &in.state
	s.indexer.add(in.state.key)
	return nil
}

// undoTime bounds the removal of an import that has failed.
const undoTime = 5 * time.Second

// importer is an import under way.
type importer struct {
	s                        *Store
	name, session, workspace string

	state   state // with the entries that wait
	waiting []tape.Entry
	size    int
	lost    bool // another writer made the tape
}

func (in *importer) run(ctx context.Context, entries iter.Seq2[tape.Entry, error]) error {
	for e, err := range entries {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		checked, err := tape.Batch{Entries: []tape.Entry{e}}.Check()
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.ID, err)
		}
		if e = checked[0]; e.ID <= in.state.info.LastID {
			return fmt.Errorf("%w: id %d follows %d; expected rising ids", tape.ErrInvalid, e.ID, in.state.info.LastID)
		}
		if e.Date.IsZero() {
			e.Date = time.Now()
		}
		e.Date = e.Date.UTC().Truncate(time.Microsecond)
		e.Payload, e.Meta = slices.Clone(e.Payload), slices.Clone(e.Meta) // they are valid up to the next one
		size := len(e.Payload) + len(e.Meta)
		if len(in.waiting) > 0 && in.size+size > importBytes {
			if err := in.flush(ctx); err != nil {
				return err
			}
		}
		in.state.info.Add(e)
		if in.session != "" {
			in.state.info.Session, in.state.info.Workspace = in.session, in.workspace
		}
		in.waiting, in.size = append(in.waiting, e), in.size+size
	}
	if len(in.waiting) == 0 {
		return fmt.Errorf("%w: expected at least one entry in an import", tape.ErrInvalid)
	}
	in.state.importing = false
	return in.flush(ctx)
}

// flush appends what waits.
func (in *importer) flush(ctx context.Context) error {
	err := in.s.store(ctx, in.name, &in.state, in.waiting)
	if errors.Is(err, store.ErrMoved) {
		in.lost = true
		return fmt.Errorf("%w: another process is creating the tape", tape.ErrNotEmpty)
	}
	in.waiting, in.size = in.waiting[:0], 0
	return in.s.explain(in.name, err)
}

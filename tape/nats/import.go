package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// Import implements tape.Importer. The batches are stored as they come, each saying that there is no tape yet; the last one says that
// there is.
func (s *Store) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	sl, err := s.take(ctx, name)
	if err != nil {
		return err
	}
	defer s.give(name, sl)
	sl.head = nil
	h, err := s.head(ctx, name)
	if err != nil {
		return err
	}
	if h.there() {
		return fmt.Errorf("%w: the tape has %d entries", tape.ErrNotEmpty, h.Entries)
	}
	by, err := s.fenced(s.holding(name), h)
	if err != nil {
		return err
	}
	in := importer{s: s, name: name, by: by, last: h, info: tape.Info{Tape: name}}
	if err := in.run(ctx, session, workspace, entries); err != nil {
		if in.begun {
			// Nobody sees it; it is only in the way of room.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.waits.answer)
			defer cancel()
			err = errors.Join(err, s.purge(end, s.entries(name), in.last.seq+1))
		}
		return err
	}
	sl.keep(in.last)
	return nil
}

// importer is an import under way.
type importer struct {
	s     *Store
	name  string
	by    epoch
	last  *head
	begun bool
	info  tape.Info // with the entries that wait

	waiting []tape.Entry
	size    int
}

func (in *importer) run(ctx context.Context, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	for e, err := range entries {
		if err == nil {
			err = cause(ctx)
		}
		if err != nil {
			return err
		}
		checked, err := tape.Batch{Entries: []tape.Entry{e}}.Check()
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.ID, err)
		}
		if e = checked[0]; e.ID <= in.info.LastID {
			return fmt.Errorf("%w: id %d follows %d; expected rising ids", tape.ErrInvalid, e.ID, in.info.LastID)
		}
		if e.Date.IsZero() {
			e.Date = time.Now()
		}
		e.Date = e.Date.UTC().Truncate(time.Microsecond)
		// They are valid up to the next one.
		e.Payload, e.Meta = append([]byte(nil), e.Payload...), append([]byte(nil), e.Meta...)
		size := len(e.Payload) + len(e.Meta)
		if len(in.waiting) > 0 && in.size+size > in.s.inline/2 {
			if err := in.flush(ctx, statePending); err != nil {
				return err
			}
		}
		in.info.Add(e)
		in.waiting, in.size = append(in.waiting, e), in.size+size
	}
	if len(in.waiting) == 0 {
		return fmt.Errorf("%w: expected at least one entry in an import", tape.ErrInvalid)
	}
	if session != "" {
		in.info.Session, in.info.Workspace = session, workspace
	}
	return in.flush(ctx, "")
}

// flush stores what waits.
func (in *importer) flush(ctx context.Context, state string) error {
	now, err := in.s.store(ctx, in.name, in.last, in.info, in.waiting, in.by, state, !in.begun)
	if errors.Is(err, errMoved) {
		return fmt.Errorf("%w: another process is creating the tape", tape.ErrNotEmpty)
	}
	if err != nil {
		return err
	}
	if !in.begun && in.last != nil { // of another one that did not come to its end, or was erased
		in.s.clear(ctx, in.name, now)
	}
	in.info.Bytes = now.Bytes
	in.last, in.begun = now, true
	in.waiting, in.size = in.waiting[:0], 0
	return nil
}

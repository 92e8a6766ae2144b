package tape

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"
	"unicode/utf8"
)

// Import fills the tape of a session that has none with the lines of an export, all of them or nothing: ids, dates,
// meta, unknown kinds, and the bytes of payloads are kept. A session that has a tape is ErrNotEmpty. A line
// that is no entry is ErrInvalid with its number.
//
// Other spacing and another order of members are taken, dates with an offset, seconds since 1970 in "timestamp", and
// lines without meta, date or id; such an id follows the one before.
func Import(ctx context.Context, store Store, workspace, session string, r io.Reader) error {
	t, err := lookupNew(ctx, store, workspace, session)
	if err != nil {
		return err
	}
	line := 0
	err = store.Import(ctx, t.name, t.session, t.workspace, parseLines(r, &line))
	if line > 0 && (errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge)) {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// lookupNew returns the tape of a session that has none yet; one that exists is ErrNotEmpty.
func lookupNew(ctx context.Context, store Store, workspace, session string) (*Tape, error) {
	t, info, err := lookup(ctx, store, workspace, session)
	if err == nil {
		return nil, fmt.Errorf("%w: the session has a tape with %d entries", ErrNotEmpty, info.Entries)
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return t, nil
}

// parseLines yields the entries of an export. line is the number of the line that was read last; 0 if none has an entry.
func parseLines(r io.Reader, line *int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 2*MaxEntry) // spaces between members count until they are removed
		n, last := 0, int64(0)
		for lines.Scan() {
			if n++; len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			e, err := parseForeign(lines.Bytes())
			e.ID = cmp.Or(e.ID, last+1)
			*line, last = n, e.ID
			if !yield(e, err) || err != nil {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			*line = n + 1
			yield(Entry{}, fmt.Errorf("%w: an entry has at most %d bytes", ErrTooLarge, MaxEntry))
		case err != nil:
			yield(Entry{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// parseForeign reads a line that this or a similar program wrote. A missing id or date is zero.
func parseForeign(line []byte) (Entry, error) {
	var l struct {
		ID            int64
		Kind          Kind
		Payload, Meta json.RawMessage
		Date          time.Time
		Timestamp     *float64
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&l)
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("expected one JSON object")
	}
	switch {
	case !utf8.Valid(line):
		err = errors.New("the line is not UTF-8")
	case err != nil:
	case l.ID < 0:
		err = errors.New("invalid id; expected a whole number from 1")
	case l.Timestamp != nil && math.Abs(*l.Timestamp) > 253402300799: // the end of year 9999
		err = errors.New("timestamp must be a number of seconds since 1970")
	case l.Timestamp != nil && !l.Date.IsZero():
		err = errors.New("a line has a date or a timestamp, not both")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := Entry{ID: l.ID, Kind: l.Kind, Payload: l.Payload, Meta: l.Meta, Date: l.Date}
	if string(e.Meta) == "null" {
		e.Meta = nil
	}
	if l.Timestamp != nil {
		e.Date = time.UnixMicro(int64(math.Round(*l.Timestamp * 1e6)))
	}
	return e, nil
}

// ForkSession copies the tape up to the entry at, or all of it with 0, to a new session of the same workspace: ids are
// kept, and an event "session.forked" follows. Blobs that the entries name go along. A session that has a tape is
// ErrNotEmpty.
func (t *Tape) ForkSession(ctx context.Context, session string, at int64) (*Tape, error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	if at == 0 {
		at = info.LastID
	}
	if at < 1 || at > info.LastID {
		return nil, fmt.Errorf("%w: a session is forked at one of its entries 1–%d, not at %d", ErrInvalid, info.LastID, at)
	}
	target, err := lookupNew(ctx, t.Store(), t.workspace, session)
	if err != nil {
		return nil, err
	}
	event := NewEvent(EventSessionForked, map[string]any{"session": t.session, "at": at}).With(Meta{Session: target.session, Workspace: target.workspace})
	event.ID, event.Date = at+1, now()
	if err := t.copyTo(ctx, target, concat(t.Read(ctx, Query{Before: at + 1}), entriesOf(event))); err != nil {
		return nil, err
	}
	return target, nil
}

// Copy copies a session to another store, whole or not at all: its entries with their ids and dates, and its blobs. A session that the other
// store has is ErrNotEmpty.
func Copy(ctx context.Context, from Store, of Info, to Store) (*Tape, error) {
	source, err := Lookup(ctx, from, of.Workspace, of.Session)
	if err != nil {
		return nil, err
	}
	target, err := lookupNew(ctx, to, of.Workspace, of.Session)
	if err != nil {
		return nil, err
	}
	return target, source.copyTo(ctx, target, source.Read(ctx, Query{}))
}

// copyTo makes target of these entries. Blobs that they name go along.
func (t *Tape) copyTo(ctx context.Context, target *Tape, entries iter.Seq2[Entry, error]) error {
	handles := map[string]bool{}
	err := target.store.Import(ctx, target.name, target.session, target.workspace, func(yield func(Entry, error) bool) {
		for e, err := range entries {
			for _, s := range MetaOf(e).Spill {
				handles[s.Handle] = true
			}
			if !yield(e, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	created, err := target.info(ctx)
	if err == nil {
		target.born = created.Created
		err = t.copyBlobs(ctx, target, handles)
	}
	if err != nil {
		// Half a session is none.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
		defer cancel()
		return errors.Join(err, target.store.Delete(end, target.name))
	}
	return nil
}

// SessionForks returns the sessions that [Tape.ForkSession] made of this one, and those made of them: they have entries of it.
func (t *Tape) SessionForks(ctx context.Context) (forks []*Tape, err error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	made := map[string][]*Tape{} // of a session
	for in, err := range t.store.Sessions(ctx, SessionQuery{Workspace: t.workspace}) {
		if err != nil {
			return nil, err
		}
		if !in.Created.Equal(info.Created) { // a fork begins with the same entry
			continue
		}
		fork, err := Lookup(ctx, t.store, t.workspace, in.Session)
		var origins []string
		if err == nil {
			origins, err = fork.origins(ctx)
		}
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDeleted) { // erased meanwhile
			return nil, err
		}
		for _, origin := range origins {
			made[origin] = append(made[origin], fork)
		}
	}
	known := map[string]bool{t.session: true}
	for next := []*Tape{t}; len(next) > 0; next = next[1:] {
		for _, fork := range made[next[0].session] {
			if !known[fork.session] {
				known[fork.session] = true
				forks, next = append(forks, fork), append(next, fork)
			}
		}
	}
	return forks, nil
}

// origins returns the sessions that the tape is a fork of.
func (t *Tape) origins(ctx context.Context) (sessions []string, err error) {
	for e, err := range t.Read(ctx, Query{Kinds: []Kind{KindEvent}}) {
		if err != nil {
			return nil, err
		}
		var fork struct{ Session string }
		if p := PayloadOf(e); p.Name == EventSessionForked && json.Unmarshal(p.Data, &fork) == nil {
			sessions = append(sessions, fork.Session)
		}
	}
	return sessions, nil
}

// DeleteWithForks erases the forks of a session, and then the session: where that fails, the session is there to be erased once more.
// before is called before each is erased, and erases what others keep of it; nil is nothing.
func (t *Tape) DeleteWithForks(ctx context.Context, before func(*Tape) error) error {
	forks, err := t.SessionForks(ctx)
	if err != nil {
		return err
	}
	for _, one := range append(forks, t) {
		if before != nil {
			if err := before(one); err != nil {
				return err
			}
		}
		if err := one.Delete(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tape) copyBlobs(ctx context.Context, target *Tape, handles map[string]bool) error {
	for handle := range handles {
		data, _, err := t.ReadBlob(ctx, handle, 0, math.MaxInt64)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrDamaged):
			continue // the copy has no such blob either
		case err != nil:
			return err
		}
		if _, err := target.PutBlob(ctx, data); err != nil {
			return err
		}
	}
	return nil
}

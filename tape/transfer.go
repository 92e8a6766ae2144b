package tape

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Import fills the tape of a session that has none with the lines of an export, all of them or nothing: ids, dates,
// meta, kinds that nobody knows, and the bytes of payloads are kept. A session that has a tape is ErrNotEmpty. A line
// that is no entry is ErrInvalid with its number.
//
// Other spacing and another order of members are taken, dates with an offset, seconds since 1970 in "timestamp", and
// lines without meta, date or id; such an id follows the one before.
func Import(ctx context.Context, store Store, workspace, session string, r io.Reader) error {
	t, err := lookupNew(ctx, store, workspace, session)
	if err != nil {
		return err
	}
	return t.importEntries(ctx, parseLines(ctx, r))
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

// importEntries makes the tape of these entries, all of them or nothing.
func (t *Tape) importEntries(ctx context.Context, entries iter.Seq2[Entry, error]) error {
	return t.store.Import(ctx, t.name, t.session, t.workspace, entries)
}

// parseLines yields the entries of an export. They are valid up to the next one.
func parseLines(ctx context.Context, r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 2*MaxEntry) // spaces between members count until they are taken out
		last, entries, date := int64(0), 0, now()
		n := 0
		fail := func(err error) { yield(Entry{}, fmt.Errorf("line %d: %w", n, err)) }
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			e, err := parseForeign(lines.Bytes())
			if err == nil {
				if e.ID == 0 && last < math.MaxInt64 {
					e.ID = last + 1
				}
				if e.ID <= last {
					err = fmt.Errorf("%w: id %d follows %d; expected rising ids", ErrInvalid, e.ID, last)
				}
			}
			if err == nil {
				err = e.check()
			}
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				fail(err)
				return
			}
			if e.Date.IsZero() {
				e.Date = date
			}
			last = e.ID
			entries++
			if !yield(e, nil) {
				return
			}
		}
		n++
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			fail(fmt.Errorf("%w: an entry has at most %d bytes", ErrTooLarge, MaxEntry))
		case err != nil:
			fail(err)
		case entries == 0:
			yield(Entry{}, fmt.Errorf("%w: the import has no entries", ErrInvalid))
		}
	}
}

// parseForeign reads a line that this or a similar program wrote. An id or a date that is missing is zero.
func parseForeign(line []byte) (e Entry, err error) {
	line = bytes.TrimSpace(line)
	invalid := func(format string, args ...any) (Entry, error) {
		return Entry{}, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case !utf8.Valid(line):
		return invalid("the line is not UTF-8")
	case !json.Valid(line):
		return invalid("the line is not valid JSON")
	case line[0] != '{':
		return invalid("the line is not an object")
	}
	fields := map[string]json.RawMessage{}
	for name, value := range rawjson.Members(line) {
		if !slices.Contains(lineFields, name) {
			return invalid("unknown field %.40q", name)
		}
		if fields[name] != nil {
			return invalid("the field %q occurs twice; remove one", name)
		}
		fields[name] = value
	}
	e = Entry{Kind: Kind(text(fields["kind"])), Payload: fields["payload"], Meta: fields["meta"]}
	if raw := fields["id"]; raw != nil {
		if e.ID, err = strconv.ParseInt(string(raw), 10, 64); err != nil || e.ID < 1 {
			return invalid("invalid id; expected a whole number from 1")
		}
	}
	if e.Kind == "" {
		return invalid("kind must be a string that is not empty")
	}
	if string(e.Meta) == "null" || emptyObject(e.Meta) {
		e.Meta = nil
	}
	date, timestamp := fields["date"], fields["timestamp"]
	switch {
	case date != nil && timestamp != nil:
		return invalid("a line has a date or a timestamp, not both")
	case date != nil:
		if e.Date, err = time.Parse(time.RFC3339Nano, text(date)); err != nil {
			return invalid(`date must be like "2026-03-01T09:00:00.000000Z"`)
		}
	case timestamp != nil:
		seconds, err := strconv.ParseFloat(string(timestamp), 64)
		if err != nil || math.Abs(seconds) > 253402300799 { // the end of year 9999
			return invalid("timestamp must be a number of seconds since 1970")
		}
		e.Date = time.UnixMicro(int64(math.Round(seconds * 1e6)))
	}
	e.Date = e.Date.UTC().Truncate(time.Microsecond)
	return e, nil
}

var lineFields = []string{"id", "kind", "payload", "meta", "date", "timestamp"}

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
	target, err := lookupNew(ctx, t.store, t.workspace, session)
	if err != nil {
		return nil, err
	}
	err = t.copyTo(ctx, target, Query{Before: at + 1}, func(last int64) Entry {
		event := NewEvent(EventSessionForked, map[string]any{"session": t.session, "at": at})
		event.ID, event.Date = last+1, now()
		return event.With(Meta{Session: target.session, Workspace: target.workspace})
	})
	if err != nil {
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
	return target, source.copyTo(ctx, target, Query{}, nil)
}

// copyTo makes target of the entries that q selects, and of those that more yields after an id; nil is none. Blobs that they name go along.
func (t *Tape) copyTo(ctx context.Context, target *Tape, q Query, more func(last int64) Entry) error {
	var handles []string
	err := target.importEntries(ctx, func(yield func(Entry, error) bool) {
		last := int64(0)
		for e, err := range t.Read(ctx, q) {
			if err == nil {
				last = e.ID
				for _, s := range MetaOf(e).Spill {
					if !slices.Contains(handles, s.Handle) {
						handles = append(handles, s.Handle)
					}
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if more != nil {
			yield(more(last), nil)
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
func (t *Tape) SessionForks(ctx context.Context) ([]*Tape, error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		*Tape
		origins []string // the sessions that its entries come from
	}
	var candidates []candidate
	for in, err := range t.store.Sessions(ctx, SessionQuery{Workspace: t.workspace}) {
		if err != nil {
			return nil, err
		}
		if in.Session == t.session || !in.Created.Equal(info.Created) { // a fork begins with the same entry
			continue
		}
		c := candidate{}
		if c.Tape, err = Lookup(ctx, t.store, t.workspace, in.Session); err == nil {
			c.origins, err = c.Tape.origins(ctx)
		}
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrDeleted): // erased meanwhile
		case err != nil:
			return nil, err
		default:
			candidates = append(candidates, c)
		}
	}
	var forks []*Tape
	for known := []string{t.session}; len(known) > 0; known = known[1:] {
		candidates = slices.DeleteFunc(candidates, func(c candidate) bool {
			found := slices.Contains(c.origins, known[0])
			if found {
				forks, known = append(forks, c.Tape), append(known, c.session)
			}
			return found
		})
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
		if p := payloadOf(e); p.Name == EventSessionForked && json.Unmarshal(p.Data, &fork) == nil {
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

func (t *Tape) copyBlobs(ctx context.Context, target *Tape, handles []string) error {
	for _, handle := range handles {
		data, _, err := t.ReadBlob(ctx, handle, 0, math.MaxInt64)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrDamaged):
			continue // it is not there either; those who ask for it are told
		case err != nil:
			return err
		}
		if _, err := target.PutBlob(ctx, data); err != nil {
			return err
		}
	}
	return nil
}

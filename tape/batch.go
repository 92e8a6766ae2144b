package tape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Check refuses entries that no store takes (ErrInvalid, ErrTooLarge), and returns them as they are to be written but
// for ids and dates: on one line each. It needs no lock.
func (b Batch) Check() ([]Entry, error) {
	if len(b.Entries) == 0 {
		return nil, fmt.Errorf("%w: expected at least one entry in a batch", ErrInvalid)
	}
	entries := slices.Clone(b.Entries)
	for i := range entries {
		if err := entries[i].check(); err != nil {
			if len(b.Entries) > 1 {
				err = fmt.Errorf("entry %d of the batch: %w", i+1, err)
			}
			return nil, err
		}
	}
	return entries, nil
}

const (
	maxKind  = 64 // bytes
	overhead = len(`{"id":9223372036854775807,"kind":"","payload":,"meta":,"date":""}`) + len(dateLayout)
)

// check refuses what is no entry, and brings the others on one line.
func (e *Entry) check() (err error) {
	if e.Kind == "" || len(e.Kind) > maxKind || !utf8.ValidString(string(e.Kind)) {
		return fmt.Errorf("%w: expected a kind of 1–%d bytes of UTF-8", ErrInvalid, maxKind)
	}
	if year := e.Date.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("%w: the year %d of an entry's date is invalid; expected four digits", ErrInvalid, year)
	}
	if e.Payload, err = object("payload", e.Payload); err != nil {
		return err
	}
	if len(e.Meta) > 0 {
		if e.Meta, err = object("meta", e.Meta); err != nil {
			return err
		}
	}
	if size := overhead + len(e.Kind) + len(e.Payload) + max(len(e.Meta), len("{}")); size > MaxEntry {
		return fmt.Errorf("%w: expected at most %d bytes per entry; this %s has %d", ErrTooLarge, MaxEntry, e.Kind, size)
	}
	return nil
}

// object returns raw if it is a JSON object, on one line.
func object(what string, raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if !isObject(raw) || !json.Valid(raw) || !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: expected a JSON object in UTF-8 as the %s of an entry", ErrInvalid, what)
	}
	if bytes.ContainsAny(raw, "\r\n") {
		var b bytes.Buffer
		_ = json.Compact(&b, raw) // it is valid
		return b.Bytes(), nil
	}
	return raw, nil
}

// Number gives ids and dates to entries that Check returned. It is called under the lock that keeps others from appending: info is what the
// tape is, zero for one that does not exist, and now is the time of the append. If the tape is not as the batch wants it, that is the error.
func (b Batch) Number(entries []Entry, info Info, now time.Time) error {
	switch {
	case b.Create && info.Entries > 0:
		return fmt.Errorf("%w: the tape has %d entries", ErrNotEmpty, info.Entries)
	case b.Create:
	case !b.Born.IsZero() && !b.Born.Equal(info.Created):
		return fmt.Errorf("%w: the session was erased during its use", ErrDeleted)
	case info.Entries == 0:
		return fmt.Errorf("%w: the tape does not exist", ErrNotFound)
	case b.IfLast != 0 && b.IfLast != info.LastID:
		return fmt.Errorf("%w: the last id is %d, not %d", ErrMoved, info.LastID, b.IfLast)
	}
	last := info.LastID
	for i := range entries {
		e := &entries[i]
		if !b.KeepIDs {
			e.ID = last + 1
		} else if e.ID <= last {
			return fmt.Errorf("%w: id %d follows %d; expected rising ids", ErrInvalid, e.ID, last)
		}
		last = e.ID
		if e.Date.IsZero() {
			e.Date = now
		}
		e.Date = e.Date.UTC().Truncate(time.Microsecond)
	}
	return nil
}

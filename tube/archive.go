package tube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ErrArchive says that what a Replay was given is not what a tube has written down.
var ErrArchive = errors.New("tube: incomplete record of a run")

// appendBase appends a line of a base: what events fold to, and those that a document cannot say, as JSON Lines:
//
//	{"base":B,"document":…,"reserved":{…}}                 what events below B fold to
//	{"base":B,"document":…,"reserved":{…},"hidden":true}   the same with hidden events, where there were any
//	{"n":0,"event":"started","data":{…}}                   below B, only those that were kept
//	{"n":N-1,"event":"finished","data":{…}}                the end of the run, if it is there
func appendBase(dst []byte, n uint64, d Document, hidden bool) []byte {
	dst = strconv.AppendUint(append(dst, `{"base":`...), n, 10)
	dst = d.AppendJSON(append(dst, `,"document":`...))
	dst = d.AppendReserved(append(dst, `,"reserved":`...))
	return endLine(dst, hidden)
}

func appendEvent(dst []byte, e Event) []byte {
	dst = strconv.AppendUint(append(dst, `{"n":`...), e.N, 10)
	return endLine(e.AppendMembers(append(dst, ',')), e.Hidden)
}

func endLine(dst []byte, hidden bool) []byte {
	if hidden {
		dst = append(dst, `,"hidden":true`...)
	}
	return append(dst, "}\n"...)
}

// archived is a line of a base, of any form.
type archived struct {
	Base     *uint64
	Document json.RawMessage
	Reserved json.RawMessage

	N      *uint64
	URI    *string
	Delta  json.RawMessage
	Done   bool
	Event  string
	Data   json.RawMessage
	Hidden bool
}

// restore takes a line of a base.
func (t *Tube) restore(a *archived) error {
	f := &t.folded
	if a.Base != nil {
		return t.restoreBase(a)
	}
	if a.N == nil {
		return errors.New("expected an event or a base")
	}
	e := Event{N: *a.N, Hidden: a.Hidden}
	switch {
	case a.Event != "" && a.Data != nil:
		e.Kind, e.Name, e.Value = Named, a.Event, a.Data
	case a.URI != nil && a.Done:
		e.Kind, e.URI = Done, []byte(*a.URI)
	case a.URI != nil && a.Delta != nil:
		e.Kind, e.URI, e.Value = Set, []byte(*a.URI), a.Delta
	default:
		return errors.New("an invalid event")
	}
	if err := check(&e); err != nil {
		return err
	}
	if e.N < f.at.n && t.log.next == f.at.n && len(t.log.blocks) == 0 {
		if last := len(f.kept) - 1; e.Kind < Done || last >= 0 && f.kept[last].N >= e.N {
			return fmt.Errorf("event %d was not expected before %d", e.N, f.at.n)
		}
		e.URI, e.Value = bytes.Clone(e.URI), bytes.Clone(e.Value)
		f.kept = append(f.kept, e)
		f.bytes += keptSize(e)
		return nil
	}
	if e.N != t.log.next {
		return fmt.Errorf("event %d in place of %d", e.N, t.log.next)
	}
	_, size, err := t.append(&e, e.Terminal())
	if size > t.max {
		t.trim(size)
	}
	return err
}

func (t *Tube) restoreBase(a *archived) error {
	f := &t.folded
	first := f.visible == nil && t.log.next == t.from && *a.Base >= t.from
	second := a.Hidden && f.visible != nil && f.all == nil && f.at.n == *a.Base
	if len(t.log.blocks) > 0 || len(f.kept) > 0 || !first && !second || first && a.Hidden || *a.Base == 0 {
		return errors.New("a base that was not expected")
	}
	d := f.make()
	put := func(uri string, value []byte) error {
		e := Event{Kind: Set, URI: []byte(uri), Value: value}
		if err := check(&e); err != nil {
			return err
		}
		if e.Kind == Append {
			return d.Append(e.URI, e.Value)
		}
		return d.Set(e.URI, e.Value)
	}
	if err := put("", a.Document); err != nil {
		return err
	}
	for uri, value := range members(a.Reserved) {
		if err := put(uri, value); err != nil {
			return err
		}
	}
	if a.Hidden {
		f.all = d
		return nil
	}
	f.visible, f.rooted = d, true
	f.at.n, t.log.next = *a.Base, *a.Base
	t.sent.Store(*a.Base)
	return nil
}

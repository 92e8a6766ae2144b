package tube

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
)

// ErrArchive says that what a Replay was given is not what a tube has written down.
var ErrArchive = errors.New("tube: incomplete record of a run")

// base is what the events of a tube fold to, and those that a document cannot say.
type base struct {
	Next    uint64      `json:"next"` // number of the event behind those that are folded
	Visible archived    `json:"visible"`
	All     *archived   `json:"all,omitempty"` // with hidden events, where there were any
	Kept    []keptEvent `json:"kept,omitempty"`
}

// archived is a document with its reserved uris.
type archived struct {
	Document json.RawMessage `json:"document"`
	Reserved json.RawMessage `json:"reserved"`
}

// keptEvent is a named or Done event below Next, or the end of the run with that number.
type keptEvent struct {
	N      uint64          `json:"n"`
	Event  string          `json:"event,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	URI    string          `json:"uri,omitempty"` // of a Done event
	Hidden bool            `json:"hidden,omitempty"`
}

func archive(d *jsonuri.Document) archived {
	return archived{Document: d.AppendJSON(nil), Reserved: d.AppendReserved(nil)}
}

func (b *base) keep(e Event) {
	b.Kept = append(b.Kept, keptEvent{N: e.N, Event: e.Name, Data: e.Value, URI: string(e.URI), Hidden: e.Hidden})
}

// appendTo appends the base as JSON.
func (b *base) appendTo(dst []byte) []byte {
	text, err := rawjson.Marshal(b)
	if err != nil {
		panic("tube: " + err.Error()) // values and documents are JSON
	}
	return append(dst, text...)
}

// restore makes d, which is empty, the document that was archived.
func (a *archived) restore(d *jsonuri.Document) error {
	put := func(uri string, value []byte) error {
		e := Event{Kind: Set, URI: []byte(uri), Value: value}
		if err := check(&e); err != nil {
			return err
		}
		return apply(d, e)
	}
	if err := put("", a.Document); err != nil {
		return err
	}
	for uri, value := range rawjson.Members(a.Reserved) {
		if err := put(uri, value); err != nil {
			return err
		}
	}
	return nil
}

// restore makes t, which is empty, the tube of a base.
func (t *Tube) restore(b *base) error {
	if b.Next == 0 || b.Next < t.from {
		return fmt.Errorf("a base of event %d", b.Next)
	}
	f := &t.folded
	if err := b.Visible.restore(&f.visible); err != nil {
		return err
	}
	if b.All != nil {
		f.all = new(jsonuri.Document)
		if err := b.All.restore(f.all); err != nil {
			return err
		}
	}
	f.rooted, f.at.n, t.log.next = true, b.Next, b.Next
	t.sent.Store(b.Next)
	for _, k := range b.Kept {
		e := Event{N: k.N, Kind: Done, URI: []byte(k.URI), Hidden: k.Hidden}
		if k.Event != "" {
			e = Event{N: k.N, Kind: Named, Name: k.Event, Value: k.Data, Hidden: k.Hidden}
		}
		if err := check(&e); err != nil {
			return err
		}
		last := len(f.kept) - 1
		switch {
		case t.ended, e.N > b.Next, e.Terminal() != (e.N == b.Next), last >= 0 && f.kept[last].N >= e.N:
			return fmt.Errorf("event %d was not expected", e.N)
		case e.Terminal():
			if _, _, err := t.append(&e, true); err != nil {
				return err
			}
		default:
			f.kept = append(f.kept, e)
			f.bytes += keptSize(e)
		}
	}
	return nil
}

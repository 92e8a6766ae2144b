package tube

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/jsonuri"
)

// ErrArchive says that what a Replay was given is not what a tube has written down.
var ErrArchive = errors.New("tube: incomplete record of a run")

// base is what the events of a tube fold to, and those that a document cannot say.
type base struct {
	Next    uint64  // number of the event behind those that are folded
	Visible []Event // that make the document
	All     []Event // that make the document with hidden events; none if there were no such events
	Kept    []Event // named and Done events below Next, and the end of the run if it has that number
}

// appendTo appends the encoded base.
func (b *base) appendTo(dst []byte) []byte {
	out := bytes.NewBuffer(dst)
	if err := gob.NewEncoder(out).Encode(b); err != nil {
		panic("tube: " + err.Error()) // a buffer takes all
	}
	return out.Bytes()
}

// readBase decodes what appendTo has written.
func readBase(text []byte) (b base, err error) {
	in := bytes.NewReader(text)
	if err = gob.NewDecoder(in).Decode(&b); err == nil && in.Len() > 0 {
		err = fmt.Errorf("%d bytes behind it", in.Len())
	}
	return b, err
}

// foldOf returns the document that events make. An event that it refuses is left out; the error is that of the first one.
func foldOf(events []Event) (d *jsonuri.Document, err error) {
	d = new(jsonuri.Document)
	for _, e := range events {
		err = cmp.Or(err, apply(d, e))
	}
	return d, err
}

// restore makes t, which is empty, the tube of a base.
func (t *Tube) restore(b *base) error {
	if b.Next == 0 || b.Next < t.from {
		return fmt.Errorf("a base of event %d", b.Next)
	}
	f := &t.folded
	var err error
	if f.visible, err = foldOf(b.Visible); err != nil {
		return err
	}
	if b.All != nil {
		if f.all, err = foldOf(b.All); err != nil {
			return err
		}
	}
	f.rooted, f.at.n, t.log.next = true, b.Next, b.Next
	t.sent.Store(b.Next)
	for _, e := range b.Kept {
		if err := check(&e); err != nil {
			return err
		}
		last := len(f.kept) - 1
		switch {
		case t.ended, e.Kind < Done, e.N > b.Next, e.Terminal() != (e.N == b.Next), last >= 0 && f.kept[last].N >= e.N:
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

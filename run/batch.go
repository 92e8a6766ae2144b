package run

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// Kinds of what is in the events of a batch: one byte, and then what is named. A text stands behind its length.
const (
	batchBegins = 'b' // number of the first event; base. What came before is not needed.
	batchPiece  = 'p' // number of its block's first event, offset in the block, bytes
	batchNote   = 'n' // note of the run's workflow
)

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

// replay makes a tube of the batches of a run.
type replay struct {
	id      string
	options func() *tube.Options
	replay  *tube.Replay
	last    store.RunBatch // without its events
	notes   [][]byte
}

// take takes the next batch.
func (p *replay) take(b store.RunBatch) error {
	p.last = b
	p.last.Events = nil
	rest, ok := b.Events, true
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok, rest = false, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	text := func() []byte {
		n := number()
		if !ok || n > uint64(len(rest)) {
			ok = false
			return nil
		}
		t := rest[:n:n]
		rest = rest[n:]
		return t
	}
	for len(rest) > 0 {
		kind := rest[0]
		rest = rest[1:]
		var err error
		switch kind {
		case batchBegins:
			o := p.options()
			o.From = number()
			if base := text(); ok {
				if p.replay = tube.NewReplay(p.id, o); len(base) > 0 {
					err = p.replay.Base(base)
				}
			}
		case batchPiece:
			piece := tube.Piece{First: number(), Offset: int(number() & (1<<31 - 1)), Data: text()}
			if ok = ok && p.replay != nil; ok {
				err = p.replay.Piece(piece)
			}
		case batchNote:
			p.notes = append(p.notes, text())
		default:
			ok = false
		}
		if err != nil || !ok {
			return errors.Join(fmt.Errorf("%w: batch %d of attempt %d", errBatch, b.Seq, b.Attempt), err)
		}
	}
	return nil
}

// stored is what is stored of the events of a run.
type stored struct {
	tube  *tube.Tube // nil where there are none
	last  store.RunBatch
	notes [][]byte
}

// readStored reads what is stored of the events of a run, as far as that goes.
func (s *Service) readStored(ctx context.Context, id string) (so stored, err error) {
	p := replay{id: id, options: func() *tube.Options { return TubeOptions(s.o.MaxLog) }}
	err = s.store.Batches(ctx, id, p.take)
	if p.replay != nil && (err == nil || errors.Is(err, errBatch)) {
		so.tube = p.replay.Tube()
	}
	so.last, so.notes = p.last, p.notes
	return so, err
}

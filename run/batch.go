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
)

// next returns the next batch; nil is none. It is called with the recording locked.
func (v *recording) next(t *tube.Tube, id string) *store.RunBatch {
	if v.pending != nil {
		return v.pending
	}
	first := v.end
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
		v.end = piece.End
	}
	if len(text) == 0 {
		return nil
	}
	v.pending = &store.RunBatch{Run: id, Attempt: v.attempt, Seq: v.seq, First: first, Events: text}
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
		default:
			ok = false
		}
		if err != nil || !ok {
			return errors.Join(fmt.Errorf("%w: batch %d of attempt %d", errBatch, b.Seq, b.Attempt), err)
		}
	}
	return nil
}

// readTube makes a tube of what is stored of a run, as far as that goes. The tube is nil where no event is stored.
func (s *Service) readTube(ctx context.Context, id string) (t *tube.Tube, last store.RunBatch, err error) {
	p := replay{id: id, options: func() *tube.Options { return TubeOptions(s.o.MaxLog) }}
	err = s.store.Batches(ctx, id, p.take)
	if p.replay != nil && (err == nil || errors.Is(err, errBatch)) {
		t = p.replay.Tube()
	}
	return t, p.last, err
}

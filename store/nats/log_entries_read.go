package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// errEnough says that all numbers of a range were read.
var errEnough = errors.New("all was read")

// take takes the next message of the log, or nil for one that is lost.
func (rd *reader) take(m *jetstream.RawStreamMsg) error {
	p, all, ok := rd.decode(m)
	switch {
	case !ok:
		rd.lost, rd.open, rd.rest = true, nil, nil
		return nil
	case p.old:
		return rd.takeBefore(m, p)
	}
	if rd.open == nil || len(all) == 0 || !all[0].cont || p.base != rd.open.N {
		rd.open = nil
		if err := rd.behind(p.base); err != nil {
			return err
		}
		for len(all) > 0 && all[0].cont {
			all = all[1:]
		}
	}
	rd.lost = false
	for i := range all {
		e := &all[i]
		if e.N >= rd.hi {
			return errEnough
		}
		if e.cont {
			rd.open.Data = append(rd.open.Data, e.Data...)
			e.Entry = rd.open.Entry
		} else if len(all) > 1 || e.more {
			e.Data = bytes.Clone(e.Data) // an entry that is kept must not keep its neighbours
		}
		if rd.open = nil; e.more {
			rd.open = &piece{Entry: e.Entry}
			continue
		}
		rd.last = max(rd.last, e.N)
		if err := rd.emit(e.Entry, nil); err != nil {
			return err
		}
	}
	return nil
}

// behind reports the numbers up to one, which is before a message, if they were not read.
func (rd *reader) behind(base uint64) error {
	if base <= rd.last {
		return nil
	}
	from := rd.last + 1
	rd.last = base
	return rd.report(from, base)
}

// finish reports what is missing behind the last message.
func (rd *reader) finish() error {
	if rd.lost || rd.hi > rd.h.last && rd.last < rd.h.last {
		return rd.report(rd.last+1, rd.hi-1)
	}
	return nil
}

// decode reads a message. The pieces are valid until the next one is read.
func (rd *reader) decode(m *jetstream.RawStreamMsg) (p partHead, all []piece, ok bool) {
	if m == nil {
		return p, nil, false
	}
	p, err := readPart(m.Header)
	if err != nil && rd.l.before {
		if _, p, err = readBefore(m); err == nil {
			return p, nil, true
		}
	}
	if err == nil {
		rd.pieces, err = pieces(m, &p, rd.pieces[:0])
	}
	return p, rd.pieces, err == nil
}

// takeBack takes the message before the one that was taken last, or nil for one that is lost.
func (rd *reader) takeBack(m *jetstream.RawStreamMsg) error {
	p, all, ok := rd.decode(m)
	switch {
	case !ok:
		rd.lost, rd.pending, rd.restBack = true, nil, nil
		return nil
	case p.old:
		return rd.takeBackBefore(m, p)
	}
	last := p.base
	if len(all) > 0 {
		last = all[len(all)-1].N
		if e := &all[len(all)-1]; e.more && (rd.pending == nil || e.N != rd.next) && e.N < rd.hi {
			rd.lost, rd.pending = true, nil // its rest is lost
			all, last = all[:len(all)-1], e.N-1
		}
	}
	if err := rd.before(last); err != nil {
		return err
	}
	for i := range all {
		e := &all[len(all)-1-i]
		switch {
		case e.N < rd.lo:
			return errEnough
		case e.N >= rd.hi:
			continue
		case e.cont:
			rd.pending = append(rd.pending, e.Data)
			continue
		case e.more:
			slices.Reverse(rd.pending)
			e.Data = slices.Concat(append([][]byte{e.Data}, rd.pending...)...)
			rd.pending = nil
		case len(all) > 1:
			e.Data = bytes.Clone(e.Data)
		}
		if err := rd.emit(e.Entry, nil); err != nil {
			return err
		}
	}
	rd.next, rd.known = p.base, true
	return nil
}

// before reports the numbers behind one, which is the last of a message, if they were not read.
func (rd *reader) before(last uint64) error {
	lost := rd.lost
	rd.lost = false
	switch {
	case rd.known && last < rd.next:
		rd.pending = nil
		return rd.report(last+1, rd.next)
	case lost && !rd.known:
		return rd.report(last+1, rd.hi-1)
	}
	return nil
}

// finishBack reports what is missing before the first message.
func (rd *reader) finishBack() error {
	if rd.known && rd.next >= rd.lo || rd.lost {
		to := rd.hi - 1
		if rd.known {
			to = rd.next
		}
		return rd.report(rd.lo, to)
	}
	return nil
}

// readMarks reads the marked entries: each batch with one says where the one before it is.
func (rd *reader) readMarks() error {
	var seqs []uint64
	at := rd.h.at()
	for number := rd.h.mark; at > 0 && number >= rd.lo; {
		h, err := rd.headAt(at)
		if err != nil {
			return err
		}
		if h == nil { // the entries before it are not found by marks any more
			if err := rd.reportMark(at, number); err != nil {
				return err
			}
			break
		}
		if h.from < rd.hi {
			if !rd.r.Newest {
				seqs = append(seqs, at)
			} else if err := rd.marksOf(h); err != nil {
				return err
			}
		}
		if at = h.markBefore; h.from == 0 {
			break
		}
		number = h.from - 1
	}
	for _, at := range slices.Backward(seqs) {
		h, err := rd.headAt(at)
		if err == nil && h == nil {
			err = rd.report(rd.last+1, rd.last+1)
		} else if err == nil {
			err = rd.marksOf(h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reportMark yields that the last marked entry up to a number is lost with its message, unless that was removed.
func (rd *reader) reportMark(at, number uint64) error {
	var first *jetstream.RawStreamMsg
	if err := rd.l.again(rd.ctx, func(ctx context.Context) (err error) {
		first, err = rd.l.ask(ctx, getRequest{Seq: rd.h.born + 1, Next: rd.subject})
		return err
	}); err != nil || first == nil || first.Sequence > at {
		return err
	}
	return rd.report(number, number)
}

// marksOf yields the marked entries of a batch.
func (rd *reader) marksOf(h *logHead) error {
	one := *rd
	one.last, one.lost, one.known, one.next = h.from-1, false, false, 0
	seqs, err := rd.partsOf(h)
	if err != nil {
		return err
	}
	one.hand = h.message
	take := one.take
	if rd.r.Newest {
		slices.Reverse(seqs)
		take = one.takeBack
	}
	for window := range slices.Chunk(seqs, 4) {
		if err = one.each(window, take); err != nil {
			break
		}
	}
	rd.left = one.left
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// partsOf returns the messages of a batch, whose last one is given.
func (rd *reader) partsOf(h *logHead) (seqs []uint64, err error) {
	if h.parts > 1 && !rd.l.o.Indexed {
		err = rd.l.scan(rd.ctx, rd.subject, h.before+1, h.seq-1, func(m *jetstream.RawStreamMsg) bool {
			if _, p, err := rd.l.read(m); err == nil && p.id == h.id {
				if p.number == 1 {
					seqs = nil // of an attempt that did not come to its end
				}
				seqs = append(seqs, m.Sequence)
			}
			return false
		})
		return append(seqs, h.seq), err
	}
	for i := h.parts; i > 0; i-- {
		seqs = append(seqs, h.seq-(i-1))
	}
	return seqs, nil
}

// scanForward reads a log that is not Indexed, from a message on.
func (rd *reader) scanForward(from uint64) error {
	var failed error
	var skip [16]byte // the ID of a batch that has no end
	err := rd.l.scan(rd.ctx, rd.subject, max(from, rd.h.born+1), rd.h.seq, func(m *jetstream.RawStreamMsg) bool {
		h, p, err := rd.l.read(m)
		if err == nil && h == nil {
			if p.number == 1 {
				skip = [16]byte{}
				whole, err := rd.hasEnd(m, &p)
				if failed = err; err != nil {
					return true
				}
				if !whole {
					skip = p.id
				}
			}
			if skip == p.id {
				return false
			}
		}
		failed = rd.take(m)
		return failed != nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return rd.finish()
}

// hasEnd reports whether the batch that begins with a message has an end.
func (rd *reader) hasEnd(m *jetstream.RawStreamMsg, first *partHead) (whole bool, err error) {
	number := first.number
	err = rd.l.scan(rd.ctx, rd.subject, m.Sequence+1, rd.h.seq, func(m *jetstream.RawStreamMsg) bool {
		h, p, err := rd.l.read(m)
		number++
		if err != nil || p.id != first.id || p.number != number {
			return true
		}
		whole = h != nil
		return whole
	})
	return whole, err
}

// chainBackward reads a log that is not Indexed from its end: each message says where the one before it is.
func (rd *reader) chainBackward() error {
	for at := rd.h.seq; at > rd.h.born; {
		h, err := rd.headAt(at)
		if err != nil {
			return err
		}
		var seqs []uint64
		if h == nil { // it is lost: what is before it is found from the beginning
			if at, err = rd.headBefore(at); err != nil {
				return err
			}
			rd.lost, rd.pending = true, nil
			continue
		}
		if seqs, err = rd.partsOf(h); err != nil {
			return err
		}
		slices.Reverse(seqs)
		rd.hand = h.message
		for window := range slices.Chunk(seqs, 1) {
			if err := rd.each(window, rd.takeBack); err != nil {
				return err
			}
		}
		if rd.known && rd.next < rd.lo {
			return nil
		}
		at = h.before
	}
	return rd.finishBack()
}

// headBefore returns the last message before another one that says what the log is; 0: there is none.
func (rd *reader) headBefore(seq uint64) (before uint64, err error) {
	err = rd.l.scan(rd.ctx, rd.subject, rd.h.born+1, seq-1, func(m *jetstream.RawStreamMsg) bool {
		if h, _, err := rd.l.read(m); err == nil && h != nil {
			before = m.Sequence
		}
		return false
	})
	if err != nil {
		return 0, fmt.Errorf("log %q: %w", rd.name, err)
	}
	return before, nil
}

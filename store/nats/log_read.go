package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
)

// Read implements [store.Log].
func (l *Log) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		ctx, cancel := l.e.whileOpen(ctx)
		defer cancel()
		err := cmp.Or(store.CheckKey(name), context.Cause(ctx))
		if h := l.known.find(name); err == nil && l.o.Indexed && h.has(r) {
			if err = l.readKnown(ctx, name, h, r, yield); err == nil {
				return
			}
			if errors.Is(err, errMoved) {
				err = nil
			}
		}
		var h *logHead
		if err == nil {
			h, err = l.find(ctx, name)
		}
		if err == nil && r.From > 0 && r.From < h.first && h.gone > 0 {
			err = fmt.Errorf("log %q: %w: it begins with %d", name, store.ErrExpired, h.first)
		}
		if err == nil {
			rd := newReader(ctx, l, name, h, r)
			rd.yield = yield
			err = rd.run(0)
		}
		if err != nil && !errors.Is(err, errLeft) && !errors.Is(err, errEnough) {
			yield(store.Entry{}, err)
		}
	}
}

// has reports whether a range surely has the same entries in every later state of the log, unless some were removed.
func (h *logHead) has(r store.Range) bool {
	return h.lives() && 0 < r.Before && r.Before <= h.last+1 && (r.From == 0 || r.From >= h.first || h.gone == 0)
}

// errMoved says that the log is not the one that is known, or that entries were removed.
var errMoved = errors.New("the log is another one")

// readKnown reads a range of which all was there when this process saw the log last. The leader is asked meanwhile whether there is still
// that log; before it has said so nothing is yielded.
func (l *Log) readKnown(ctx context.Context, name string, h *logHead, r store.Range, yield func(store.Entry, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan error, 1)
	go func() {
		now, err := l.find(ctx, name)
		if err == nil && (!h.same(now) || h.first != now.first) {
			err = errMoved
		}
		answer <- err
		close(answer)
	}()
	defer func() {
		cancel()
		for range answer { // until the goroutine has ended
		}
	}()
	rd := newReader(ctx, l, name, h, r)
	rd.yield, rd.asked = yield, answer
	err := rd.run(0)
	if failed := rd.confirm(); failed != nil {
		return failed
	}
	if errors.Is(err, errLeft) || errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// confirm waits until the leader has said that there is the log, if it is asked.
func (rd *reader) confirm() error {
	if rd.asked == nil {
		return nil
	}
	err := <-rd.asked
	rd.asked = nil
	return err
}

// reader reads a range of a log as it was at one moment.
type reader struct {
	ctx     context.Context
	l       *Log
	name    string
	subject string
	h       *logHead
	r       store.Range
	lo, hi  uint64 // the lowest number, and the one above the highest
	yield   func(store.Entry, error) bool
	asked   <-chan error            // what the leader says of the log; nil: it has said it
	left    int                     // of Limit
	hand    *jetstream.RawStreamMsg // one that need not be asked for; may be nil
	pieces  []piece                 // of the message that was read last

	// What is read forward:
	last uint64 // all up to this number was yielded, or is not there
	open *piece // begins the next entry, of which more comes
	lost bool   // a message behind last was lost

	// What is read backward:
	next    uint64   // the last number before the message that was read last
	known   bool     // there was one
	pending [][]byte // the rest of the entry with the number next, the last first

	// Of an older version: a line that goes on, and the messages of a batch, the last first.
	rest     []byte
	restBack []*jetstream.RawStreamMsg
}

func newReader(ctx context.Context, l *Log, name string, h *logHead, r store.Range) *reader {
	rd := &reader{
		ctx: ctx, l: l, name: name, subject: l.subject(name), h: h, r: r,
		lo: max(r.From, h.first), hi: h.last + 1, left: r.Limit, hand: h.message,
	}
	if r.Before > 0 {
		rd.hi = min(rd.hi, r.Before)
	}
	rd.last = max(rd.lo, 1) - 1
	if rd.hi > h.last && !h.old {
		rd.next, rd.known = h.last, true
	}
	return rd
}

// run reads. A log that is not Indexed is read forward from a message on.
func (rd *reader) run(from uint64) error {
	switch h := rd.h; {
	case h.entries == h.gone || rd.lo >= rd.hi:
		return nil
	case h.blob != nil:
		return rd.readBlob()
	case rd.r.Marks:
		return rd.readMarks()
	case rd.l.o.Indexed && rd.r.Newest:
		return rd.pagesBackward()
	case rd.l.o.Indexed:
		return rd.pagesForward()
	case rd.r.Newest:
		return rd.chainBackward()
	}
	return rd.scanForward(from)
}

// emit yields an entry, or what is wrong with it, if it is in the range.
func (rd *reader) emit(e store.Entry, err error) error {
	if e.N < rd.lo || e.N >= rd.hi || rd.r.Marks && !e.Mark && err == nil {
		return nil
	}
	if err := rd.confirm(); err != nil {
		return err
	}
	if !rd.yield(e, err) {
		return errLeft
	}
	if rd.left > 0 {
		if rd.left--; rd.left == 0 {
			return errLeft
		}
	}
	return nil
}

// mostLost is of how many numbers it is said that they are lost together: a number need not have had an entry.
const mostLost = 1024

// report yields that the entries of numbers are lost, unless they were removed.
func (rd *reader) report(from, to uint64) error {
	from, to = max(from, rd.lo), min(to, rd.hi-1)
	if from > to {
		return nil
	}
	if err := rd.confirm(); err != nil {
		return err
	}
	now, err := rd.l.headAgain(rd.ctx, rd.name)
	if err != nil {
		return err
	}
	if !rd.h.same(now) {
		return fmt.Errorf("log %q: %w", rd.name, store.ErrDeleted)
	}
	if from < now.first {
		if rd.r.From > 0 {
			return fmt.Errorf("log %q: %w: it begins with %d", rd.name, store.ErrExpired, now.first)
		}
		from = now.first
	}
	if from > to {
		return nil
	}
	if to-from >= mostLost {
		to = from + mostLost - 1
	}
	for n := from; n <= to; n++ {
		number := n
		if rd.r.Newest {
			number = to - (n - from)
		}
		if err := rd.emit(store.Entry{N: number}, fmt.Errorf("log %q: entry %d: %w", rd.name, number, store.ErrDamaged)); err != nil {
			return err
		}
	}
	return nil
}

// headAgain returns the head of a log as it is, with what was removed because of its age.
func (l *Log) headAgain(ctx context.Context, name string) (h *logHead, err error) {
	err = l.again(ctx, func(ctx context.Context) error {
		if h, err = l.head(ctx, name); err != nil || !h.lives() {
			return err
		}
		return l.expire(ctx, name, h)
	})
	return h, err
}

// pageSpots is a page of an Indexed log.
type pageSpots struct {
	head  uint64 // the message that lists it
	spots []spot // those that may have a number of the range; nil if they are not in memory
	end   uint64 // the number with which begins what is behind it
}

// pages yields the batches of the range page by page, the last page first, each in the order of the log.
func (rd *reader) pages() iter.Seq2[pageSpots, error] {
	return func(yield func(pageSpots, error) bool) {
		for h, end := rd.h, rd.hi; ; {
			all, err := h.spots()
			if err != nil {
				yield(pageSpots{}, fmt.Errorf("log %q: %w", rd.name, err))
				return
			}
			spots, first := rd.within(all, end)
			if !yield(pageSpots{h.seq, spots, end}, nil) || h.pageBefore == 0 || first <= rd.lo {
				return
			}
			end = first
			h, err = rd.headAt(h.pageBefore)
			if err != nil || h == nil { // what was before is gone
				if err != nil {
					yield(pageSpots{}, err)
				}
				return
			}
		}
	}
}

// headAt returns what a message of the log says, or nil if it is gone.
func (rd *reader) headAt(seq uint64) (*logHead, error) {
	if seq == rd.h.seq {
		return rd.h, nil
	}
	found, err := rd.l.fetch(rd.ctx, rd.subject, []uint64{seq})
	if err != nil || found[0] == nil {
		return nil, err
	}
	h, _, err := rd.l.read(found[0])
	return h, err
}

// within leaves the batches of a page that may have a number of the range; what comes behind the page begins with the number end. It
// returns the number with which the page begins.
func (rd *reader) within(all []spot, end uint64) (spots []spot, first uint64) {
	if len(all) == 0 {
		return all, end
	}
	first = all[0].first
	for len(all) > 0 && all[len(all)-1].first >= rd.hi {
		all = all[:len(all)-1]
	}
	for len(all) > 1 && all[1].first <= rd.lo {
		all = all[1:]
	}
	if len(all) == 1 && end <= rd.lo {
		all = nil
	}
	return all, first
}

// mostSpots bounds the batches that a reader has in memory: the pages of others are read again.
const mostSpots = 4096

func (rd *reader) pagesForward() error {
	var all []pageSpots
	known := 0
	for p, err := range rd.pages() {
		if err != nil {
			return err
		}
		if known += len(p.spots); known > mostSpots && len(p.spots) > 0 {
			p.spots = nil
		} else if p.spots == nil {
			p.spots = []spot{}
		}
		all = append(all, p)
	}
	for _, p := range slices.Backward(all) {
		if p.spots == nil {
			h, err := rd.headAt(p.head)
			if err != nil {
				return err
			}
			if h == nil {
				rd.lost = true
				continue
			}
			if p.spots, err = h.spots(); err != nil {
				return fmt.Errorf("log %q: %w", rd.name, err)
			}
			p.spots, _ = rd.within(p.spots, p.end)
		}
		for seqs := range windows(p.spots, false) {
			if err := rd.each(seqs, rd.take); err != nil {
				return err
			}
		}
	}
	return rd.finish()
}

func (rd *reader) pagesBackward() error {
	for p, err := range rd.pages() {
		if err != nil {
			return err
		}
		slices.Reverse(p.spots)
		for seqs := range windows(p.spots, true) {
			if err := rd.each(seqs, rd.takeBack); err != nil {
				return err
			}
		}
	}
	return rd.finishBack()
}

// windows yields the messages of batches, some at a time. backward: the last batch is the first, and so it is with its messages.
func windows(spots []spot, backward bool) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		var seqs []uint64
		var size uint64
		for _, at := range spots {
			each := at.size / at.parts
			for i := range at.parts {
				if (len(seqs) == fetchMessages || size+each > fetchBytes) && len(seqs) > 0 {
					if !yield(seqs) {
						return
					}
					seqs, size = nil, 0
				}
				seq := at.seq - i
				if !backward {
					seq = at.seq - (at.parts - 1 - i)
				}
				seqs, size = append(seqs, seq), size+each
			}
		}
		if len(seqs) > 0 {
			yield(seqs)
		}
	}
}

// each gives take messages, or nil for one that is lost. The last one of the log is mostly at hand.
func (rd *reader) each(seqs []uint64, take func(m *jetstream.RawStreamMsg) error) error {
	found := make([]*jetstream.RawStreamMsg, len(seqs))
	var ask []uint64
	var places []int
	for i, seq := range seqs {
		if rd.hand != nil && seq == rd.hand.Sequence {
			found[i] = rd.hand
			continue
		}
		ask, places = append(ask, seq), append(places, i)
	}
	if len(ask) > 0 {
		got, err := rd.l.fetch(rd.ctx, rd.subject, ask)
		if err != nil {
			return err
		}
		for i, m := range got {
			found[places[i]] = m
		}
	}
	for _, m := range found {
		if err := take(m); err != nil {
			return err
		}
	}
	return nil
}

package nats

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/lingserve/lingserve/tape"
)

// source is a tape as it was at one moment: its last batch then. It implements tape.Source.
type source struct {
	ctx  context.Context
	s    *Store
	name string
	head *head
}

const (
	// What is asked for at once: so many messages, and so many bytes as they may have.
	fetchMessages = 64
	fetchBytes    = 8 << 20
)

// pages yields the batches page by page, the last page first, each in the order of the tape.
func (src *source) pages() iter.Seq2[[]spot, error] {
	return func(yield func([]spot, error) bool) {
		for h := src.head; ; {
			page, err := h.spots()
			if err != nil {
				yield(nil, fmt.Errorf("tape %s: %w", src.name, err))
				return
			}
			if !yield(page, nil) || h.Prev == 0 {
				return
			}
			m, err := src.fetch([]uint64{h.Prev})
			if err == nil {
				h, err = headOf(m[0])
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// fetch gets messages that the tape has.
func (src *source) fetch(seqs []uint64) ([]*message, error) {
	found, err := src.s.fetch(src.ctx, src.s.entries(src.name), seqs)
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		if m == nil {
			return nil, src.lost(seqs[i])
		}
	}
	return found, nil
}

// fetchEntries gets messages of batches. In place of one that the tape has lost is one without data, and the log names it.
func (src *source) fetchEntries(seqs []uint64) ([]*message, error) {
	found, err := src.s.fetch(src.ctx, src.s.entries(src.name), seqs)
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		if m != nil {
			continue
		}
		err := src.lost(seqs[i])
		if !errors.Is(err, errDamaged) {
			return nil, err
		}
		src.damaged(err)
		found[i] = &message{seq: seqs[i]}
	}
	return found, nil
}

// damaged names in the log what is skipped of the tape.
func (src *source) damaged(err error) {
	src.s.log.LogAttrs(src.ctx, slog.LevelWarn, "tape is damaged; skipped unreadable parts",
		slog.String("tape", src.name), slog.String("error", err.Error()))
}

// lost says why a message is not there.
func (src *source) lost(seq uint64) error {
	h, err := src.s.head(src.ctx, src.name)
	switch {
	case err != nil:
		return err
	case !h.there() || h.Born != src.head.Born:
		return fmt.Errorf("%w: tape %s was erased while it was read", tape.ErrDeleted, src.name)
	}
	return fmt.Errorf("tape %s: message %d is not there: %w", src.name, seq, errDamaged)
}

// Entries implements tape.Source.
func (src *source) Entries(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		keep := func(e tape.Entry) bool { return after < e.ID && e.ID < before }
		if newest {
			end := before // the first id of the batch behind
			for page, err := range src.pages() {
				if err != nil {
					yield(tape.Entry{}, err)
					return
				}
				page, end = between(page, after, before, end)
				if !src.backward(page, keep, yield) || end <= after+1 {
					return
				}
			}
			return
		}
		var all [][]spot
		end := before
		for page, err := range src.pages() {
			if err != nil {
				yield(tape.Entry{}, err)
				return
			}
			page, end = between(page, after, before, end)
			all = append(all, page)
			if end <= after+1 {
				break
			}
		}
		slices.Reverse(all)
		src.forward(slices.Concat(all...), keep, yield)
	}
}

// between leaves the batches of a page that may have an id between after and before; what comes behind the page begins with the id
// end. It returns with which one the page begins.
func between(page []spot, after, before, end int64) ([]spot, int64) {
	if len(page) == 0 {
		return page, end
	}
	first := page[0].first
	for len(page) > 0 && page[len(page)-1].first >= before {
		page = page[:len(page)-1]
	}
	for len(page) > 1 && page[1].first <= after+1 {
		page = page[1:]
	}
	if len(page) == 1 && end <= after+1 {
		page = nil
	}
	return page, first
}

// forward yields the entries of batches. Of a batch with a message that is lost it yields what is before that message.
func (src *source) forward(spots []spot, keep func(tape.Entry) bool, yield func(tape.Entry, error) bool) {
	var rest []byte // of a line that goes on in the next message
	var torn uint64 // the last message of a batch of which one is lost
	for messages, err := range src.messages(spots) {
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		for _, m := range messages {
			if len(m.data) == 0 {
				at, _ := slices.BinarySearchFunc(spots, m.seq, func(at spot, seq uint64) int { return cmp.Compare(at.seq, seq) })
				torn, rest = spots[at].seq, nil
			}
			data := m.data
			if m.seq <= torn {
				data = nil
			}
			for len(data) > 0 {
				line, behind, whole := bytes.Cut(data, []byte("\n"))
				if !whole {
					rest = append(rest, line...)
					break
				}
				data = behind
				if len(rest) > 0 {
					line, rest = append(rest, line...), nil
				} else {
					line = bytes.Clone(line) // an entry that is kept must not keep its neighbours
				}
				e, err := tape.ParseEntry(line)
				if err != nil {
					src.damaged(fmt.Errorf("message %d: %w", m.seq, err))
					continue
				}
				if keep(e) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// backward yields the entries of batches, the last first. It is false where that was the end.
func (src *source) backward(spots []spot, keep func(tape.Entry) bool, yield func(tape.Entry, error) bool) bool {
	for len(spots) > 0 {
		from := len(spots)
		for cost := 0; from > 0 && (from == len(spots) || cost+src.s.cost(spots[from-1]) <= fetchBytes); from-- {
			cost += src.s.cost(spots[from-1])
		}
		var entries []tape.Entry
		var failed error
		src.forward(spots[from:], keep, func(e tape.Entry, err error) bool {
			if failed = err; err == nil {
				entries = append(entries, e)
			}
			return true
		})
		for _, e := range slices.Backward(entries) {
			if failed == nil && !yield(e, nil) {
				return false
			}
		}
		if failed != nil {
			yield(tape.Entry{}, failed)
			return false
		}
		spots = spots[:from]
	}
	return true
}

// cost is how many bytes a batch may have.
func (s *Store) cost(at spot) int {
	if at.messages == 1 {
		return s.inline
	}
	return at.messages * s.chunk
}

// messages yields the messages of batches, some at a time.
func (src *source) messages(spots []spot) iter.Seq2[[]*message, error] {
	return func(yield func([]*message, error) bool) {
		var seqs []uint64
		cost := 0
		flush := func() bool {
			if len(seqs) == 0 {
				return true
			}
			found, err := src.window(seqs)
			seqs, cost = seqs[:0], 0
			return yield(found, err) && err == nil
		}
		for _, at := range spots {
			each := src.s.cost(at) / at.messages
			for i := range at.messages {
				if (len(seqs) == fetchMessages || cost+each > fetchBytes) && !flush() {
					return
				}
				seqs = append(seqs, at.seq-uint64(at.messages-1-i))
				cost += each
			}
		}
		flush()
	}
}

// window gets messages. The last one of the tape is mostly at hand.
func (src *source) window(seqs []uint64) ([]*message, error) {
	h := src.head
	if h.data == nil || seqs[len(seqs)-1] != h.seq {
		return src.fetchEntries(seqs)
	}
	var found []*message
	if n := len(seqs) - 1; n > 0 {
		var err error
		if found, err = src.fetchEntries(seqs[:n]); err != nil {
			return nil, err
		}
	}
	return append(found, &message{seq: h.seq, data: h.data}), nil
}

// Anchors implements tape.Source: each batch with an anchor says where the one before it is.
func (src *source) Anchors() iter.Seq2[tape.AnchorRef, error] {
	return func(yield func(tape.AnchorRef, error) bool) {
		h := src.head
		if h.Anchor == nil {
			return
		}
		last := h.info(src.name).LastAnchor
		if !yield(last, nil) {
			return
		}
		for at := h.at(); at != 0; {
			batch, err := src.batch(at)
			if err != nil {
				yield(tape.AnchorRef{}, err)
				return
			}
			var refs []tape.AnchorRef
			src.forward([]spot{{batch.seq, batch.Messages, batch.First}}, func(e tape.Entry) bool { return e.Kind == tape.KindAnchor }, func(e tape.Entry, failed error) bool {
				if err = failed; err == nil && e.ID < last.ID {
					refs = append(refs, tape.AnchorOf(e))
				}
				return err == nil
			})
			if err != nil {
				yield(tape.AnchorRef{}, err)
				return
			}
			for _, ref := range slices.Backward(refs) {
				if !yield(ref, nil) {
					return
				}
			}
			at = batch.Before
		}
	}
}

// batch is the batch whose last message this is.
func (src *source) batch(seq uint64) (*head, error) {
	if seq == src.head.seq {
		return src.head, nil
	}
	m, err := src.fetch([]uint64{seq})
	if err != nil {
		return nil, err
	}
	return headOf(m[0])
}

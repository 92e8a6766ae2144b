package nats

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/tape"
)

// Headers of an atomic publish.
const (
	headerAtomicID     = "Nats-Batch-Id"
	headerAtomicNumber = "Nats-Batch-Sequence"
	headerAtomicCommit = "Nats-Batch-Commit"

	mostMessages = 1000 // of an atomic publish, as servers have it by default
)

// errMoved says that another message took the place behind the one that was expected to be the last.
var errMoved = errors.New("another writer was faster")

// Append implements tape.Store.
func (s *Store) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	if err := tape.CheckName(name); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	first, size, err := s.append(ctx, name, b, entries)
	if s.observer != nil && (err != nil || size > 0) { // a batch that happens once may have been there
		s.observer.Appended(len(entries), size, err)
	}
	return first, err
}

func (s *Store) append(ctx context.Context, name string, b tape.Batch, checked []tape.Entry) (first, size int64, err error) {
	sl, err := s.take(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer s.give(name, sl)
	held := s.holding(name)
	began := time.Now()
	// What was seen last is mostly what is: the servers take nothing that was made for another state. Only a refusal needs to
	// be sure.
	h := sl.head
	if h == nil {
		if h, err = s.glance(ctx, name); err != nil {
			return 0, 0, err
		}
	}
	for known := true; ; known = false {
		if !known {
			if h, err = s.head(ctx, name); err != nil {
				return 0, 0, err
			}
			sl.head = nil
		}
		if known && held != nil && held.behind(h) {
			continue
		}
		by, err := s.fenced(held, h)
		if err != nil {
			return 0, 0, err
		}
		entries := slices.Clone(checked)
		written, err := b.Number(entries, h.info(name), time.Now(), func(after int64) iter.Seq2[tape.Entry, error] {
			return (&source{ctx: ctx, s: s, name: name, head: h}).Entries(after, h.LastID+1, false)
		})
		if (err != nil || written > 0) && known {
			continue
		}
		if err != nil || written > 0 {
			if h.there() {
				sl.keep(h)
			}
			return written, 0, err
		}
		info := h.info(name)
		info.AddBatch(b, entries)
		now, err := s.store(ctx, name, h, info, entries, by, "", !h.there())
		switch {
		case err == nil:
			sl.keep(now)
			if h != nil && !h.there() {
				s.clear(ctx, name, now)
			}
			return entries[0].ID, now.Bytes - h.info(name).Bytes, nil
		case !errors.Is(err, errMoved):
			sl.head = nil
			return 0, 0, err
		case time.Since(began) > s.waits.patience:
			return 0, 0, &Error{textBusy, err}
		}
	}
}

// clear erases what is left of tapes of that name before: of an erasure or an import that was cut off. The new tape does not
// see it, so it can wait where that fails.
func (s *Store) clear(ctx context.Context, name string, first *head) {
	if err := s.purge(ctx, under(s.base(name)), first.seq-uint64(first.Messages-1)); err != nil {
		s.log.WarnContext(ctx, "cannot erase the rest of a tape", "tape", name, "error", err)
	}
}

// keep remembers the last batch, without its lines.
func (sl *slot) keep(h *head) {
	light := *h
	light.data = nil
	sl.head = &light
	sl.seen.Store(max(sl.seen.Load(), h.seq))
}

// store writes entries behind h, and returns them as the last batch. info is the tape with them, but for its size. state is
// that of the tape then, and fresh begins it. errMoved says that h is not the last any more.
func (s *Store) store(ctx context.Context, name string, h *head, info tape.Info, entries []tape.Entry, by epoch, state string, fresh bool) (*head, error) {
	var lines []byte
	for _, e := range entries {
		lines = append(e.AppendJSON(lines), '\n')
	}
	info.Bytes += int64(len(lines))
	parts := 1
	if len(lines) > s.inline {
		parts = (len(lines) + s.chunk - 1) / s.chunk
	}
	if parts > mostMessages {
		return nil, fmt.Errorf("%w: expected at most %d MiB in a batch, found %d", tape.ErrTooLarge, mostMessages*s.chunk>>20, len(lines)>>20)
	}
	r, err := h.follow(info, entries[0].ID, parts, fresh)
	if err != nil {
		return nil, err
	}
	r.State, r.Epoch, r.By = state, by.number, by.replica
	seq, err := s.commit(ctx, name, h.last(), r, lines)
	if err != nil {
		return nil, err
	}
	return &head{seq: seq, record: r}, nil
}

// commit stores the messages of a batch behind the message last, or finds that it has done so.
func (s *Store) commit(ctx context.Context, name string, last uint64, r record, lines []byte) (uint64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	if len(text) > maxRecord {
		return 0, fmt.Errorf("%w: the session's id, workspace and last anchor's name have %d bytes in total; expected at most %d", tape.ErrTooLarge, len(text), maxRecord)
	}
	b := &batch{s: s, subject: s.entries(name), last: last, id: rand.Text()[:16], record: string(text), lines: lines, parts: max(r.Messages, 1)}
	began := time.Now()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		if err := cause(ctx); err != nil {
			return 0, b.doubt(err)
		}
		if s.conn.IsClosed() { // so that this surely is not sent
			return 0, b.doubt(explain(client.ErrConnectionClosed))
		}
		seq, err := b.attempt(ctx)
		switch {
		case err == nil:
			return seq, nil
		case cluster.WrongSequence(err):
			// It may be a message of our own that was in the way, or one that is about to be stored.
			if seq, err := b.taken(ctx); err != nil || seq > 0 {
				return seq, err
			}
			pause = pauseStored
		case !cluster.Passing(err):
			if !b.sent {
				return 0, explain(err)
			}
			return 0, b.doubt(explain(err))
		case b.sent:
			if seq, err := b.taken(ctx); err != nil || seq > 0 {
				return seq, err
			}
		}
		if err := cause(ctx); err != nil {
			return 0, b.doubt(err)
		}
		if !s.patient(began) {
			if cluster.WrongSequence(err) { // and who was in the way cannot be found out
				return 0, b.doubt(&Error{textBusy, err})
			}
			return 0, b.doubt(explain(err))
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, b.doubt(err)
		}
	}
}

// batch is what one append stores.
type batch struct {
	s       *Store
	subject string
	last    uint64 // message behind which it is stored
	id      string
	record  string
	lines   []byte
	parts   int

	tries int
	sent  bool // it may be stored: an attempt had no answer
}

// doubt makes of an error one that says that the batch may be stored, where it may.
func (b *batch) doubt(err error) error {
	if b.sent {
		if _, ok := errors.AsType[*Error](err); ok {
			return &Error{textUnknown, err}
		}
		return fmt.Errorf("%w (it may or may not have been stored)", err)
	}
	return err
}

// attempt sends the messages once. What was sent is waited for even where ctx has ended, for a while: an answer that is there is
// worth more than a doubt.
func (b *batch) attempt(ctx context.Context) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.s.waits.answer)
	defer cancel()
	b.tries++
	for i := range b.parts {
		end := i == b.parts-1
		m := &client.Msg{Subject: b.subject, Data: b.lines, Header: client.Header{
			headerBatch: {part{b.id, i + 1, b.parts}.String()},
		}}
		if i == 0 {
			m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(b.last, 10)}
		}
		if b.parts > 1 {
			m.Data = b.lines[i*b.s.chunk : min(len(b.lines), (i+1)*b.s.chunk)]
			m.Header[headerAtomicID] = []string{b.id + "-" + strconv.Itoa(b.tries)}
			m.Header[headerAtomicNumber] = []string{strconv.Itoa(i + 1)}
			if end {
				m.Header[headerAtomicCommit] = []string{"1"}
			}
		}
		if end {
			m.Header[headerRecord] = []string{b.record}
		}
		seq, err = b.s.publish(ctx, m)
		if err != nil {
			b.sent = b.sent || end && !cluster.Unstored(err)
			return 0, err
		}
	}
	if seq == 0 {
		b.sent = true
		return 0, errNoAck
	}
	return seq, nil
}

var errNoAck = fmt.Errorf("an append was answered without a number: %w", client.ErrTimeout)

// taken says which message has taken the batch's place: its own (the number of its last message), another's (errMoved), or
// none yet (0). It is asked even where ctx has ended, for a while, as attempt does.
func (b *batch) taken(ctx context.Context) (uint64, error) {
	wait := 2 * b.s.waits.answer
	if ctx.Err() != nil {
		wait = b.s.waits.answer / 2
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	// What is the last comes first: the batch may be stored between two questions, and is not another's then.
	m, err := b.s.get(ctx, getRequest{Last: b.subject})
	if err == nil && (m == nil && b.last > 0 || m != nil && m.seq < b.last) { // or who answers lags behind
		m, err = b.s.last(ctx, b.subject)
	}
	switch {
	case err == nil && m == nil && b.last == 0, err == nil && m != nil && m.seq == b.last:
		return 0, nil
	case err == nil && (m == nil || m.seq < b.last): // gone, with the one that was seen
		return 0, errMoved
	case err == nil:
		m, err = b.s.get(ctx, getRequest{Seq: b.last + 1, Next: b.subject})
	}
	if err != nil {
		if ctx.Err() != nil || cluster.Passing(err) {
			return 0, nil // ask again
		}
		return 0, b.doubt(err)
	}
	if m == nil { // erased in this moment
		return 0, nil
	}
	p, err := partOf(m)
	if err != nil || p.id != b.id { // a marker has none
		return 0, errMoved
	}
	return m.seq + uint64(p.of-p.number), nil
}

package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// appending is a batch on its way.
type appending struct {
	l      *Log
	ctx    context.Context // of the caller
	name   string
	b      *store.Batch
	after  uint64   // the revision that the log must have
	valid  bool     // it is one, and not Any or some other text
	before *logHead // the last message of the log, as far as is known
	read   bool     // it was read, or known
	sent   bool     // an attempt may have been stored
	behind uint64   // which one: behind this message
	tries  int
	info   store.Info // the result
}

// Append implements [store.Log].
func (l *Log) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if err := cmp.Or(b.Check(name), context.Cause(ctx)); err != nil {
		return store.Info{}, err
	}
	a := &appending{l: l, ctx: ctx, name: name, b: &b}
	a.after, a.valid = sequenceOf(b.After)
	// What was seen last is mostly what is: the servers take nothing that was made for another revision.
	a.before = l.known.find(name)
	switch {
	case b.After == store.New:
		a.before, a.read = nil, true
	case b.After == store.Any:
		a.read = a.before != nil
	default:
		a.read = a.valid && a.before.revision() == a.after
	}
	err := l.again(ctx, func(ctx context.Context) error {
		if a.read {
			a.read = false
			if err := a.attempt(ctx); !errors.Is(err, store.ErrInvalid) { // else the log may have moved
				return err
			}
		}
		var err error
		if a.before, err = l.head(ctx, name); err != nil {
			return err
		}
		if done, err := a.judge(ctx); done || err != nil {
			return err
		}
		return a.attempt(ctx)
	})
	if err == nil {
		return a.info, nil
	}
	if a.sent && !errors.Is(err, store.ErrMoved) {
		err = unsure(err)
	}
	return store.Info{}, err
}

// judge decides by the last message of the log whether the batch is stored, or cannot be.
func (a *appending) judge(ctx context.Context) (done bool, err error) {
	b, h := a.b, a.before
	anyRev := b.After == store.Any
	if h.lives() && h.id == b.ID && (anyRev || a.valid && h.after == a.after) {
		a.info = h.info(a.name)
		return true, nil
	}
	behind := a.behind
	moved := !anyRev && (!a.valid || h.revision() != a.after)
	if moved && a.valid && h.lives() {
		behind = max(a.after, h.born)
	}
	if (a.sent || moved && a.valid && h.lives()) && h.expected() > behind {
		stored, err := a.l.batchBehind(ctx, a.name, behind, b.ID)
		if err != nil {
			return false, err
		}
		if stored != nil {
			a.info = stored.info(a.name)
			return true, nil
		}
		a.sent = false // another message is in its place
	}
	if moved {
		return false, &store.MovedLog{Info: h.info(a.name)}
	}
	return false, nil
}

// batchBehind returns the last message of a batch with an ID that is directly behind a message of the log, or nil.
func (l *Log) batchBehind(ctx context.Context, name string, seq uint64, id [16]byte) (*logHead, error) {
	for {
		m, err := l.ask(ctx, getRequest{Seq: seq + 1, Next: l.subject(name)})
		if err != nil || m == nil {
			return nil, err
		}
		h, p, err := l.read(m)
		switch {
		case err != nil:
			return nil, nil //nolint:nilerr // it is another one
		case p.id != id && (h == nil || h.rev > 0): // of a batch that has no end, or a trim
			seq = m.Sequence
			continue
		case p.id != id:
			return nil, nil
		}
		return l.headOfBatch(ctx, name, m)
	}
}

// attempt sends the batch once.
func (a *appending) attempt(ctx context.Context) error {
	next, parts, err := a.compose()
	if err != nil {
		return err
	}
	if err := a.l.room.admit(ctx, parts); err != nil {
		return err
	}
	if before := a.before; before != nil && before.state == stateDeleted { // what a deletion left that was cut off, is not the new log's
		if err := a.l.purge(ctx, a.l.prefix+a.l.tokens(a.name)+".>", before.seq); err != nil {
			return err
		}
	}
	next.seq, err = a.send(next, parts)
	switch {
	case err == nil:
		next.tail = next.seq
		a.l.known.add(a.name, next)
		a.info = next.info(a.name)
		return nil
	case cluster.WrongSequence(err):
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// compose makes the last message of the batch, and the data of all.
func (a *appending) compose() (*logHead, []part, error) {
	b, before := a.b, a.before
	next := &logHead{}
	now := time.Now().UnixMicro()
	if before.lives() {
		*next = *before
		next.message, next.rev, next.markAt, next.markBefore = nil, 0, before.at(), 0
		next.after, next.before = before.revision(), before.seq
	} else {
		next.created, next.born, next.label = now, before.expected(), b.Label
	}
	next.id, next.name, next.state, next.old, next.updated = b.ID, a.name, stateLives, false, now
	if !b.Updated.IsZero() {
		next.updated = b.Updated.UnixMicro()
	}
	if b.Head != nil {
		next.head = b.Head
	}
	if err := next.follow(before, a.l.o.Indexed); err != nil {
		return nil, nil, fmt.Errorf("log %q: %w", a.name, err)
	}
	next.n, next.size, next.from, next.parts, next.base = 0, 0, 0, 0, next.last
	if len(b.Entries) == 0 {
		return next, []part{{nil, next.last}}, nil
	}
	entries, at := slices.Clone(b.Entries), before.at()
	for i := range entries {
		e := &entries[i]
		if e.N == 0 {
			e.N = next.last + 1
		}
		if e.N <= next.last {
			return nil, nil, fmt.Errorf("%w: entry %d of %q is not above %d", store.ErrInvalid, e.N, a.name, next.last)
		}
		next.last = e.N
		next.n, next.size = next.n+1, next.size+uint64(len(e.Data))
		if e.Mark {
			next.mark, next.markAt, next.markBefore = e.N, 0, at
		}
	}
	next.from = entries[0].N
	if next.entries == next.gone {
		next.first = next.from
	}
	next.entries, next.bytes = next.entries+next.n, next.bytes+next.size
	parts := encodeEntries(entries, next.base, a.l.inline, a.l.chunk)
	if a.l.o.Indexed && len(parts) > mostParts {
		return nil, nil, fmt.Errorf("%w: a batch of %d messages, at most %d are allowed", store.ErrTooLarge, len(parts), mostParts)
	}
	next.parts, next.base = uint64(len(parts)), parts[len(parts)-1].base
	return next, parts, nil
}

// follow gives a head the page of a message behind another one.
func (h *logHead) follow(before *logHead, indexed bool) error {
	h.page, h.pageBefore = page{}, 0
	if !indexed || !before.lives() {
		return nil
	}
	all, err := before.spots()
	if len(all) >= pageLen {
		h.pageBefore = before.seq
	} else {
		h.page, h.pageBefore = encodePage(all), before.pageBefore
	}
	return err
}

// send stores the messages of the batch.
func (a *appending) send(next *logHead, parts []part) (seq uint64, err error) {
	l := a.l
	a.tries++
	subject := l.subject(a.name)
	header := next.header(l.nameOf(subject) == "")
	atomic := len(parts) > 1 && l.o.Indexed
	expected := a.before.expected()
	p := partHead{id: next.id, of: uint64(len(parts)), before: next.before}
	for i := range parts {
		last := i == len(parts)-1
		p.number, p.base = uint64(i+1), parts[i].base
		m := &client.Msg{Subject: subject, Data: parts[i].data, Header: header}
		if !last {
			m.Header = client.Header{headerPart: {p.text()}}
		}
		if i == 0 || !atomic {
			m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
		}
		if atomic {
			m.Header[headerAtomicID] = []string{fmt.Sprintf("%x-%d", next.id, a.tries)}
			m.Header[headerAtomicNumber] = []string{strconv.Itoa(i + 1)}
			if last {
				m.Header[headerAtomicCommit] = []string{"1"}
			}
		}
		if seq, err = l.send(a.ctx, m, atomic && !last); err != nil {
			if last && !cluster.Unstored(err) {
				a.sent, a.behind = true, a.before.expected()
			}
			return 0, err
		}
		if !atomic {
			expected, p.before = seq, seq
		}
	}
	return seq, nil
}

// errNoAck says that a message was answered without a sequence.
var errNoAck = fmt.Errorf("a message was answered without a sequence: %w", client.ErrTimeout)

// send stores a message. Of one that is staged the servers do not tell the sequence.
func (l *Log) send(ctx context.Context, m *client.Msg, staged bool) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.e.waits.answer)
	defer cancel()
	answer, err := l.publish(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("store on %s: %w", m.Subject, err)
	}
	if staged && len(answer.Data) == 0 {
		return 0, nil
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("an answer of no known form: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Seq == 0 {
		return 0, errNoAck
	}
	return ack.Seq, nil
}

// spareBytes is what a stream may have beyond the bound of its space: barriers and the markers of deleted logs need room, too.
const spareBytes = 64 << 10

// room keeps a space within its bound. While it is far from it, a process asks how large the stream is each second only; the servers refuse
// what several processes exceed the bound by.
type room struct {
	l *Log

	mu      sync.Mutex
	checked time.Time
	left    int64 // that this process may add until it asks again
}

func (r *room) admit(ctx context.Context, parts []part) error {
	most := r.l.o.MaxBytes
	if most <= 0 {
		return nil
	}
	size := int64(0)
	for i := range parts {
		size += int64(len(parts[i].data))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left -= size; r.left >= 0 && time.Since(r.checked) < checkEvery {
		return nil
	}
	r.left = 0
	info, err := (*r.l.stream.Load()).Info(ctx)
	if err != nil {
		return err
	}
	free := most - int64(info.State.Bytes) - size
	if free < 0 {
		return fmt.Errorf("%w: the space %s may have %d bytes", store.ErrFull, r.l.o.Space, most)
	}
	r.checked, r.left = time.Now(), free/checkPart
	return nil
}

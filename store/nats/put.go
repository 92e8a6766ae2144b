package nats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// atOnce bounds the puts of a call that are on their way at the same time.
const atOnce = 32

// Put implements [store.Table]. Puts of different keys are sent at the same time, those of one key one after the other.
func (t *Table) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	records, errs := make([]store.Record, len(puts)), make([]error, len(puts))
	if len(puts) == 1 {
		records[0], errs[0] = t.put(ctx, &puts[0])
		return records, errs
	}
	keys := map[string][]int{}
	for i := range puts {
		keys[puts[i].Key] = append(keys[puts[i].Key], i)
	}
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for _, key := range keys {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			for _, i := range key {
				records[i], errs[i] = t.put(ctx, &puts[i])
			}
		})
	}
	wait.Wait()
	return records, errs
}

// write is a put on its way.
type write struct {
	t       *Table
	p       *store.Put
	before  message // the last message of the key, as far as is known
	read    bool    // it was read, or known; else a create expects none
	doubt   bool    // an attempt may have been stored
	data    []byte  // the put's body as it is sent, once it was packed, which takes long for a large one
	packed  bool
	removed store.Record
	record  store.Record // the result
}

// put makes one change.
func (t *Table) put(ctx context.Context, p *store.Put) (store.Record, error) {
	if err := cmp.Or(p.Check(), context.Cause(ctx)); err != nil {
		return store.Record{}, err
	}
	w := &write{t: t, p: p}
	switch {
	case p.After == 0 && !p.Delete:
		w.read = true
	case p.After != 0 && p.After != store.AnyRev:
		if m := t.known.find(p.Key); m != nil && m.seq == p.After && m.lives(time.Now()) {
			w.before, w.read = *m, true
		}
	}
	fresh := !w.read // it has to be judged once it is read
	err := t.again(ctx, func(ctx context.Context) error {
		if !w.read {
			least := p.After
			if p.After == store.AnyRev {
				least = 0
			}
			var err error
			if w.before, err = t.last(ctx, p.Key, least); err != nil {
				return err
			}
			fresh = true
		}
		if fresh {
			if done, err := w.judge(); done || err != nil {
				return err
			}
		}
		w.read, fresh = false, false // what is there after an attempt that fails, has to be read
		return w.attempt(ctx)
	})
	if err == nil {
		return w.record, nil
	}
	if w.doubt && !errors.Is(err, store.ErrMoved) {
		err = unsure(err)
	}
	return store.Record{}, err
}

// judge decides by the message that was read whether the put is done, or fails.
func (w *write) judge() (done bool, err error) {
	p, m := w.p, &w.before
	lives := m.lives(time.Now())
	switch mine := m.seq > 0 && m.ID == p.ID; {
	case mine && !p.Delete && m.Deleted == 0:
		w.record = m.record()
		return true, nil
	case mine && p.Delete && m.Deleted > 0:
		if w.record = w.removed; w.record.Rev == 0 {
			w.record = store.Record{Key: p.Key, Made: m.Made, Rev: m.Deleted}
		}
		return true, nil
	case !p.Delete && m.Deleted > 0 && bytes.Equal(m.Meta, p.ID[:]): // it was written, and then deleted
		return false, &store.Moved{Record: store.Record{Key: p.Key}}
	case m.damaged && p.After != store.AnyRev:
		return false, fmt.Errorf("key %q: %w", p.Key, store.ErrDamaged)
	}
	var rev uint64
	moved := &store.Moved{Record: store.Record{Key: p.Key}}
	if lives {
		rev, moved.Record = m.seq, m.record()
	}
	switch {
	case p.Delete && !lives && (p.After == 0 || p.After == store.AnyRev):
		return false, store.ErrNotFound
	case p.After != store.AnyRev && p.After != rev:
		return false, moved
	}
	return false, nil
}

// attempt sends the message once.
func (w *write) attempt(ctx context.Context) error {
	t := w.t
	next, data, err := w.compose(ctx)
	if err != nil {
		return err
	}
	before, lives := &w.before, w.before.lives(time.Now())
	if w.p.Delete {
		w.removed = before.record()
	}
	admitted, err := t.bounds.admit(ctx, next, before, lives)
	if err != nil {
		return err
	}
	ack, err := t.send(ctx, next, before.seq, data)
	switch {
	case err == nil:
		next.seq = ack.Sequence
		admitted(next.seq)
		w.stored(next)
		return nil
	case cluster.WrongSequence(err):
		err = fmt.Errorf("%w: %w", errChanged, err)
	default:
		w.doubt = w.doubt || !cluster.Unstored(err)
	}
	admitted(0)
	return err
}

// alwaysWritten is the length of keys that a subject tells however they are written: a byte takes up to three.
const alwaysWritten = 64

// once are the options of each publish: the engine tries again itself.
var once = []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}

// send publishes a message behind another one of its key.
func (t *Table) send(ctx context.Context, m *message, last uint64, data []byte) (*jetstream.PubAck, error) {
	subject := t.subject(m.key)
	hidden := len(m.key) > alwaysWritten && t.key(subject) == ""
	out := &client.Msg{Subject: subject, Header: m.header(hidden), Data: data}
	out.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	if last > 0 && m.Body == 0 {
		out.Header[jetstream.MsgRollup] = []string{jetstream.MsgRollupSubject}
	}
	if life := m.life(); life > 0 {
		out.Header[jetstream.MsgTTLHeader] = []string{strconv.FormatInt(int64(life.Seconds()), 10)}
	}
	ack, err := t.publish(ctx, out, once...)
	if err != nil {
		return nil, fmt.Errorf("store key %q: %w", m.key, err)
	}
	return ack, nil
}

// compose makes the next message of the key.
func (w *write) compose(ctx context.Context) (next *message, data []byte, err error) {
	t, p, before := w.t, w.p, &w.before
	next = &message{key: p.Key, head: head{ID: p.ID, At: time.Now().UnixMilli()}}
	if p.Delete {
		if next.Deleted, next.Made = before.seq, before.made(); before.ID != [16]byte{} { // else only the place of what makes room is known
			next.Meta = bytes.Clone(before.ID[:])
		}
		return next, nil, nil
	}
	next.Meta = p.Meta
	if p.Life > 0 {
		next.End = next.At + p.Life.Milliseconds()
	}
	body := p.Body
	if before.lives(time.Now()) {
		next.Made = before.made()
		if body == nil && before.Size > 0 {
			if next.stepAfter(before) {
				return next, nil, nil
			}
			next.Body, next.Until, next.Floor = 0, 0, 0
			if body, err = t.bodyOf(ctx, before); err != nil {
				return nil, nil, err
			}
		}
	}
	next.Size = int64(len(body))
	if w.data == nil || p.Body == nil {
		if w.data, w.packed, err = pack(body, int(t.e.c.Conn().MaxPayload())-headerRoom); err != nil {
			return nil, nil, err
		}
	}
	next.Packed = w.packed
	return next, w.data, nil
}

// bodyOf returns the body of a message of which perhaps only the head is known.
func (t *Table) bodyOf(ctx context.Context, m *message) ([]byte, error) {
	whole := *m
	if whole.Body == 0 {
		whole.Body = m.seq
	}
	return t.body(ctx, &whole)
}

// stored takes note of a message that is stored.
func (w *write) stored(next *message) {
	t := w.t
	if next.Deleted > 0 {
		w.record = w.removed
		t.known.remove(next.key)
		return
	}
	w.record = next.record()
	t.known.add(next.key, next)
	if w.before.Body > 0 && next.Body > 0 {
		t.forget(w.before.seq)
	}
}

// forget removes a step behind which there is another one. It does not wait: one that stays is not read, and the next whole removes it.
func (t *Table) forget(seq uint64) {
	request, err := json.Marshal(map[string]any{"seq": seq, "no_erase": true})
	if err == nil {
		_ = t.e.c.Conn().Publish("$JS.API.STREAM.MSG.DELETE."+t.name, request)
	}
}

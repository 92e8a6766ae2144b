package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
)

// last returns the last message of a key, as the leader has it. If the leader has no record, or none that is as new as least, it may be a
// former one: then the barrier decides.
func (t *Table) last(ctx context.Context, key string, least uint64) (message, error) {
	return t.lastOf(ctx, t.subject(key), least)
}

func (t *Table) lastOf(ctx context.Context, subject string, least uint64) (message, error) {
	m, err := t.ask(ctx, map[string]string{"last_by_subj": subject})
	if err != nil || m.seq >= least && m.lives(time.Now()) {
		return m, err
	}
	raw, err := t.barrier.Last(ctx, subject)
	if err != nil || raw == nil {
		return message{}, err
	}
	n, err := strconv.ParseUint(raw.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("a message without a sequence: %w", err)
	}
	return t.message(subject, n, raw.Header, raw.Data), nil
}

// body returns the body of a record. The error is errChanged if it was replaced since.
func (t *Table) body(ctx context.Context, m *message) ([]byte, error) {
	data := m.data
	if m.Body > 0 {
		whole, err := t.ask(ctx, map[string]uint64{"seq": m.Body})
		switch {
		case err != nil:
			return nil, err
		case whole.seq == 0:
			return nil, errChanged
		}
		data = whole.data
	}
	return m.unpack(data)
}

// found returns the record that a message has, with its body.
func (t *Table) found(m *message, body []byte, err error) (store.Record, error) {
	switch {
	case err != nil:
		return store.Record{}, err
	case m.damaged:
		return store.Record{}, fmt.Errorf("key %q: %w", m.key, store.ErrDamaged)
	case !m.lives(time.Now()):
		return store.Record{}, store.ErrNotFound
	}
	r := m.record()
	r.Body = body
	t.known.add(m.key, m)
	return r, nil
}

// Get implements [store.Table].
func (t *Table) Get(ctx context.Context, key string) (r store.Record, err error) {
	if err := store.CheckKey(key); err != nil {
		return r, err
	}
	var missed uint64
	err = t.again(ctx, func(ctx context.Context) error {
		m, err := t.last(ctx, key, 0)
		var body []byte
		if err == nil && m.lives(time.Now()) {
			body, err = t.body(ctx, &m)
			if errors.Is(err, errChanged) {
				if missed == m.seq {
					err = fmt.Errorf("key %q: %w: its body is gone", key, store.ErrDamaged)
				}
				missed = m.seq
			}
		}
		r, err = t.found(&m, body, err)
		return err
	})
	return r, err
}

// Peek implements [store.Table]. Any server answers, even one that lags behind.
func (t *Table) Peek(ctx context.Context, key string) (r store.Record, err error) {
	if err := store.CheckKey(key); err != nil {
		return r, err
	}
	lost := false
	err = t.again(ctx, func(ctx context.Context) error {
		s := *t.stream.Load() // which allows direct reads, so that the client uses them
		m, err := t.raw(s.GetLastMsgForSubject(ctx, t.subject(key)))
		data := m.data
		if err == nil && m.lives(time.Now()) && m.Body > 0 {
			var whole message
			whole, err = t.raw(s.GetMsg(ctx, m.Body))
			lost, data = whole.seq == 0, whole.data
		}
		if err != nil || lost {
			return err
		}
		var body []byte
		if m.lives(time.Now()) {
			body, err = m.unpack(data)
		}
		r, err = t.found(&m, body, err)
		return err
	})
	if err == nil && lost {
		return t.Get(ctx, key)
	}
	return r, err
}

// raw reads what the client has got.
func (t *Table) raw(m *jetstream.RawStreamMsg, err error) (message, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return message{}, nil
	case err != nil:
		return message{}, err
	}
	return t.message(m.Subject, m.Sequence, m.Header, m.Data), nil
}

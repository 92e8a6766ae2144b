package nats

import (
	"context"
	"encoding/json"
	"strconv"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// What is asked for at once: so many messages, and so many bytes as they may have.
	fetchMessages = 64
	fetchBytes    = 1 << 20
	// Messages that lie as near to each other as this are asked for with one request: a server goes through what lies between.
	denseMessages = 1024
	fences        = 8 // that may lie between the batches, and come too
)

// fetch gets messages of a subject, which is "" for any, by their sequences: from any copy, and from the leader if that has not got them.
// What is nil is certainly not there any more.
func (l *Log) fetch(ctx context.Context, subject string, seqs []uint64) ([]*jetstream.RawStreamMsg, error) {
	found := make([]*jetstream.RawStreamMsg, len(seqs))
	l.direct(ctx, subject, seqs, found)
	for i, seq := range seqs {
		if found[i] != nil {
			continue
		}
		err := l.again(ctx, func(ctx context.Context) (err error) {
			if found[i], err = l.ask(ctx, getRequest{Seq: seq}); found[i] != nil || err != nil {
				return err
			}
			m, err := l.barrier.At(ctx, seq)
			if m != nil {
				found[i] = directMsg(m)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if m := found[i]; m != nil && subject != "" && m.Subject != subject {
			found[i] = nil // it is of another stream, which was made in the place of a deleted one
		}
	}
	return found, nil
}

// direct asks any copy, for all messages at once. Those that do not come are left nil.
func (l *Log) direct(ctx context.Context, subject string, seqs []uint64, found []*jetstream.RawStreamMsg) {
	ctx, cancel := context.WithTimeout(ctx, l.e.waits.answer/2) // then the leader is asked
	defer cancel()
	conn, to := l.e.c.Conn(), "$JS.API.DIRECT.GET."+l.name
	if len(seqs) == 1 {
		if m, err := conn.RequestWithContext(ctx, to, seqBody(seqs[0])); err == nil {
			if m := directMsg(m); m != nil && m.Sequence == seqs[0] && (subject == "" || m.Subject == subject) {
				found[0] = m
			}
		}
		return
	}
	inbox := conn.NewRespInbox()
	answers := make(chan *client.Msg, len(seqs)+fences+1) // all that may come
	sub, err := conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return // the leader will not answer, either
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost, and then it is gone
	at := make(map[uint64]int, len(seqs))
	low, high := seqs[0], seqs[0]
	for i, seq := range seqs {
		at[seq], low, high = i, min(low, seq), max(high, seq)
	}
	expected := len(seqs)
	if subject != "" && high-low <= denseMessages {
		expected += fences + 1 // it says where it ends
		body, err := json.Marshal(getRequest{Seq: low, Next: subject, Batch: len(seqs) + fences})
		if err != nil || conn.PublishRequest(to, inbox, body) != nil {
			return
		}
	} else {
		for _, seq := range seqs {
			if conn.PublishRequest(to, inbox, seqBody(seq)) != nil {
				return
			}
		}
	}
	for left := len(seqs); left > 0 && expected > 0; expected-- {
		var answer *client.Msg
		select {
		case answer = <-answers:
		case <-ctx.Done():
			return
		}
		if answer.Header.Get("Status") == "204" {
			return
		}
		if m := directMsg(answer); m != nil {
			if i, ok := at[m.Sequence]; ok && found[i] == nil && (subject == "" || m.Subject == subject) {
				found[i] = m
				left--
			}
		}
	}
}

func seqBody(seq uint64) []byte {
	return append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), '}')
}

// scan gives take the messages of a subject from a sequence on, up to another one that there was. It asks any copy, and the leader for what
// a copy lacks. It is done when take says so.
func (l *Log) scan(ctx context.Context, subject string, from, to uint64, take func(m *jetstream.RawStreamMsg) (enough bool)) error {
	for from <= to {
		found, err := l.scanOnce(ctx, subject, from, to)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, m := range found {
			if m.Sequence > to || take(m) {
				return nil
			}
			from = m.Sequence + 1
		}
	}
	return nil
}

// scanOnce returns the next messages of a subject from a sequence on; none if there are none up to another one.
func (l *Log) scanOnce(ctx context.Context, subject string, from, to uint64) (found []*jetstream.RawStreamMsg, err error) {
	body, err := json.Marshal(getRequest{Seq: from, Next: subject, Batch: scanMessages, MaxBytes: fetchBytes})
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, l.e.waits.answer/2) // then the leader is asked
	defer cancel()
	_ = l.e.c.Direct(wait, l.name, body, scanMessages, func(answer *client.Msg, _ uint64) { // what does not come, the leader is asked for
		if m := directMsg(answer); m != nil {
			found = append(found, m)
		}
	})
	if err := context.Cause(ctx); err != nil || len(found) > 0 {
		return found, err
	}
	err = l.again(ctx, func(ctx context.Context) error {
		m, err := l.ask(ctx, getRequest{Seq: from, Next: subject})
		if m != nil {
			found = []*jetstream.RawStreamMsg{m}
		}
		if m != nil || err != nil {
			return err
		}
		last, err := l.barrier.At(ctx, to)
		if err == nil && last != nil && last.Header.Get(jetstream.SubjectHeader) == subject {
			err = errChanged // a server that led once has answered
		}
		return err
	})
	return found, err
}

const scanMessages = 256

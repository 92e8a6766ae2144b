package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

const (
	pauseMin    = 10 * time.Millisecond // between attempts, doubling
	pauseMax    = 250 * time.Millisecond
	pauseStored = time.Millisecond // for a message that is being stored
)

// waits is how long is waited for servers.
type waits struct {
	answer time.Duration // to one request
	direct time.Duration // of any copy; after it the leader is asked

	// The end of a call that has no answer. A cluster that has lost its leader without notice elects another one within 4 to 9 s;
	// without any connection there is no use in waiting so long.
	patience, offline time.Duration
}

var defaultWaits = waits{answer: 2 * time.Second, direct: time.Second, patience: 15 * time.Second, offline: 5 * time.Second}

// message is one that is stored.
type message struct {
	seq     uint64
	subject string
	header  client.Header
	data    []byte
}

// again calls do until it succeeds or fails for good, or patience or ctx ends.
func (s *Store) again(ctx context.Context, do func(ctx context.Context) error) error {
	began := time.Now()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		attempt, cancel := context.WithTimeout(ctx, s.waits.answer)
		err := do(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !cluster.Passing(err) || !s.patient(began) {
			return explain(err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// patient says whether to wait on for servers that have not answered since then.
func (s *Store) patient(since time.Time) bool {
	limit := s.waits.patience
	if !s.conn.IsConnected() {
		limit = s.waits.offline
	}
	return !s.conn.IsClosed() && time.Since(since) < limit
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// getRequest asks for a message: the one of a sequence, the last of a subject, or the next of a subject from a sequence on.
type getRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`

	Batch int `json:"batch,omitempty"` // so many of the next ones; of any copy alone
}

// get asks the leader for a message; it is nil where there is none. The leader has all that was acknowledged to anybody, but one that led
// once, and does not know that it does so no more, answers, too: see last and confirm.
func (s *Store) get(ctx context.Context, r getRequest) (m *message, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	err = s.again(ctx, func(ctx context.Context) error {
		m, err = s.getOnce(ctx, body)
		return err
	})
	return m, err
}

func (s *Store) getOnce(ctx context.Context, body []byte) (*message, error) {
	answer, err := s.conn.RequestWithContext(ctx, s.api+"STREAM.MSG.GET."+s.stream, body)
	if err != nil {
		return nil, err
	}
	var r struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Header  []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &r); err != nil {
		return nil, fmt.Errorf("an answer of the servers cannot be read: %w", err)
	}
	if r.Error != nil {
		if r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, nil
		}
		return nil, r.Error
	}
	if r.Message == nil {
		return nil, errors.New("an answer of the servers has no message")
	}
	m := &message{seq: r.Message.Seq, subject: r.Message.Subject, data: r.Message.Data}
	if len(r.Message.Header) > 0 {
		if m.header, err = client.DecodeHeadersMsg(r.Message.Header); err != nil {
			return nil, fmt.Errorf("an answer of the servers cannot be read: %w", err)
		}
	}
	return m, nil
}

// last is the last message of a subject for certain, nil where there is none: see [cluster.Barrier].
func (s *Store) last(ctx context.Context, subject string) (*message, error) {
	return s.confirm(ctx, func(ctx context.Context) (*client.Msg, error) { return s.barrier.Last(ctx, subject) })
}

func (s *Store) confirm(ctx context.Context, ask func(context.Context) (*client.Msg, error)) (found *message, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		m, err := ask(ctx)
		if found = nil; m != nil {
			found = directAnswer(m)
		}
		return err
	})
	return found, err
}

// head is the last batch of a tape, or the marker in its place; it is nil where there is none. That there is no tape is for certain.
func (s *Store) head(ctx context.Context, name string) (*head, error) {
	h, err := s.glance(ctx, name)
	if err != nil || h.there() && h.seq >= s.seen(name) {
		return h, err
	}
	m, err := s.last(ctx, s.entries(name))
	if err != nil {
		return nil, err
	}
	return headIn(name, m)
}

// seen is the highest sequence of a tape that is known here, if any is.
func (s *Store) seen(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[name]; sl != nil {
		return sl.seen.Load()
	}
	return 0
}

// glance is head as the leader has it, or one that led once and does not know that it does so no more.
func (s *Store) glance(ctx context.Context, name string) (*head, error) {
	m, err := s.get(ctx, getRequest{Last: s.entries(name)})
	if err != nil {
		return nil, err
	}
	return headIn(name, m)
}

func headIn(name string, m *message) (*head, error) {
	if m == nil {
		return nil, nil
	}
	h, err := headOf(m)
	if err == nil && h.Tape != name {
		err = fmt.Errorf("message %d: %w", m.seq, errDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("tape %s: %w", name, err)
	}
	return h, nil
}

// fetch gets messages of a subject, which is "" for any, by their sequences: from any copy, and from the leader where that has not
// got them. What is nil is not there any more.
func (s *Store) fetch(ctx context.Context, subject string, seqs []uint64) ([]*message, error) {
	found := make([]*message, len(seqs))
	if err := s.direct(ctx, subject, seqs, found); err != nil {
		return nil, err
	}
	for i, seq := range seqs {
		if found[i] == nil {
			m, err := s.get(ctx, getRequest{Seq: seq})
			if err == nil && m == nil {
				m, err = s.confirm(ctx, func(ctx context.Context) (*client.Msg, error) { return s.barrier.At(ctx, seq) })
			}
			if err != nil {
				return nil, err
			}
			found[i] = m
		}
		if m := found[i]; m != nil && subject != "" && m.subject != subject {
			return nil, fmt.Errorf("message %d: %w", seq, errDamaged)
		}
	}
	return found, nil
}

// direct asks any copy, for all messages at once. Those that do not come are left nil. An error is that of ctx.
func (s *Store) direct(ctx context.Context, subject string, seqs []uint64, found []*message) error {
	wait, cancel := context.WithTimeout(ctx, s.waits.direct)
	defer cancel()
	to := s.api + "DIRECT.GET." + s.stream
	if len(seqs) == 1 {
		m, err := s.conn.RequestWithContext(wait, to, directBody(seqs[0]))
		if err == nil {
			if m := directAnswer(m); m != nil && m.seq == seqs[0] {
				found[0] = m
			}
		}
		return cause(ctx)
	}
	inbox := s.conn.NewRespInbox()
	answers := make(chan *client.Msg, len(seqs)+fences+1) // all that may come
	sub, err := s.conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return cause(ctx) // the leader will not answer, either
	}
	defer func() { _ = sub.Unsubscribe() }() // fails where the connection is lost, and then it is gone
	at := make(map[uint64]int, len(seqs))
	for i, seq := range seqs {
		at[seq] = i
	}
	expected := len(seqs)
	if subject != "" && seqs[len(seqs)-1]-seqs[0] <= denseMessages {
		expected += fences + 1 // it says where it ends
		body, err := json.Marshal(getRequest{Seq: seqs[0], Next: subject, Batch: len(seqs) + fences})
		if err != nil {
			return err
		}
		if err := s.conn.PublishRequest(to, inbox, body); err != nil {
			return cause(ctx)
		}
	} else {
		for _, seq := range seqs {
			if err := s.conn.PublishRequest(to, inbox, directBody(seq)); err != nil {
				return cause(ctx)
			}
		}
	}
	for left := len(seqs); left > 0 && expected > 0; expected-- {
		var answer *client.Msg
		select {
		case answer = <-answers:
		case <-wait.Done():
			return cause(ctx)
		}
		if answer.Header.Get("Status") == "204" {
			break
		}
		if m := directAnswer(answer); m != nil {
			if i, ok := at[m.seq]; ok && found[i] == nil {
				found[i] = m
				left--
			}
		}
	}
	return cause(ctx)
}

const (
	// Messages that lie as near to each other as this are asked for with one request: a server goes through what lies between.
	denseMessages = 1024
	fences        = 8 // that may lie between the batches, and come too
)

func cause(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func directBody(seq uint64) []byte {
	return append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), '}')
}

// directAnswer is nil where a copy has no such message.
func directAnswer(m *client.Msg) *message {
	if m.Header.Get("Status") != "" {
		return nil
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil
	}
	return &message{seq: seq, subject: m.Header.Get(jetstream.SubjectHeader), header: m.Header, data: m.Data}
}

// publish stores a message, in one attempt.
func (s *Store) publish(ctx context.Context, m *client.Msg) (seq uint64, err error) {
	answer, err := s.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	if len(answer.Data) == 0 { // of an atomic batch that goes on
		return 0, nil
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("an answer of the servers cannot be read: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}

// purge erases what is under a subject, up to before a sequence; 0 is all.
func (s *Store) purge(ctx context.Context, filter string, before uint64) error {
	body, err := json.Marshal(struct {
		Filter string `json:"filter"`
		Seq    uint64 `json:"seq,omitempty"`
	}{filter, before})
	if err != nil {
		return err
	}
	return s.again(ctx, func(ctx context.Context) error {
		answer, err := s.conn.RequestWithContext(ctx, s.api+"STREAM.PURGE."+s.stream, body)
		if err != nil {
			return err
		}
		var r struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &r); err != nil {
			return fmt.Errorf("an answer of the servers cannot be read: %w", err)
		}
		if r.Error != nil {
			return r.Error
		}
		return nil
	})
}

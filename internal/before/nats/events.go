package nats

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/store"
)

// event is what the last message of an event says, in the header Event.
type event struct {
	State   string
	Key     string
	Brief   bool
	At      int64
	Raw     uint64 // the message with the raw form; 0: this one
	Packed  bool
	Stored  bool
	Attempt int
	Mark    string
	Outcome channel.Outcome
	Until   int64

	seq uint64
}

// seen are the marks of events.
var seen = map[string]channel.ReceiptState{
	"": channel.NotSent, "not_sent": channel.NotSent, "sent": channel.Sent, "partial": channel.Partial, "unknown": channel.UnknownWhether,
}

// keepEvents is how long an event waits at most.
const keepEvents = 7 * 24 * time.Hour

// takeEvents copies the events of the inbox.
func takeEvents(ctx context.Context, s jetstream.Stream, e store.Engine, log *slog.Logger) (int, error) {
	var waiting []event
	return inbox.Import(ctx, e, keepEvents, func(yield func(inbox.Old, error) bool) {
		for m, err := range lastMessages(ctx, s) {
			if err != nil {
				yield(inbox.Old{}, err)
				return
			}
			var r event
			if err := json.Unmarshal([]byte(m.header.Get("Event")), &r); err != nil {
				damaged(log, s, m.seq, err)
				continue
			}
			r.seq = cmp.Or(r.Raw, m.seq)
			old, err := r.old()
			switch {
			case err != nil:
				damaged(log, s, m.seq, err)
			case old.Settled:
				if !yield(old, nil) {
					return
				}
			case r.Stored && (r.State == "accepted" || r.State == "claimed"):
				waiting = append(waiting, r)
			}
		}
		slices.SortFunc(waiting, func(a, b event) int { return cmp.Compare(a.seq, b.seq) })
		for _, r := range waiting {
			old, _ := r.old()
			var err error
			if old.Raw, err = body(ctx, s, r.seq, r.Packed); errors.Is(err, errDamaged) {
				damaged(log, s, r.seq, err)
				continue
			}
			if !yield(old, err) || err != nil {
				return
			}
		}
	})
}

// old is the event without its raw form.
func (r *event) old() (o inbox.Old, err error) {
	if o.Key, err = channel.ParseEventKey(r.Key); err != nil && r.State != "erased" {
		return o, err
	}
	o.Key.Synthetic = r.Brief
	o.At, o.Attempt, o.Outcome = time.Unix(0, r.At), r.Attempt, r.Outcome
	o.Settled, o.Until = r.State == "settled", time.Unix(0, r.Until)
	if r.State == "claimed" {
		o.Attempt++ // the replica has ended in its turn
	}
	o.Seen = channel.UnknownWhether
	if s, ok := seen[r.Mark]; ok {
		o.Seen = s
	}
	return o, nil
}

// takeBlocks copies the replies that wait to be sent.
func takeBlocks(ctx context.Context, s jetstream.Stream, e store.Engine, log *slog.Logger) (int, error) {
	type block struct {
		State   string
		ID      uint64 // the message with the block; 0: this one
		At      int64
		Packed  bool
		Attempt int

		token string
	}
	var waiting []block
	for m, err := range lastMessages(ctx, s) {
		if err != nil {
			return 0, err
		}
		var r block
		if err := json.Unmarshal([]byte(m.header.Get("Block")), &r); err != nil {
			damaged(log, s, m.seq, err)
			continue
		}
		r.ID, r.token = cmp.Or(r.ID, m.seq), m.subject[strings.LastIndexByte(m.subject, '.')+1:]
		if r.State == "prepared" || r.State == "sending" {
			waiting = append(waiting, r)
		}
	}
	slices.SortFunc(waiting, func(a, b block) int { return cmp.Compare(a.ID, b.ID) })
	return outbox.Import(ctx, e, func(yield func(outbox.Old, error) bool) {
		for _, r := range waiting {
			old := outbox.Old{Key: r.token, At: time.Unix(0, r.At), Attempt: r.Attempt, Sending: r.State == "sending"}
			text, err := body(ctx, s, r.ID, r.Packed)
			if err == nil && json.Unmarshal(text, &old.Block) != nil {
				err = errDamaged
			}
			if errors.Is(err, errDamaged) {
				damaged(log, s, r.ID, err)
				continue
			}
			if !yield(old, err) || err != nil {
				return
			}
		}
	})
}

var errDamaged = errors.New("it is damaged")

func damaged(log *slog.Logger, s jetstream.Stream, seq uint64, err error) {
	log.Error("a message of an earlier version is damaged and was not taken in",
		"stream", s.CachedInfo().Config.Name, "message", seq, "error", err)
}

// body reads the data of a message.
func body(ctx context.Context, s jetstream.Stream, seq uint64, packed bool) ([]byte, error) {
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, errDamaged
	}
	if err != nil || !packed {
		if err == nil && m.Data == nil {
			m.Data = []byte{}
		}
		return m.Data, err
	}
	r, err := gzip.NewReader(bytes.NewReader(m.Data))
	if err != nil {
		return nil, errDamaged
	}
	text, err := io.ReadAll(io.LimitReader(r, store.MaxBody+1))
	if err != nil || len(text) > store.MaxBody {
		return nil, errDamaged
	}
	return text, nil
}

// message is the last message of a subject, without its data.
type message struct {
	subject string
	seq     uint64
	header  interface{ Get(string) string }
}

// nextWait is how long the next message is waited for, before it is asked whether there is one.
const nextWait = 2 * time.Second

// lastMessages yields the last message of each subject of a stream that nobody changes.
func lastMessages(ctx context.Context, s jetstream.Stream) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true})
		if err != nil {
			yield(message{}, err)
			return
		}
		left := c.CachedInfo().NumPending
		messages, err := c.Messages()
		if err != nil {
			yield(message{}, err)
			return
		}
		defer messages.Stop()
		for left > 0 {
			next, cancel := context.WithTimeout(ctx, nextWait)
			m, err := messages.Next(jetstream.NextContext(next))
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // what was to come may have gone
				var info *jetstream.ConsumerInfo
				if info, err = c.Info(ctx); err == nil {
					left = info.NumPending
					continue
				}
			}
			if err != nil {
				yield(message{}, fmt.Errorf("read a stream of an earlier version: %w", err))
				return
			}
			info, err := m.Metadata()
			if err != nil {
				yield(message{}, err)
				return
			}
			left = info.NumPending
			if !yield(message{m.Subject(), info.Sequence.Stream, m.Headers()}, nil) {
				return
			}
		}
	}
}

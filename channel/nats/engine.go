package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	_ "github.com/lingserve/lingserve/store/nats" // the table of leases
)

const (
	// patience is how long a call waits for servers that do not answer. It is more than a leader's change takes that the servers
	// know of, and less than the time after which platforms give up a delivery.
	patience    = 5 * time.Second
	attemptWait = 2 * time.Second // for the answer to one request: a disk that is slow takes less

	pauseMin = 10 * time.Millisecond // between attempts, doubling
	pauseMax = 250 * time.Millisecond
)

// log is a stream of subjects, of each of which only the last message is believed.
type log struct {
	c      *cluster.Cluster
	stream jetstream.Stream
	// publish is JetStream's, or what stands between in a test.
	publish func(context.Context, *client.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)
}

// message is one that is stored; seq is 0 for none.
type message struct {
	seq    uint64
	header client.Header
	data   []byte
}

const (
	headerID   = "Step-Id" // which step it is, so that it is known again
	headerSync = "Nats-Rollup"
)

// newID is of 128 random bits.
func newID() string { return rand.Text() }

// step is a message to store behind the last that was seen, which is 0 for none.
type step struct {
	subject string
	id      string
	header  client.Header
	data    []byte
	last    uint64
	alone   bool          // those before it go
	life    time.Duration // after which it goes by itself; 0 is never
}

// put stores a step. errMoved says that another message is behind the last that was seen. known is false where it cannot be said whether
// the step was stored.
func (l *log) put(ctx context.Context, s step) (seq uint64, known bool, err error) {
	m := &client.Msg{Subject: s.subject, Header: client.Header{}, Data: s.data}
	for name, values := range s.header {
		m.Header[name] = values
	}
	m.Header.Set(headerID, s.id)
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(s.last), jetstream.WithRetryAttempts(0)}
	if s.alone {
		m.Header.Set(headerSync, "sub")
	}
	if s.life > 0 {
		options = append(options, jetstream.WithMsgTTL(max(s.life, time.Second).Truncate(time.Second)))
	}
	doubt := false
	err = l.again(ctx, func(ctx context.Context) error {
		ack, err := l.publish(ctx, m, options...)
		switch {
		case err == nil:
			seq = ack.Sequence
			return nil
		case !cluster.WrongSequence(err), cluster.Passing(err):
			doubt = doubt || !cluster.Unstored(err)
			return err
		case !doubt:
			return errMoved
		}
		// An attempt before this one had no answer, and may be what is in the way.
		last, err := l.lastOnce(ctx, s.subject)
		if err != nil {
			return err
		}
		doubt = false
		if last.header.Get(headerID) != s.id {
			return errMoved
		}
		seq = last.seq
		return nil
	})
	return seq, !doubt, err
}

// change puts what next makes of the last message of a subject behind it, once more where others were faster. Where next makes nothing,
// nothing is put. It returns the message that is the last then.
func (l *log) change(ctx context.Context, subject string, next func(last message) (*step, error)) (message, error) {
	for range tries {
		m, err := l.last(ctx, subject)
		if err != nil {
			return message{}, err
		}
		s, err := next(m)
		if err != nil || s == nil {
			return m, err
		}
		s.subject, s.id, s.last = subject, newID(), m.seq
		seq, _, err := l.put(ctx, *s)
		if !errors.Is(err, errMoved) {
			return message{seq, s.header, s.data}, err
		}
	}
	return message{}, &Error{textBusy, errMoved}
}

// last is the last message of a subject, as the leader has it.
func (l *log) last(ctx context.Context, subject string) (m message, err error) {
	err = l.again(ctx, func(ctx context.Context) error {
		m, err = l.lastOnce(ctx, subject)
		return err
	})
	return m, err
}

func (l *log) lastOnce(ctx context.Context, subject string) (message, error) {
	raw, err := l.stream.GetLastMsgForSubject(ctx, subject)
	return found(raw, err)
}

// at is the message of a sequence.
func (l *log) at(ctx context.Context, seq uint64) (m message, err error) {
	err = l.again(ctx, func(ctx context.Context) error {
		raw, err := l.stream.GetMsg(ctx, seq)
		m, err = found(raw, err)
		return err
	})
	return m, err
}

func found(raw *jetstream.RawStreamMsg, err error) (message, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return message{}, nil
	}
	if err != nil {
		return message{}, err
	}
	return message{raw.Sequence, raw.Header, raw.Data}, nil
}

// again calls do until it succeeds or fails for good, or patience or ctx ends.
func (l *log) again(ctx context.Context, do func(ctx context.Context) error) error {
	began := time.Now()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		attempt, cancel := context.WithTimeout(ctx, attemptWait)
		err := do(attempt)
		cancel()
		switch {
		case err == nil, errors.Is(err, errMoved):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !cluster.Passing(err):
			return explain(err)
		case l.c.Conn().IsClosed() || time.Since(began) >= patience:
			return explain(err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// purge removes the messages of a subject.
func (l *log) purge(ctx context.Context, subject string) error {
	return l.again(ctx, func(ctx context.Context) error { return l.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)) })
}

// largest is how many bytes a message may have beside its headers.
func (l *log) largest() int { return int(l.c.Conn().MaxPayload()) - headerRoom }

// headerRoom is what headers take at most.
const headerRoom = 16 << 10

// each calls do with the last message of each subject below a filter, without its data.
func (l *log) each(ctx context.Context, filter string, do func(subject string, m message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := l.follow(ctx, filter, func(subject string, m message) {
		if err := do(subject, m); err != nil {
			cancel(err)
		}
	}, func() { cancel(errAll) })
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errAll):
		return nil
	case cause != nil:
		return cause
	}
	return err
}

var errAll = errors.New("all was seen")

// erase calls gone with the last token of each subject below a filter whose last message is to go.
func (l *log) erase(ctx context.Context, filter string, is func(m message) bool, gone func(ctx context.Context, token string) error) error {
	var found []string
	err := l.each(ctx, filter, func(subject string, m message) error {
		if is(m) {
			found = append(found, tokenOf(subject))
		}
		return nil
	})
	for _, token := range found {
		if err == nil {
			err = gone(ctx, token)
		}
	}
	return err
}

// follow is each, which goes on with what is stored later. It calls caught when all has been seen that there was. It returns with ctx, or
// when the servers do not let it go on.
func (l *log) follow(ctx context.Context, filter string, do func(subject string, m message), caught func()) error {
	cons, err := l.consumer(ctx, filter)
	if err != nil {
		return explain(err)
	}
	left := cons.CachedInfo().NumPending
	messages, err := cons.Messages(jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return explain(err)
	}
	defer messages.Stop()
	for seen := false; ; {
		if left == 0 && !seen {
			seen = true
			caught()
		}
		next := ctx
		cancel := func() {}
		if !seen { // what was to come may have gone meanwhile
			next, cancel = context.WithTimeout(ctx, followIdle)
		}
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !seen && errors.Is(err, context.DeadlineExceeded):
			info, err := cons.Info(ctx)
			if err != nil {
				return explain(err)
			}
			left = info.NumPending
			continue
		case err != nil:
			return explain(err)
		}
		info, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("channel: a message of the servers cannot be read: %w", err)
		}
		do(m.Subject(), message{seq: info.Sequence.Stream, header: m.Headers()})
		left = info.NumPending
	}
}

// keepFollowing is follow, which begins anew until ctx ends. What came before and is gone since stays as it was heard: whoever wants it finds
// that out. unheard is told that nothing is heard, once until all has been seen again.
func (l *log) keepFollowing(ctx context.Context, filter string, do func(subject string, m message), caught func(), unheard func(error)) {
	told := false
	for ctx.Err() == nil {
		err := l.follow(ctx, filter, do, func() {
			told = false
			caught()
		})
		if err != nil && !told && ctx.Err() == nil {
			unheard(err)
			told = true
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
}

const (
	followPause     = 200 * time.Millisecond // between attempts
	followExpiry    = 10 * time.Second       // of one request of an ordered consumer
	followHeartbeat = time.Second            // a consumer that is silent for twice as long is made anew
	followIdle      = 2 * time.Second        // after which it is asked whether there is anything to come
)

func (l *log) consumer(ctx context.Context, filter string) (jetstream.Consumer, error) {
	return l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		InactiveThreshold: time.Minute,
		MaxResetAttempts:  1, // or it would go on for as long as servers are away, whatever ends meanwhile
	})
}

// tokenOf is the last token of a subject.
func tokenOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

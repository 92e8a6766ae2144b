package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
)

const (
	followPause     = 200 * time.Millisecond // between attempts
	followExpiry    = 10 * time.Second       // of one request of a consumer
	followHeartbeat = time.Second            // a consumer that is silent for twice as long is made anew
	consumerLife    = 30 * time.Second       // of one whose process has died
	// tickEvery is how long a follower waits for a message until it looks which records have ended. The client notices that a consumer is
	// silent only while it is asked for one message for longer than that takes.
	tickEvery = 5 * time.Second
)

// follower is told of the keys that begin with a prefix.
type follower struct {
	t      *Table
	prefix string
	// begin is called before all that there is is told of, at first and after each interruption.
	begin func()
	// change is told of each message, in the order of sequences. live is told when all has been told that was acknowledged before follow was
	// called, and again after each interruption.
	change func(m *message) error
	live   func() error
	// tick is called after each message, and at least each tickEvery.
	tick func() error
}

// stopped is an error of a follower's function, which ends it.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// follow tells of what there is, then of what comes, until ctx ends or a function fails. Interruptions are repaired: after one it begins
// with what there is, as after the call.
func (f *follower) follow(ctx context.Context) error {
	told := false
	for {
		err := f.once(ctx, &told)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s, ok := errors.AsType[stopped](err); ok {
			return s.error
		}
		if !told {
			told = true
			f.t.e.log.LogAttrs(ctx, slog.LevelWarn, "subscription to a table broke; retrying", slog.String("table", f.t.o.Name), slog.String("error", err.Error()))
		}
		if err := f.tick(); err != nil {
			return err
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
		if erased(err) {
			f.t.remake(ctx)
		}
	}
}

// errReconnected is an interruption that a consumer may not notice. What has vanished meanwhile is found only from the beginning.
var errReconnected = errors.New("the connection was made anew")

// once follows until the first interruption.
func (f *follower) once(ctx context.Context, told *bool) error {
	t := f.t
	reconnects := t.e.c.Conn().Stats().Reconnects
	passing, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	barrier, err := t.barrier.Pass(passing)
	if err != nil {
		return err
	}
	messages, err := t.consume(ctx, f.prefix)
	if err != nil {
		return err
	}
	defer messages.stop()
	f.begin()
	seen := map[string]bool{} // until it is live
	for live, wait := false, attemptWait; ; {
		next, cancel := context.WithTimeout(ctx, wait)
		msg, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if t.e.c.Conn().Stats().Reconnects != reconnects {
			return errReconnected
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && live {
			if err := f.tick(); err != nil {
				return stopped{err}
			}
			continue
		}
		if err != nil {
			return err
		}
		info, err := msg.Metadata()
		if err != nil {
			return err
		}
		seq := info.Sequence.Stream
		if msg.Subject() != t.barrier.Subject() {
			m := t.message(msg.Subject(), seq, msg.Headers(), nil)
			if strings.HasPrefix(m.key, f.prefix) {
				err = f.change(&m)
				if !live {
					seen[m.key] = true
				}
			}
		}
		if err == nil && !live && seq >= barrier {
			unseen, missing := f.unseen(ctx, barrier, seen)
			if missing != nil {
				return missing
			}
			for i := range unseen {
				err = errors.Join(err, f.change(&unseen[i]))
			}
			live, *told, wait, seen = true, false, tickEvery, nil
			if err == nil {
				err = f.live()
			}
		}
		if err == nil && live {
			err = f.tick()
		}
		if err != nil {
			return stopped{err}
		}
	}
}

// errBehind says that a server which led once has answered.
var errBehind = errors.New("the server's copy of the stream is behind")

// unseen returns the newest messages of the keys that a consumer has not told of by a barrier's message: those that were changed since it was
// made. It tells of them later, perhaps.
func (f *follower) unseen(ctx context.Context, barrier uint64, seen map[string]bool) (unseen []message, err error) {
	t := f.t
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	s := *t.stream.Load()
	info, err := s.Info(ctx)
	if err != nil || info.State.LastSeq == barrier {
		return nil, err
	}
	if info.State.LastSeq < barrier {
		return nil, errBehind
	}
	if info, err = s.Info(ctx, jetstream.WithSubjectFilter(t.filter(f.prefix))); err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		if subject == t.barrier.Subject() {
			continue
		}
		key := t.key(subject)
		if seen[key] || !strings.HasPrefix(key, f.prefix) {
			continue
		}
		m, err := t.last(ctx, key, 0)
		if err != nil {
			return nil, err
		}
		if m.seq > 0 {
			unseen = append(unseen, m)
		}
	}
	slices.SortFunc(unseen, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
	return unseen, nil
}

// consumer is a consumer that is deleted when it is not used any more.
type consumer struct {
	jetstream.MessagesContext
	stop func()
}

// consume makes a consumer of the last messages of keys, without bodies, and of the barrier.
func (t *Table) consume(ctx context.Context, prefix string) (*consumer, error) {
	filters := []string{t.filter(prefix)}
	if filters[0] != t.prefix+">" {
		filters = append(filters, t.barrier.Subject())
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	cons, err := (*t.stream.Load()).OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		InactiveThreshold: consumerLife,
		MaxResetAttempts:  1, // or it would go on for as long as the servers are away
	})
	if err != nil {
		return nil, err
	}
	messages, err := cons.Messages(jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return nil, err
	}
	return &consumer{messages, func() {
		messages.Stop()
		if info := cons.CachedInfo(); info != nil { // nobody waits: it ends by itself, too
			_ = t.e.c.Conn().Publish("$JS.API.CONSUMER.DELETE."+t.name+"."+info.Name, nil)
		}
	}}, nil
}

var errListed = errors.New("all was listed")

// list returns the messages of all records whose keys begin with prefix, without bodies, by key.
func (t *Table) list(ctx context.Context, prefix string) (all []message, err error) {
	err = t.again(ctx, func(context.Context) error { // which has a timeout for one answer
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		last := map[string]message{}
		f := &follower{
			t: t, prefix: prefix, begin: func() {}, live: func() error { return errListed }, tick: func() error { return nil },
			change: func(m *message) error { last[m.key] = *m; return nil },
		}
		told := true
		err := f.once(ctx, &told)
		if !errors.Is(err, errListed) {
			return err
		}
		all = all[:0]
		now := time.Now()
		for _, m := range last {
			if m.lives(now) {
				all = append(all, m)
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b message) int { return strings.Compare(a.key, b.key) })
	return all, err
}

// Bounds of the bodies that Range asks for at once.
const (
	bodiesAtOnce = 64
	bodyBytes    = 1 << 20
)

// Range implements [store.Table].
func (t *Table) Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		ctx, cancel := t.e.whileOpen(ctx)
		defer cancel()
		all, err := t.list(ctx, prefix)
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		for len(all) > 0 {
			n, sum := 0, int64(0)
			for n < len(all) && n < bodiesAtOnce && (n == 0 || sum+all[n].Size <= bodyBytes) {
				sum += all[n].Size
				n++
			}
			var read map[uint64][]byte
			if bodies {
				read = t.bodies(ctx, all[:n])
			}
			for i := range all[:n] {
				r, err := t.withBody(ctx, &all[i], bodies, read)
				if errors.Is(err, store.ErrNotFound) {
					continue // it was deleted since
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
			all = all[n:]
		}
	}
}

// withBody returns the record of a message that was listed.
func (t *Table) withBody(ctx context.Context, m *message, bodies bool, read map[uint64][]byte) (store.Record, error) {
	r := m.record()
	if !bodies {
		return r, nil
	}
	at := m.Body
	if at == 0 {
		at = m.seq
	}
	r.Body = []byte{}
	if m.Size == 0 {
		return r, nil
	}
	body, err := m.unpack(read[at])
	if read[at] == nil { // changed since it was listed, or not to be had at once
		return t.Get(ctx, m.key)
	}
	r.Body = body
	return r, err
}

// bodies asks any server for the bodies of records at once. What it does not find is not in the result.
func (t *Table) bodies(ctx context.Context, of []message) map[uint64][]byte {
	found := map[uint64][]byte{}
	want := map[string]bool{}
	for i := range of {
		if of[i].Size > 0 && of[i].Body == 0 { // the bodies of steps are not the last of their subjects
			want[t.subject(of[i].key)] = true
		}
	}
	if len(want) < 2 {
		return found
	}
	subjects := make([]string, 0, len(want))
	for s := range want {
		subjects = append(subjects, s)
	}
	request, err := json.Marshal(map[string]any{"multi_last": subjects})
	if err != nil {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	_ = t.e.c.Direct(ctx, t.name, request, len(subjects), func(m *client.Msg, seq uint64) { found[seq] = m.Data })
	return found
}

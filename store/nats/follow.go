package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
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
	// tick is called after each message once all was told, and at least each tickEvery. All messages up to seq have been told.
	tick func(seq uint64) error
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
		if err := f.tick(0); err != nil {
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
	var barrier uint64
	var failed error
	var pass sync.WaitGroup
	pass.Go(func() { barrier, failed = t.barrier.Pass(passing) }) // the consumer delivers it, whether it is stored before that is made or behind
	messages, err := t.consume(ctx, f.prefix)
	if err == nil {
		defer messages.stop()
	}
	if pass.Wait(); err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	f.begin()
	r := &reading{follower: f, barrier: barrier, seen: map[string]uint64{}}
	for wait := attemptWait; ; {
		next, cancel := context.WithTimeout(ctx, wait)
		msg, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if t.e.c.Conn().Stats().Reconnects != reconnects {
			return errReconnected
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && r.isLive {
			if err := f.tick(r.at); err != nil {
				return stopped{err}
			}
			continue
		}
		if err == nil {
			err = r.take(ctx, msg)
		}
		if err != nil {
			return err
		}
		if r.isLive {
			*told, wait = false, tickEvery
		}
	}
}

// reading is what a follower has been told by one consumer.
//
// A consumer first delivers the messages that were the last of their subjects when it was made. One that is replaced meanwhile is skipped,
// and its successor comes with what is new: so a key that changes all the time may be missing for long. Therefore a second barrier is passed
// when the consumer has delivered the first. If nothing was stored in between, no key is missing. Otherwise the follower reads on up to the
// second one, and then asks for the keys that are still missing.
type reading struct {
	*follower
	at      uint64            // all messages up to it have been delivered, or replaced
	barrier uint64            // of a barrier that the consumer is to deliver next
	behind  bool              // something was stored since the first barrier
	isLive  bool              // all that there was has been told
	seen    map[string]uint64 // the last message of each subject that was told; once live, only those that the consumer has not delivered yet
}

// take tells of a message that the consumer has delivered.
func (r *reading) take(ctx context.Context, msg jetstream.Msg) error {
	info, err := msg.Metadata()
	if err != nil {
		return err
	}
	seq, subject := info.Sequence.Stream, msg.Subject()
	if seq <= r.at {
		return nil // servers repeat what was stored while they made the consumer
	}
	r.at = seq
	if subject != r.t.barrier.Subject() && seq >= r.seen[subject] {
		if err := r.tell(subject, r.t.message(subject, seq, msg.Headers(), nil)); err != nil {
			return err
		}
	}
	if !r.isLive && seq >= r.barrier {
		if err := r.goLive(ctx); err != nil {
			return err
		}
	}
	if r.isLive {
		if err := r.tick(r.at); err != nil {
			return stopped{err}
		}
	}
	return nil
}

// tell tells of the last message of a subject.
func (r *reading) tell(subject string, m message) error {
	if r.isLive {
		delete(r.seen, subject)
	} else {
		r.seen[subject] = m.seq
	}
	if !strings.HasPrefix(m.key, r.prefix) {
		return nil
	}
	if err := r.change(&m); err != nil {
		return stopped{err}
	}
	return nil
}

// goLive calls live if all has been told. It is called when the consumer has delivered a barrier.
func (r *reading) goLive(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	now, err := r.t.barrier.Pass(attempt)
	switch {
	case err != nil:
		return err
	case now == r.barrier+1: // nothing was stored in between
	case !r.behind:
		r.behind, r.barrier = true, now
		return nil
	default:
		missing, err := r.missing(attempt, now)
		if err != nil {
			return err
		}
		for i := range missing {
			if err := r.tell(r.t.subject(missing[i].key), missing[i]); err != nil {
				return err
			}
		}
	}
	r.isLive = true
	maps.DeleteFunc(r.seen, func(_ string, seq uint64) bool { return seq <= r.at })
	if err := r.live(); err != nil {
		return stopped{err}
	}
	return nil
}

// errLags is the error of a server that lacks what was acknowledged: it led once.
var errLags = errors.New("the server's copy of the stream lags behind")

// missing returns the last messages of the keys that have not been told, as they are after a barrier. They have changed all the time.
func (r *reading) missing(ctx context.Context, barrier uint64) (missing []message, err error) {
	info, err := (*r.t.stream.Load()).Info(ctx, jetstream.WithSubjectFilter(r.t.filter(r.prefix)))
	if err != nil {
		return nil, err
	}
	if info.State.LastSeq < barrier {
		return nil, errLags
	}
	for subject := range info.State.Subjects {
		if r.seen[subject] > 0 || subject == r.t.barrier.Subject() {
			continue
		}
		m, err := r.t.lastOf(ctx, subject, r.at+1)
		if err != nil {
			return nil, err
		}
		if m.seq > 0 {
			missing = append(missing, m)
		}
	}
	slices.SortFunc(missing, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
	return missing, nil
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
			t: t, prefix: prefix, begin: func() {}, live: func() error { return errListed }, tick: func(uint64) error { return nil },
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

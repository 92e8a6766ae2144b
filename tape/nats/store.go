package nats

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	_ "github.com/lingserve/lingserve/store/nats" // the table of leases
	"github.com/lingserve/lingserve/tape"
)

// Options of a store. The zero value has the defaults.
type Options struct {
	Log      *slog.Logger  // what an operator should know; nil is nowhere
	Observer tape.Observer // is told what is appended, to count it; nil is nobody
}

// Store is a tape.Store. It is also a tape.Blobs, a tape.Leaser, a tape.Syncer and a tape.Importer.
type Store struct {
	cluster  *cluster.Cluster
	conn     *client.Conn
	js       jetstream.JetStream
	api      string // what requests to JetStream begin with
	stream   string
	log      *slog.Logger
	observer tape.Observer // nil is nobody
	leases   *cluster.Leases
	barrier  *cluster.Barrier

	inline, chunk int // bytes, see maxInline
	waits         waits

	end     context.Context // of all that is started here
	stop    context.CancelCauseFunc
	running sync.WaitGroup // calls, and what is started

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot
	held   map[string]*lease // by name

	directory directory
}

var (
	_ tape.Whole  = (*Store)(nil)
	_ tape.Syncer = (*Store)(nil)
)

const (
	// A batch of more lines than this is stored in parts, so that to know a tape, for which its last message is read, costs
	// little whatever was appended to it.
	maxInline = 64 << 10
	maxChunk  = 256 << 10 // bytes of a part

	room = maxRecord + 4<<10 // bytes that a message needs for its headers

	markerLife = time.Hour // of what an erased tape leaves

	leaseSpace = "tape"
)

// Open makes the stream of tapes, or finds it. The cluster is the caller's, who closes it after the store.
func Open(ctx context.Context, c *cluster.Cluster, o *Options) (*Store, error) {
	s := &Store{cluster: c, conn: c.Conn(), js: c.JetStream(), stream: c.Name(streamName), slots: map[string]*slot{}, held: map[string]*lease{}, waits: defaultWaits}
	s.api = s.js.Options().APIPrefix
	if s.api == "" {
		s.api = jetstream.DefaultAPIPrefix
	}
	if o != nil {
		s.log, s.observer = o.Log, o.Observer
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	most := int(s.conn.MaxPayload()) - room
	if most < 4<<10 {
		return nil, fmt.Errorf("tape: the servers accept messages of up to %d bytes; expected at least %d", s.conn.MaxPayload(), room+4<<10)
	}
	s.inline, s.chunk = min(maxInline, most), min(maxChunk, most)
	st, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{c.Subject(space, ">")}, Description: "tapes: what sessions remember",
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, AllowDirect: true,
		AllowAtomicPublish: true, // batches of several messages
		AllowRollup:        true, // a marker takes the place of all that was
		AllowMsgTTL:        true, // and goes away
	})
	if err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	if config := st.CachedInfo().Config; !config.AllowAtomicPublish || !config.AllowMsgTTL {
		return nil, fmt.Errorf("%w: tapes need servers of version 2.12, for atomic publishing", cluster.ErrTooOld)
	}
	s.barrier = c.Barrier(s.stream, c.Subject(space, cluster.BarrierToken))
	if s.leases, err = c.Leases(ctx, leaseSpace); err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	s.end, s.stop = context.WithCancelCause(context.Background())
	s.directory.s = s
	return s, nil
}

// enter begins a call; done ends it. The call's context ends with the store.
func (s *Store) enter(ctx context.Context) (_ context.Context, done func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, tape.ErrClosed
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.end, func() { cancel(tape.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.running.Done()
	}, nil
}

// slot is what is known of a tape that was used lately.
type slot struct {
	turn  chan struct{} // of who appends: one at a time
	users int           // who have it or wait for it
	seen  atomic.Uint64 // the highest sequence of it that is known here

	// These are of who has the turn.
	head     *head // as it was last, without its lines; nil is unknown
	released epoch // of the last lease here that was given back; zero is none
}

// maxSlots bounds what is remembered of tapes that nobody uses: some 1 KiB each.
const maxSlots = 1024

// take waits for the turn to append to a tape.
func (s *Store) take(ctx context.Context, name string) (*slot, error) {
	s.mu.Lock()
	sl := s.slots[name]
	if sl == nil {
		sl = &slot{turn: make(chan struct{}, 1)}
		s.slots[name] = sl
	}
	sl.users++
	s.mu.Unlock()
	select {
	case sl.turn <- struct{}{}:
		return sl, nil
	case <-ctx.Done():
		s.leave(name, sl)
		return nil, context.Cause(ctx)
	}
}

// give gives the turn back.
func (s *Store) give(name string, sl *slot) {
	<-sl.turn
	s.leave(name, sl)
}

func (s *Store) leave(name string, sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.users--; sl.users > 0 {
		return
	}
	if sl.head == nil && sl.released == (epoch{}) {
		delete(s.slots, name)
		return
	}
	for other, old := range s.slots { // any that is not used: it costs its tape one request
		if len(s.slots) <= maxSlots {
			return
		}
		if old.users == 0 {
			delete(s.slots, other)
		}
	}
}

// Read implements tape.Store.
func (s *Store) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		if err := tape.CheckName(name); err != nil {
			yield(tape.Entry{}, err)
			return
		}
		ctx, done, err := s.enter(ctx)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		defer done()
		h, err := s.head(ctx, name)
		if err == nil && !h.there() {
			err = missing(name)
		}
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		for e, err := range tape.Select(ctx, &source{ctx: ctx, s: s, name: name, head: h}, q) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func missing(name string) error {
	return fmt.Errorf("%w: unknown tape %.80q", tape.ErrNotFound, name)
}

// Info implements tape.Store.
func (s *Store) Info(ctx context.Context, name string) (tape.Info, error) {
	if err := tape.CheckName(name); err != nil {
		return tape.Info{}, err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return tape.Info{}, err
	}
	defer done()
	h, err := s.head(ctx, name)
	if err == nil && !h.there() {
		err = missing(name)
	}
	if err != nil {
		return tape.Info{}, err
	}
	return h.info(name), nil
}

// TurnEnded implements tape.Syncer: what was acknowledged is as safe as the servers make it.
func (s *Store) TurnEnded(context.Context, string) error { return nil }

// Close implements tape.Store. It waits for the calls that are under way, which end at once.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !closed {
		s.stop(tape.ErrClosed)
	}
	s.running.Wait()
	return nil
}

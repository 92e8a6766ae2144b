// Package logs keeps tapes in the logs of a store engine: in files, in PostgreSQL or in memory.
//
// All tapes are logs of one space. A tape is a log, an entry of the tape is an entry of the log with the same number, and an anchor is a
// mark. The head of the log has what [tape.Info] says, so a tape is known without reading its entries. Forks and blobs are logs below the
// tape's name and are erased with it.
//
// # Guarantees
//   - A batch is appended only behind the revision that its writer has seen.
//   - A [Options.Replica] that takes a lease changes the revision of the tape. From then on a replica that had the lease before, and does not
//     know that it is lost, cannot append.
package logs

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Space is the space of the logs.
const Space = "tapes"

// Options of a store. The zero value has the defaults.
type Options struct {
	Durability store.Durability
	MaxBytes   int64 // of all tapes; 0: no bound. An append beyond it is [tape.ErrTooLarge].

	Leases  tape.Leaser // required by [Store.Lease]
	Replica string      // name of this process among those that share the leases; "": a lease cannot be lost, so nothing is fenced

	Away     func() bool   // see [tape.Remote]; nil: never
	Log      *slog.Logger  // nil: no log
	Observer tape.Observer // is told what is appended; may be nil
}

// Store is a [tape.Store].
type Store struct {
	space   store.Log
	options Options

	end     context.Context // ends when the store closes
	stop    context.CancelCauseFunc
	running sync.WaitGroup // calls
	indexer indexer

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot
	held   map[string]*lease // by name of the tape
}

var (
	_ tape.Whole   = (*Store)(nil)
	_ tape.Counter = (*Store)(nil)
	_ tape.Remote  = (*Store)(nil)
)

// Open opens the tapes of an engine. The caller closes the engine after the store.
func Open(ctx context.Context, e store.LogEngine, o Options) (*Store, error) {
	l, err := e.Log(ctx, store.LogOptions{Space: Space, Durability: o.Durability, MaxBytes: o.MaxBytes, Indexed: true})
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{space: l, options: o, slots: map[string]*slot{}, held: map[string]*lease{}}
	s.end, s.stop = context.WithCancelCause(context.Background())
	s.indexer.start(s)
	return s, nil
}

// Close implements [tape.Store]. It waits for calls that are running, which end at once.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.stop(tape.ErrClosed)
	s.running.Wait()
	s.indexer.wait()
	return s.explain("", s.space.Sync(context.Background()))
}

// enter begins a call for a tape; done ends it. The context of the call ends with the store.
func (s *Store) enter(ctx context.Context, name string) (_ context.Context, done func(), err error) {
	if err := tape.CheckName(name); err != nil {
		return nil, nil, err
	}
	return s.enterAll(ctx)
}

func (s *Store) enterAll(ctx context.Context) (_ context.Context, done func(), err error) {
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

// slot is what this process knows of a tape that it used lately.
type slot struct {
	turn  chan struct{} // of the call that appends
	users int           // calls that have the turn or wait for it

	queue []*request // that nobody writes yet

	state    atomic.Pointer[state] // as it was last, set by the call that has the turn; nil: unknown
	released epoch                 // of the last lease that was given back here, for the call that has the turn; zero: none
}

// maxSlots bounds what is remembered of tapes that nobody uses: some 1 KiB each.
const maxSlots = 1024

// join finds the slot of a tape, to be left, and puts a request into its queue.
func (s *Store) join(name string, requests ...*request) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[name]
	if sl == nil {
		sl = &slot{turn: make(chan struct{}, 1)}
		s.slots[name] = sl
	}
	sl.users++
	sl.queue = append(sl.queue, requests...)
	return sl
}

// take waits for the turn to change a tape.
func (s *Store) take(ctx context.Context, name string) (*slot, error) {
	sl := s.join(name)
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
	if sl.state.Load() == nil && sl.released == (epoch{}) {
		delete(s.slots, name)
		return
	}
	for other, old := range s.slots { // any that is not used: its next append asks the engine once more
		if len(s.slots) <= maxSlots {
			return
		}
		if old.users == 0 {
			delete(s.slots, other)
		}
	}
}

// known is what this process knows of a tape; nil: nothing. It may be old.
func (s *Store) known(name string) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[name]; sl != nil {
		return sl.state.Load()
	}
	return nil
}

// load returns what a tape is, or ErrNotFound.
func (s *Store) load(ctx context.Context, name string) (*state, error) {
	st, err := s.look(ctx, name)
	if err == nil && !st.exists() {
		err = missing(name)
	}
	return st, err
}

// look is load, with a state that does not exist in place of ErrNotFound.
func (s *Store) look(ctx context.Context, name string) (*state, error) {
	in, err := s.space.Info(ctx, keyOf(name))
	if err != nil {
		if isNotFound(err) {
			return &state{info: tape.Info{Tape: name}}, nil
		}
		return nil, s.explain(name, err)
	}
	return s.stateOf(ctx, name, in)
}

func missing(name string) error {
	return fmt.Errorf("%w: unknown tape %.80q", tape.ErrNotFound, name)
}

// Info implements [tape.Store].
func (s *Store) Info(ctx context.Context, name string) (tape.Info, error) {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return tape.Info{}, err
	}
	defer done()
	st, err := s.load(ctx, name)
	if err != nil {
		return tape.Info{}, err
	}
	return st.info, nil
}

// Read implements [tape.Store].
func (s *Store) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		ctx, done, err := s.enter(ctx, name)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		defer done()
		st, err := s.load(ctx, name)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		src := &source{ctx: ctx, s: s, state: st}
		if q.Text != "" && s.indexer.index != nil {
			var f tape.Folder
			src.words = f.Words(q.Text)
		}
		for e, err := range tape.Select(ctx, src, q) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Delete implements [tape.Store].
func (s *Store) Delete(ctx context.Context, name string) error {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	key := keyOf(name)
	sl, err := s.take(ctx, name)
	if err != nil {
		return err
	}
	defer s.give(name, sl)
	sl.state.Store(nil)
	if tape.IsFork(name) { // the forks of a fork may be beside it
		for in, err := range s.space.List(ctx, store.Listing{Prefix: key + forkMark}) {
			if err == nil {
				err = s.space.Delete(ctx, in.Name)
			}
			if err != nil {
				return s.explain(name, err)
			}
		}
	}
	return s.explain(name, s.space.Delete(ctx, key))
}

// Away implements [tape.Remote].
func (s *Store) Away() bool { return s.options.Away != nil && s.options.Away() }

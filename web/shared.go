package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/web/once"
)

// Shared is what replicas of a server have in common. Any of them serves any run: one that it does not have it follows, and what is to be
// done with it is asked of the replica that has it. All members are needed. The server closes none of them; they are closed after it.
type Shared struct {
	// Runs is the log of runs, in which they are kept as they go and after their end.
	Runs runlog.Shared
	// Control asks the other replicas. The server serves it.
	Control control.Control
	// Keys are those of requests, on all replicas.
	Keys once.Keys
	// Replicas are those who are there, this one among them.
	Replicas func() []string
	// Watch calls gone with each replica that is not there any more, from now on.
	Watch func(gone func(replica string)) (stop func())
	// Holder says which replica has the turns of a tape now, by its name; "" is none.
	Holder func(ctx context.Context, tape string) (replica string, err error)
}

const (
	// sharedWait is for an answer of those who keep what is shared.
	sharedWait = 5 * time.Second
	// storedWait is how long Close waits for the end of a run to be stored.
	storedWait = 3 * time.Second
)

// replica is the id of this one.
func (s *Shared) replica() string { return s.Control.Replica() }

// awayMessage is told to those who would begin something that cannot be kept.
const awayMessage = "the server cannot reach the store that replicas share; retry later"

// isAway says whether an error is of what cannot be reached.
func isAway(err error) bool {
	return errors.Is(err, runlog.ErrAway) || errors.Is(err, once.ErrAway) || errors.Is(err, control.ErrAway) ||
		errors.Is(err, context.DeadlineExceeded)
}

func awayProblem() *problem {
	p := newProblem(codeOverloaded, awayMessage)
	p.retryAfter = tapesRetry
	return p
}

// errElsewhere is why a run ends here that another replica has taken over, and a stream that cannot go on here.
var errElsewhere = errors.New("another replica has the run")

// placed is where a run of replicas is: it is gone when it cannot be followed here any more, though it may go on elsewhere.
type placed struct {
	context.Context
	leave context.CancelFunc
	tail  runlog.Tail  // of one that is followed; nil for this replica's own
	asked atomic.Int64 // when somebody last did for one that is followed, in ns
}

func newPlaced(tail runlog.Tail) *placed {
	p := &placed{tail: tail}
	p.Context, p.leave = context.WithCancel(context.Background())
	return p
}

// isGone says whether the run cannot be followed here any more.
func (r *run) isGone() bool { return r.place != nil && r.place.Err() != nil }

// gone is closed when that is so; nil where it cannot be.
func (r *run) gone() <-chan struct{} {
	if r.place == nil {
		return nil
	}
	return r.place.Done()
}

// followed says whether another replica has the run, or had it at its end.
func (r *run) followed() bool { return r.place != nil && r.place.tail != nil }

// until has a request end, too, when its run cannot be followed here any more. What is to be done at its end is leave, and then stop.
func (r *run) until(req *http.Request, leave func()) (_ *http.Request, stop func()) {
	if r.place == nil {
		return req, leave
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unbind := context.AfterFunc(r.place, func() { cancel(errElsewhere) })
	return req.WithContext(ctx), func() {
		unbind()
		cancel(nil)
		leave()
	}
}

// trouble is told what becomes of a run in the shared log. It is called by the log's goroutine.
func (r *run) trouble(err error) {
	if !errors.Is(err, runlog.ErrFenced) && !errors.Is(err, runlog.ErrLost) {
		return
	}
	r.place.leave()
	if m := r.manager.Load(); m != nil {
		m.Stop(errElsewhere)
	}
}

// errFull is why a run ends of which too much waits to be stored.
var errFull = errors.New("the store of this run was unreachable for too long, so the server cannot store its events any more")

// watchFull ends a run of which too much waits to be stored.
func (rs *runs) watchFull(r *run) {
	select {
	case <-r.tube.Full():
	case <-r.done:
		return
	case <-r.gone():
		return
	}
	if m := r.manager.Load(); m != nil {
		m.Report("", &bot.Failure{Code: codeOverloaded, Message: errFull.Error(), Cause: errFull})
		m.Stop(errFull)
	}
}

// awaitStored waits until the end of a run is stored: then it has ended for all who read it.
func (rs *runs) awaitStored(r *run) {
	if !r.tube.Held() {
		return
	}
	select {
	case <-r.tube.Ended():
		return
	case <-r.gone():
		return
	case <-rs.leaving:
	}
	late := time.NewTimer(rs.storedWait)
	defer late.Stop()
	select {
	case <-r.tube.Ended():
	case <-r.gone():
	case <-late.C:
	}
}

// claimed is what a key says of its run, should that never be seen.
type claimed struct {
	subject
	Replica string `json:"replica,omitempty"` // that has claimed it, and is to see to its beginning
}

// claimKey lets the key of a request lead to its run, on all replicas. earlier is the one that it leads to already.
func (s *Server) claimKey(ctx context.Context, sp *spec) (earlier once.Claim, p *problem) {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	c, ok, err := s.o.Shared.Keys.Claim(ctx, once.Claim{
		Owner: sp.owner, Key: sp.key, Hash: sp.hash, Run: sp.id, Of: mustJSON(claimed{sp.of(), s.o.Shared.replica()}),
	})
	switch {
	case err != nil:
		return once.Claim{}, s.keyProblem(ctx, err)
	case ok:
		return once.Claim{}, nil
	case c.Hash != sp.hash:
		return once.Claim{}, otherRequest()
	}
	return c, nil
}

// findKey finds the run that a key leads to, on all replicas; one without a run is none.
func (s *Server) findKey(ctx context.Context, owner, key string, hash [16]byte) (c once.Claim, p *problem) {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	c, ok, err := s.o.Shared.Keys.Find(ctx, owner, key)
	switch {
	case err != nil:
		return once.Claim{}, s.keyProblem(ctx, err)
	case !ok:
		return once.Claim{}, nil
	case c.Hash != hash:
		return once.Claim{}, otherRequest()
	}
	return c, nil
}

// beginning knows the runs that are about to begin here, so that others can ask for them.
type beginning struct {
	mu  sync.Mutex
	ids map[string]int
}

func (b *beginning) enter(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids == nil {
		b.ids = map[string]int{}
	}
	b.ids[id]++
}

func (b *beginning) leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids[id]--; b.ids[id] == 0 {
		delete(b.ids, id)
	}
}

func (b *beginning) has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id] > 0
}

func (s *Server) keyProblem(ctx context.Context, err error) *problem {
	if errors.Is(ctx.Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client disconnected
	}
	s.log.WarnContext(ctx, "cannot look up an idempotency key", "error", err)
	return awayProblem()
}

// forgetKey frees the key of a request whose run could not be started.
func (s *Server) forgetKey(ctx context.Context, sp *spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedWait)
	defer cancel()
	if err := s.o.Shared.Keys.Forget(ctx, sp.owner, sp.key, sp.id); err != nil {
		s.log.WarnContext(ctx, "cannot free the idempotency key of a refused run", "error", err)
	}
}

// moveKey lets the key of a message lead to the run that it was given to, or back to its own, a moment later.
func (rs *runs) moveKey(sp spec, to string) {
	rs.moving.Go(func() { rs.moveKeyNow(sp, to) })
}

func (rs *runs) moveKeyNow(sp spec, to string) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedWait)
	defer cancel()
	keys := rs.o.Shared.Keys
	c, ok, err := keys.Find(ctx, sp.owner, sp.key)
	if err == nil && ok && c.Run != to {
		_, err = keys.Move(ctx, sp.owner, sp.key, c.Run, to)
	}
	if err != nil {
		rs.log.WarnContext(ctx, "cannot link an idempotency key to its run", "run", to, "error", err)
	}
}

// lostProblem is the answer for a run that was begun, and of which nothing was kept: its replica died too soon.
func lostProblem(id string) *problem {
	p := newProblem(codeGone, lostMessage)
	p.Run = id
	return p
}

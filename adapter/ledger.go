package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Ledger bounds the memory of requests and of models' answers, of all runs together. Each run has an [Account] in the context under which
// it asks models. The account acquires memory for a body before it is read, for a request to a model before it is sent, and for the text of
// an answer before it is passed on. Until there is memory for more text, an answer is not read: its server is slowed down by the
// connection, and no time limit counts that.
//
// A body never waits: without memory it is refused. Everything else waits for at most 30 s, then fails. One run at a time has the reserve:
// it may hold more than its share, and waits for nothing. So if all runs wait for memory that others hold, one goes on to its end, then the
// next. No wait is forever, and none depends on itself.
//
// A nil ledger bounds nothing.
type Ledger struct {
	requests int64 // bytes for requests of callers and to models
	shared   int64 // bytes for the answers of all runs
	reserve  int64 // bytes for the answers of the run that has the reserve; no run may hold more

	refused atomic.Uint64

	mu           sync.Mutex
	requestsHeld int64
	sharedHeld   int64
	holder       *Account // has the reserve
	waiting      int
}

const (
	requestsPercent = 25 // of the memory
	sharedPercent   = 20
	reservePercent  = 40 // the rest is for connections and garbage

	ledgerWait  = 30 * time.Second
	ledgerPoll  = 50 * time.Millisecond // how often those who wait look for memory: rare enough for thousands of them
	ledgerRetry = 10 * time.Second
)

// What is paid for, measured with the garbage that the collector has not freed yet. A byte of an answer is held in the run's log, in its
// document, in the bot that reads it, and in the result that is encoded at the end; short results are never encoded for long. A byte of a
// body is held as it came, decoded, in a prompt or on a tape, and as it is sent to the first model. A request to a model is held as
// messages and as JSON.
const (
	costOfSmall = 3 // bytes for each byte of a small answer
	costOfLarge = 6
	costOfBody  = 4
	costOfAsked = 2

	smallText    = 64 << 10 // a small answer has no more
	smallRequest = 16 << 10
	firstStep    = 2 << 10  // of text; each step doubles it
	lastStep     = 64 << 10 // of text
	measureFrom  = 16 << 10 // of text; the document of less is not worth measuring
)

// NewLedger returns the ledger of a process that may use a number of bytes of memory; nil if that is 0.
func NewLedger(memory int64) *Ledger {
	if memory <= 0 {
		return nil
	}
	return &Ledger{requests: memory / 100 * requestsPercent, shared: memory / 100 * sharedPercent, reserve: memory / 100 * reservePercent}
}

// Holdings are what a ledger knows now.
type Holdings struct {
	Bytes   int64  // that are held
	Waiting int    // answers and requests to models that wait for memory
	Refused uint64 // answers and requests to models that have failed for lack of memory
}

// Holdings returns what the ledger knows now.
func (l *Ledger) Holdings() (h Holdings) {
	if l == nil {
		return h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h = Holdings{Bytes: l.requestsHeld + l.sharedHeld, Waiting: l.waiting, Refused: l.refused.Load()}
	if l.holder != nil {
		h.Bytes += l.holder.held
	}
	return h
}

// wait calls acquire, with the ledger locked, until it returns true. Errors: an *[Error] after ledgerWait, the cause of ctx.
func (l *Ledger) wait(ctx context.Context, acquire func() bool) error {
	l.mu.Lock()
	ok := acquire()
	if !ok {
		l.waiting++
	}
	l.mu.Unlock()
	if ok {
		return nil
	}
	poll, late := time.NewTicker(ledgerPoll), time.NewTimer(ledgerWait)
	defer poll.Stop()
	defer late.Stop()
	var err error
	for !ok && err == nil {
		select {
		case <-poll.C:
			l.mu.Lock()
			ok = acquire()
			l.mu.Unlock()
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-late.C:
			l.refused.Add(1)
			err = &Error{
				Code: CodeOverloaded, Retryable: true, RetryAfter: ledgerRetry, Cause: errMemory,
				Message: fmt.Sprintf("the server had no memory for the rest of this answer for %v; the part so far is kept", ledgerWait),
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	return err
}

// errMemory is the cause of errors for lack of memory. What was ended for it is not tried again at once.
var errMemory = errors.New("limit_memory")

// tooLarge is the error of what exceeds the memory of one run.
func (l *Ledger) tooLarge() *Error {
	l.refused.Add(1)
	return &Error{
		Code: CodeTooLarge, Cause: errMemory,
		Message: fmt.Sprintf("the answer exceeds the limit of %d MiB for the answers of one run; the part so far is kept", l.reserve>>20),
	}
}

// Account is what one run holds of a ledger. A nil account holds nothing, and bounds nothing.
type Account struct {
	ledger  *Ledger
	given   atomic.Int64                 // bytes of text that the run has got
	paid    atomic.Int64                 // bytes of text that the account holds memory for
	measure atomic.Pointer[func() int64] // see Measure

	// Guarded by the ledger's mutex.
	users    int   // who have not released it
	body     int64 // bytes of admitted bodies
	asked    int64 // bytes of the requests to models that are under way
	requests int64 // held for body and asked
	held     int64 // held for answers
	ended    bool
	followed int64 // bytes to hold while others than the run's owner use an ended run
}

// Open returns a new account with one user, who must release it.
func (l *Ledger) Open() *Account {
	if l == nil {
		return nil
	}
	return &Account{ledger: l, users: 1}
}

// Measure lets the account ask how many bytes the run holds: text of many small values takes more than text of a few long ones. held is
// called from any goroutine, without a lock.
func (a *Account) Measure(held func() int64) {
	if a != nil {
		a.measure.Store(new(held))
	}
}

type accountKey struct{}

// Within returns a context in which models' answers are paid from a.
func (a *Account) Within(ctx context.Context) context.Context {
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, accountKey{}, a)
}

// Within opens an account for what is done under ctx, unless ctx has one. release is to be called when that is over.
func (l *Ledger) Within(ctx context.Context) (within context.Context, release func()) {
	if l == nil || accountOf(ctx) != nil {
		return ctx, func() {}
	}
	a := l.Open()
	return a.Within(ctx), a.Release
}

func accountOf(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// Retain adds a user.
func (a *Account) Retain() {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.users++
	a.settle()
}

// Release removes a user. After the last one the account holds nothing.
func (a *Account) Release() {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.users--; a.users == 0 {
		a.end(0)
		return
	}
	a.settle()
}

// Settle ends the payments of a run that has ended. While it has several users, the account holds followed bytes; with one, nothing: what
// stays of ended runs in memory has a limit of its own.
func (a *Account) Settle(followed int64) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.end(followed)
	a.settle()
}

// end gives back what a running run holds.
func (a *Account) end(followed int64) {
	a.setHeld(0)
	if a.ledger.holder == a {
		a.ledger.holder = nil
	}
	a.body, a.asked = 0, 0
	a.setRequests()
	a.ended, a.followed = true, followed
}

// settle holds what an ended run needs for its users.
func (a *Account) settle() {
	switch {
	case !a.ended:
	case a.users > 1:
		a.setHeld(a.followed)
	default:
		a.setHeld(0)
	}
}

// setHeld changes what the account holds for answers.
func (a *Account) setHeld(bytes int64) {
	if a.ledger.holder != a {
		a.ledger.sharedHeld += bytes - a.held
	}
	a.held = bytes
}

// setRequests changes what the account holds for its requests to what they need.
func (a *Account) setRequests() {
	need := a.requestsNeed(0, 0)
	a.ledger.requestsHeld += need - a.requests
	a.requests = need
}

// requestsNeed is what the account's requests need with so many more bytes. The first requests to models are paid for with the body.
func (a *Account) requestsNeed(body, asked int64) int64 {
	return max(costOfBody*(a.body+body), costOfAsked*(a.asked+asked))
}

// Reserve waits until bytes can be held for answers, and holds them. More than one run may hold is as much as it may hold. Errors: an
// *[Error], the cause of ctx.
func (a *Account) Reserve(ctx context.Context, bytes int64) error {
	if a == nil {
		return nil
	}
	bytes = min(bytes, a.ledger.reserve)
	return a.ledger.wait(ctx, func() bool { return a.grow(bytes) })
}

// grow makes the account hold bytes for answers, and returns false if there is no memory. Large answers leave a quarter to small ones.
func (a *Account) grow(bytes int64) bool {
	l := a.ledger
	limit := l.shared
	if bytes > smallText*costOfSmall {
		limit -= limit / 4
	}
	switch {
	case bytes <= a.held || a.ended:
		return true
	case l.holder == a || l.sharedHeld+bytes-a.held <= limit:
		a.setHeld(bytes)
		return true
	case l.holder != nil:
		return false
	}
	a.setHeld(0)
	l.holder = a
	a.setHeld(bytes)
	return true
}

// Admission says whether there is memory for a body.
type Admission int

// Results of Admit.
const (
	Admitted   Admission = iota
	Refused              // there is no memory for it now
	Impossible           // there is never as much
)

// Admit holds memory for bytes more of a body, before they are read, until the run ends. It does not wait. Large bodies leave a sixteenth
// to small ones and to requests to models. A body that needs more than that is admitted alone.
func (a *Account) Admit(bytes int64) Admission {
	if a == nil || bytes <= 0 {
		return Admitted
	}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.requests
	if bytes > smallRequest {
		limit -= limit / 16
	}
	need, alone := a.requestsNeed(bytes, 0), l.requestsHeld == a.requests
	switch {
	case bytes > 2*l.requests || need > 2*l.requests:
		return Impossible
	case l.requestsHeld+need-a.requests > limit && !alone:
		return Refused
	}
	a.body += bytes
	a.setRequests()
	return Admitted
}

// Hold holds bytes that came from outside, and what is made of them, until release is called. It does not wait: ok is false if there is no
// memory for them now.
func (l *Ledger) Hold(bytes int64) (release func(), ok bool) {
	a := l.Open()
	if a.Admit((bytes+1)/2) != Admitted {
		a.Release()
		return nil, false
	}
	return a.Release, true
}

// ask waits until a request of so many bytes to a model can be held, and holds it until release is called. Errors: an *[Error], the cause of
// ctx.
func (a *Account) ask(ctx context.Context, bytes int64) (release func(), err error) {
	l := a.ledger
	if bytes > l.requests {
		return nil, l.tooLarge()
	}
	err = l.wait(ctx, func() bool {
		if a.ended {
			return true
		}
		need, alone := a.requestsNeed(0, bytes), l.requestsHeld == a.requests
		if l.requestsHeld+need-a.requests > l.requests && need > a.requests && l.holder != a && !alone {
			return false
		}
		a.asked += bytes
		a.setRequests()
		return true
	})
	if err != nil {
		return nil, err
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !a.ended {
			a.asked -= bytes
			a.setRequests()
		}
	}, nil
}

// take pays for so much more text of a model, which is there and is passed on when this returns nil. Most calls add two numbers.
// Errors: an *[Error], the cause of ctx.
func (a *Account) take(ctx context.Context, text int) error {
	given := a.given.Add(int64(text))
	if given <= a.paid.Load() {
		return nil
	}
	want := given + min(max(firstStep, given-int64(text)), lastStep)
	if given <= smallText { // a large answer is paid for when it is one
		want = min(want, smallText)
	}
	bytes := a.cost(want)
	if bytes > a.ledger.reserve {
		return a.ledger.tooLarge()
	}
	return a.ledger.wait(ctx, func() bool {
		if !a.grow(bytes) {
			return false
		}
		if want > a.paid.Load() { // another bot of the run may have got more
			a.paid.Store(want)
		}
		return true
	})
}

// cost is how much memory so much text of the run takes.
func (a *Account) cost(text int64) int64 {
	cost, beside := float64(costOfSmall), 1.0 // bytes for each of the text, and what of it is not measured
	if text > smallText {
		cost, beside = costOfLarge, 4
	}
	if measure := a.measure.Load(); measure != nil {
		if given := a.given.Load(); given >= measureFrom {
			cost = max(cost, float64((*measure)())/float64(given)+beside)
		}
	}
	return int64(float64(text) * cost)
}

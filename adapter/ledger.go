package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Ledger bounds the memory of callers' requests and of models' answers, of all runs together. Each run has an [Account] in the context under
// which it asks models. The account acquires memory for a body before it is read, and for the text of an answer before it is passed on. Until
// there is memory for more text, an answer is not read: its server is slowed down by the connection, and no time limit counts that.
//
// A body never waits: without memory it is refused. Everything else waits for at most 30 s, then fails. One run at a time has the reserve:
// it may hold more than its share, and waits for nothing. So if all runs wait for memory that others hold, one goes on to its end, then the
// next. No wait is forever, and none depends on itself.
//
// A nil ledger bounds nothing.
type Ledger struct {
	bodies  int64 // bytes for the requests of callers
	shared  int64 // bytes for the answers of all runs
	reserve int64 // bytes for those of the run that has the reserve; no run may hold more

	refused atomic.Uint64
	waiting atomic.Int64

	mu         sync.Mutex
	bodiesHeld int64
	sharedHeld int64
	holder     *Account // has the reserve
}

const (
	bodiesPercent  = 25 // of the memory
	sharedPercent  = 20
	reservePercent = 40 // the rest is for connections and garbage

	ledgerWait  = 30 * time.Second
	ledgerPoll  = 50 * time.Millisecond // how often those who wait look for memory: rare enough for thousands of them
	ledgerRetry = 10 * time.Second
)

// What is paid for, measured with the garbage that the collector has not freed yet. A byte of an answer is held in the run's log, in its
// document, in the bot that reads it, and in the result that is encoded at the end; short results are never encoded for long. A byte of a
// body is held as it came, decoded, in a prompt or on a tape, and as it is sent to a model.
const (
	costOfSmall = 3 // bytes for each byte of a small answer
	costOfLarge = 6
	costOfBody  = 4

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
	return &Ledger{bodies: memory / 100 * bodiesPercent, shared: memory / 100 * sharedPercent, reserve: memory / 100 * reservePercent}
}

// Holdings are what a ledger knows now.
type Holdings struct {
	Bytes   int64  // that are held
	Waiting int    // answers that wait for memory
	Refused uint64 // answers that have failed for lack of memory
}

// Holdings returns what the ledger knows now.
func (l *Ledger) Holdings() (h Holdings) {
	if l == nil {
		return h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h = Holdings{Bytes: l.bodiesHeld + l.sharedHeld, Waiting: int(l.waiting.Load()), Refused: l.refused.Load()}
	if l.holder != nil {
		h.Bytes += l.holder.held
	}
	return h
}

// wait calls acquire, with the ledger locked, until it returns true. Errors: an *[Error] after ledgerWait, the cause of ctx.
func (l *Ledger) wait(ctx context.Context, acquire func() bool) error {
	try := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return acquire()
	}
	if try() {
		return nil
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	poll, late := time.NewTicker(ledgerPoll), time.NewTimer(ledgerWait)
	defer poll.Stop()
	defer late.Stop()
	for {
		select {
		case <-poll.C:
			if try() {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			l.refused.Add(1)
			return &Error{
				Code: CodeOverloaded, Retryable: true, RetryAfter: ledgerRetry, Cause: errMemory,
				Message: fmt.Sprintf("the server had no memory for the rest of this answer for %v; the part so far is kept", ledgerWait),
			}
		}
	}
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
	users    int   // those who have not released it
	body     int64 // bytes of admitted bodies
	text     int64 // bytes to hold for answers
	held     int64 // bytes that are held, but for bodies
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

// change calls f with the ledger locked, and then makes the account hold what it needs.
func (a *Account) change(f func()) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	f()
	a.update()
}

// Retain adds a user.
func (a *Account) Retain() { a.change(func() { a.users++ }) }

// Release removes a user. After the last one the account holds nothing.
func (a *Account) Release() {
	a.change(func() {
		a.users--
		a.ended = a.ended || a.users == 0
	})
}

// Settle ends the payments of a run that has ended. While it has several users, the account holds followed bytes; with one, nothing: what
// stays of ended runs in memory has another limit.
func (a *Account) Settle(followed int64) {
	a.change(func() { a.ended, a.followed = true, followed })
}

// need is how many bytes the account has to hold, but for bodies.
func (a *Account) need() int64 {
	switch {
	case !a.ended:
		return a.text
	case a.users > 1:
		return a.followed
	}
	return 0
}

// update makes the account hold what it needs. An ended run keeps the reserve while what its clients need does not fit into what all share: otherwise
// each of many runs whose clients do not read would leave its document there, one after the other.
func (a *Account) update() {
	l, need := a.ledger, a.need()
	if a.ended {
		l.bodiesHeld -= costOfBody * a.body
		if a.body = 0; l.holder == a && (need == 0 || l.sharedHeld+need <= l.shared) {
			l.holder, a.held = nil, 0
		}
	}
	if l.holder != a {
		l.sharedHeld += need - a.held
	}
	a.held = need
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

// grow makes the account hold text bytes for answers. It returns false if there is no memory. Large answers leave a quarter to small ones.
func (a *Account) grow(text int64) bool {
	l := a.ledger
	limit := l.shared
	if text > smallText*costOfSmall {
		limit -= limit / 4
	}
	if h := l.holder; h != nil && h.ended {
		h.update() // there may be room among the others by now
	}
	if more := text - a.held; more > 0 && l.holder != a && l.sharedHeld+more > limit {
		if l.holder != nil {
			return false
		}
		l.sharedHeld -= a.held
		l.holder = a
	}
	a.text = max(a.text, text)
	a.update()
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
// to small ones. A body that needs more than that is admitted alone.
func (a *Account) Admit(bytes int64) Admission {
	if a == nil || bytes <= 0 {
		return Admitted
	}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.bodies
	if bytes > smallRequest {
		limit -= limit / 16
	}
	switch cost := costOfBody * bytes; {
	case bytes > 2*l.bodies || cost+costOfBody*a.body > 2*l.bodies:
		return Impossible
	case l.bodiesHeld+cost > limit && l.bodiesHeld > costOfBody*a.body: // others hold some
		return Refused
	default:
		l.bodiesHeld += cost
	}
	a.body += bytes
	a.update()
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

// pay pays for more text of a model, which is passed on when this returns nil. Most calls add two numbers.
// Errors: an *[Error], the cause of ctx.
func (a *Account) pay(ctx context.Context, text int) error {
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

package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Ledger bounds the memory that answers of models take, of all runs together. Each run has an [Account] in the context under which it
// asks models, and pays for the text that they give it before it gets it. Where there is no memory for more, its answers are not read
// until there is: whoever writes them is slowed down by the connection, and no time limit counts that.
//
// The run that began first is served first. A part of the memory is kept for one run alone, the oldest of those that wait. So when all
// wait it goes on to its end, then the next one does: nothing waits for itself. A run that has waited for too long fails, as does one
// that has all the memory and needs more.
//
// A nil ledger bounds nothing and costs nothing.
type Ledger struct {
	small, shared, reserve int64 // bytes, for runs with a small answer, for all others, and for one of those
	wait                   time.Duration

	refused atomic.Uint64

	mu        sync.Mutex
	begun     uint64 // accounts so far
	smallHeld int64
	largeHeld int64
	tight     bool     // the process is short of memory, whatever has taken it
	holder    *Account // has the reserve
	waiting   []*claim // the oldest account first
}

// What is paid for. A byte of an answer is held in the run's log, in its document and in the bot that reads it; where the run ends,
// in the result that is encoded, too. Measured, with what the garbage collector lags behind.
const (
	costOfSmall = 3 // bytes for each of a small answer, which never has its result in memory for long
	costOfLarge = 6
	costOfEnd   = 4 // of costOfLarge, what the end of a run takes beside its log and document

	firstStep   = 2 << 10  // of text; each step doubles it, so that thousands of short answers do not pay for what they never get
	lastStep    = 64 << 10 // of text, at a time
	smallText   = 64 << 10 // a small answer has no more
	measureFrom = 16 << 10 // of text; the document of less is not worth making early

	// ledgerPercent of the memory are for answers: a quarter of that for small ones, a quarter for others, and half for one run alone.
	ledgerPercent = 60
	ledgerWait    = 30 * time.Second
	ledgerRetry   = 10 * time.Second
)

// NewLedger returns the ledger of a process that may use so many bytes of memory; nil where that is not bounded.
func NewLedger(memory int64) *Ledger {
	if memory <= 0 {
		return nil
	}
	all := memory / 100 * ledgerPercent
	return &Ledger{small: all / 4, shared: all / 4, reserve: all / 2, wait: ledgerWait}
}

// Holdings are what a ledger knows now.
type Holdings struct {
	Bytes   int64  // that are paid for
	Waiting int    // answers that are not read, since there is no memory for them
	Refused uint64 // since the start: answers that were ended for it
}

// Holdings tells.
func (l *Ledger) Holdings() (h Holdings) {
	if l == nil {
		return h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Holdings{Bytes: l.smallHeld + l.largeHeld, Waiting: len(l.waiting), Refused: l.refused.Load()}
}

// Tight says that the process is short of memory, whatever has taken it: then no large answers go on but the one that has the reserve.
func (l *Ledger) Tight(is bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tight = is
	l.serve()
}

// Account is what one run pays with. It takes nothing of the ledger before a model has answered. A nil account pays for nothing.
type Account struct {
	ledger *Ledger
	given  atomic.Int64 // text that the run has got
	paid   atomic.Int64 // text that it may have got
	// measure says how many bytes the run holds beside what its bots do; nil where nobody knows.
	measure atomic.Pointer[func() int64]

	// Of the ledger's lock.
	began uint64
	held  int64 // bytes
	large bool  // held is of largeHeld, not of smallHeld
	users int   // who have not released it
	// Of a run that has ended: what it holds when nobody but one user is left.
	settled bool
	alone   int64
}

// Open returns the account of a run that begins. Its last user must release it; who has opened it is one.
func (l *Ledger) Open() *Account {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return &Account{ledger: l, began: l.begun, users: 1}
}

// Measure has the account ask what the run holds, since text of many small values takes more than text of few long ones. It is
// called by whoever pays, without a lock, from any goroutine.
func (a *Account) Measure(held func() int64) {
	if a != nil {
		a.measure.Store(new(held))
	}
}

type accountKey struct{}

// Within returns a context in which the models' answers are paid from a.
func (a *Account) Within(ctx context.Context) context.Context {
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, accountKey{}, a)
}

// Within opens an account for what is done under ctx, unless it has one. release is to be called when that is over.
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
	a.users++
	a.ledger.mu.Unlock()
}

// Release takes one away; with the last one all that the account has paid for is free.
func (a *Account) Release() {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	switch a.users--; {
	case a.users == 0:
		a.set(0, a.large)
	case a.users == 1 && a.settled:
		a.set(a.alone, a.large)
	default:
		return
	}
	a.rest()
}

// Settle ends the payments of a run that has ended. It holds so many bytes from now on: followed as long as there are several users,
// who are being sent what it has made, and alone with one.
func (a *Account) Settle(alone, followed int64) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.settled, a.alone = true, alone
	switch {
	case a.users == 1:
		a.set(alone, a.large)
	case a.users > 1:
		a.set(followed, a.large)
	}
	a.rest()
}

// Reserve waits until bytes can be held for the account, and holds them. What is more than one run may have waits until it is the
// only one. Errors: an *[Error], the cause of ctx.
func (a *Account) Reserve(ctx context.Context, bytes int64) error {
	if a == nil {
		return nil
	}
	return a.claim(ctx, 0, min(bytes, a.ledger.shared+a.ledger.reserve))
}

// rest gives the reserve to another.
func (a *Account) rest() {
	if a.ledger.holder == a {
		a.ledger.holder = nil
	}
	a.ledger.serve()
}

// set makes the account hold so much, of what large answers have or small ones.
func (a *Account) set(bytes int64, large bool) {
	l := a.ledger
	if a.large {
		l.largeHeld -= a.held
	} else {
		l.smallHeld -= a.held
	}
	if large {
		l.largeHeld += bytes
	} else {
		l.smallHeld += bytes
	}
	a.held, a.large = bytes, large
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
	return a.claim(ctx, want, a.cost(want))
}

// cost is how much memory so much text of the run takes.
func (a *Account) cost(text int64) int64 {
	each := 0.0 // bytes of the run for each of its text so far
	if measure := a.measure.Load(); measure != nil {
		if given := a.given.Load(); given >= measureFrom {
			each = float64((*measure)()) / float64(given)
		}
	}
	if text <= smallText {
		return int64(float64(text) * max(costOfSmall, each+1))
	}
	return int64(float64(text) * max(costOfLarge, each+costOfEnd))
}

// claim is somebody who waits for memory.
type claim struct {
	account *Account
	text    int64 // that is paid for with it
	bytes   int64 // that the account is to hold
	err     error // set before granted is closed
	granted chan struct{}
}

func (a *Account) claim(ctx context.Context, text, bytes int64) error {
	l := a.ledger
	c := &claim{account: a, text: text, bytes: bytes}
	l.mu.Lock()
	if l.served(c) {
		l.mu.Unlock()
		return c.err
	}
	c.granted = make(chan struct{})
	at, _ := slices.BinarySearchFunc(l.waiting, a.began+1, func(other *claim, began uint64) int {
		if other.account.began < began {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, at, c)
	l.serve() // as the oldest it may be the one that goes on
	l.mu.Unlock()

	late := time.NewTimer(l.wait)
	defer late.Stop()
	select {
	case <-c.granted:
		return c.err
	case <-ctx.Done():
	case <-late.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.granted: // just now
		return c.err
	default:
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *claim) bool { return other == c })
	if ctx.Err() == nil {
		c.err = l.none()
	} else {
		c.err = context.Cause(ctx)
	}
	l.serve() // those behind it
	return c.err
}

// served grants a claim for which nobody waits, or that hurts nobody who does.
func (l *Ledger) served(c *claim) bool {
	switch {
	case l.fitsSmall(c):
		c.grant(c.account.large)
	case len(l.waiting) == 0 && l.fitsShared(c):
		c.grant(true)
	default:
		return false
	}
	return true
}

// serve grants what can be granted. It is called whenever that may have become more.
func (l *Ledger) serve() {
	blocked := false // by an older one
	l.waiting = slices.DeleteFunc(l.waiting, func(c *claim) bool {
		switch {
		case l.fitsSmall(c):
			c.grant(c.account.large)
		case !blocked && l.fitsShared(c), l.fitsReserve(c):
			c.grant(true)
		case l.never(c):
			c.err = l.tooLarge()
		default:
			blocked = true
			return false
		}
		close(c.granted)
		return true
	})
}

// grant makes the account hold what is claimed. Another bot of the run may have got more meanwhile.
func (c *claim) grant(large bool) {
	if a := c.account; c.bytes > a.held && a.users > 0 {
		a.set(c.bytes, large)
	}
	if c.text > c.account.paid.Load() {
		c.account.paid.Store(c.text)
	}
}

// grows is how much more a claim takes of what large answers have.
func (c *claim) grows() int64 {
	if c.account.large {
		return max(0, c.bytes-c.account.held)
	}
	return c.bytes
}

func (l *Ledger) fitsSmall(c *claim) bool {
	a := c.account
	return !a.large && c.bytes <= smallText*costOfSmall && l.smallHeld+c.bytes-a.held <= l.small || a.large && c.bytes <= a.held
}

func (l *Ledger) fitsShared(c *claim) bool {
	return !l.tight && l.largeHeld+c.grows() <= l.shared
}

// fitsReserve gives the reserve to the account, where nobody has it, and says whether it is enough.
func (l *Ledger) fitsReserve(c *claim) bool {
	if l.holder == nil {
		l.holder = c.account
	}
	return l.holder == c.account && l.largeHeld+c.grows() <= l.shared+l.reserve
}

// never says that a claim cannot be granted whatever else ends.
func (l *Ledger) never(c *claim) bool { return c.bytes > l.shared+l.reserve }

// errMemory is the cause of errors that mean that there is no memory. There is no use in trying at once what was ended for it.
var errMemory = errors.New("limit_memory")

// none is the error of an answer that has waited in vain.
func (l *Ledger) none() *Error {
	l.refused.Add(1)
	return &Error{
		Code: CodeOverloaded, Retryable: true, RetryAfter: ledgerRetry, Cause: errMemory,
		Message: fmt.Sprintf("the server has no memory for the rest of this answer, and within %v there was none; what has come of it is kept", l.wait),
	}
}

// tooLarge is the error of an answer that does not fit.
func (l *Ledger) tooLarge() *Error {
	l.refused.Add(1)
	return &Error{
		Code: CodeTooLarge, Cause: errMemory,
		Message: fmt.Sprintf("the answer takes more than the %d MiB that this server has for the answers of one run; what has come of it is kept", (l.shared+l.reserve)>>20),
	}
}

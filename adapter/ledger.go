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
// Requests are held by the same accounts: [Account.Admit] holds memory for one before its body is read, and refuses at once where there is
// none. From then on the account holds what was made of the request ([Account.Keep]), and what is sent to models while they answer.
//
// A nil ledger bounds nothing and costs nothing.
type Ledger struct {
	small, shared, reserve int64 // bytes, for runs with a small answer, for all others, and for one of those
	requests               int64 // bytes, for requests of callers and requests to models
	wait                   time.Duration

	refused atomic.Uint64

	mu        sync.Mutex
	begun     uint64 // accounts so far
	smallHeld int64
	largeHeld int64
	asksHeld  int64    // of requests
	unused    int64    // of all that is held: what is kept free, for requests that are not decoded yet, and for the ends of answers
	asking    int      // claims for requests to models that wait
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
	// requestsPercent are for requests. The rest is for connections and for garbage.
	requestsPercent = 25
	ledgerWait      = 30 * time.Second
	ledgerRetry     = 10 * time.Second
)

// What a request costs. Until the first model is asked, each byte of its body is held as it came, decoded, in a prompt or on a tape, and as
// it is sent. A request to a model is held as messages and as JSON.
const (
	costOfBody  = 4
	costOfAsked = 2
)

// NewLedger returns the ledger of a process that may use so many bytes of memory; nil where that is not bounded.
func NewLedger(memory int64) *Ledger {
	if memory <= 0 {
		return nil
	}
	all := memory / 100 * ledgerPercent
	return &Ledger{small: all / 4, shared: all / 4, reserve: all / 2, requests: memory / 100 * requestsPercent, wait: ledgerWait}
}

// Holdings are what a ledger knows now.
type Holdings struct {
	Bytes   int64  // that are held
	Kept    int64  // that are kept free for what goes on: requests that are not decoded yet, the ends of answers
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
	return Holdings{Bytes: l.smallHeld + l.largeHeld + l.asksHeld - l.unused, Kept: l.unused, Waiting: len(l.waiting), Refused: l.refused.Load()}
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
	spare int64 // of held: what is kept free for the end of the answer
	large bool  // held is of largeHeld, not of smallHeld
	users int   // who have not released it
	// Of requests.
	admitted int64 // bytes for one of which no model was asked yet
	kept     int64 // bytes of it that the run holds to its end
	asked    int64 // bytes of requests to models
	asks     int64 // what these three hold of asksHeld
	unused   int64 // of asks: what is kept free
	borrowed int64 // bytes of requests to models that are held of largeHeld
	// Of a run that has ended: what it holds with one user, and with several.
	settled         bool
	alone, followed int64
	sent            bool // its document is in memory as it is sent
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
		a.admitted, a.kept = 0, 0
		a.count()
	case a.users == 1 && a.settled:
		a.set(a.alone, a.large)
	default:
		return
	}
	a.rest()
}

// Settle ends the payments of a run that has ended. From now on the account holds alone bytes with one user, and followed bytes with
// several, to whom the document is sent. The difference counts as kept free until Sent reports that the document is made.
func (a *Account) Settle(alone, followed int64) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.settled, a.alone, a.followed = true, alone, followed
	a.admitted, a.kept = 0, 0
	a.count()
	switch {
	case a.users == 1 && !a.sent:
		a.set(alone, a.large)
	case a.users > 0:
		a.follow()
	}
	a.rest()
}

// Sent says whether the document of the run is in memory as it is sent.
func (a *Account) Sent(is bool) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.sent = is
	if a.settled && a.users > 0 {
		a.follow()
	}
}

// follow makes the account of an ended run hold what it does while it is followed.
func (a *Account) follow() {
	a.set(a.followed, a.large)
	if !a.sent {
		a.spare = a.followed - a.alone
		a.ledger.unused += a.spare
	}
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
	l.unused -= a.spare
	a.spare = 0
}

// Admission says whether there is memory for a request.
type Admission int

// What comes of a request.
const (
	Admitted   Admission = iota
	Refused              // there is no memory for it now
	Impossible           // there is never as much
)

// Admit holds memory for so many more bytes of a request's body, before they are read, and for what is made of them until the first model is
// asked. It does not wait. A body that needs more than its share is admitted alone.
func (a *Account) Admit(bytes int64) Admission {
	if a == nil || bytes <= 0 {
		return Admitted
	}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	more := bytes * costOfBody
	switch alone := l.asksHeld == a.asks; {
	case a.admitted+more > 2*l.requests || bytes > 2*l.requests:
		return Impossible
	case l.asking > 0 || l.asksHeld+more > l.forRequest(bytes) && !alone:
		return Refused
	}
	a.admitted += more
	a.count()
	return Admitted
}

// smallRequest is the size of a request, in bytes, up to which it may have the part of the memory that is kept for small ones: one of so many.
const (
	smallRequest = 16 << 10
	smallPart    = 16
)

// forRequest is the memory that a request of so many bytes may fill up. Large ones, however slowly they come, leave room for small ones.
func (l *Ledger) forRequest(bytes int64) int64 {
	if bytes <= smallRequest {
		return l.requests
	}
	return l.requests - l.requests/smallPart
}

// Hold holds so many bytes that came from outside, and what is made of them, until release is called. It does not wait: ok is false where
// there is no memory for them now.
func (l *Ledger) Hold(bytes int64) (release func(), ok bool) {
	a := l.Open()
	if a.Admit(bytes) != Admitted {
		a.Release()
		return nil, false
	}
	if a != nil {
		l.mu.Lock()
		a.admitted, a.kept = 0, 2*bytes
		a.count()
		l.mu.Unlock()
	}
	return a.Release, true
}

// Keep says how many bytes of the request the run holds to its end, beside its requests to models.
func (a *Account) Keep(bytes int64) {
	if a == nil {
		return
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.users > 0 && !a.settled {
		a.kept += bytes
		a.count()
	}
}

// count makes the account hold what its requests need now.
func (a *Account) count() {
	now := max(a.admitted, a.kept+a.asked)
	used := a.admitted/costOfBody + a.kept + a.asked // the body, or what was made of it for the first model
	a.ledger.asksHeld += now - a.asks
	a.ledger.unused += now - used - a.unused
	a.asks, a.unused = now, now-used
}

// ask waits until a request of so many bytes to a model can be held, and holds it until release is called. Errors: an *[Error], the cause of
// ctx.
func (a *Account) ask(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes == 0 {
		return func() {}, nil
	}
	l := a.ledger
	c := &claim{account: a, asks: bytes * costOfAsked}
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.borrows {
			a.borrowed -= c.asks
			l.largeHeld -= c.asks
		} else {
			a.asked -= c.asks
			a.count()
		}
		l.serve()
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
	bytes, spare := a.cost(want)
	return (&claim{account: a, text: want, bytes: bytes, spare: spare}).wait(ctx)
}

// cost is how much memory so much text of the run takes, and how much of that only at its end.
func (a *Account) cost(text int64) (bytes, spare int64) {
	each := 0.0 // bytes of the run for each of its text so far
	if measure := a.measure.Load(); measure != nil {
		if given := a.given.Load(); given >= measureFrom {
			each = float64((*measure)()) / float64(given)
		}
	}
	if text <= smallText {
		return int64(float64(text) * max(costOfSmall, each+1)), 0
	}
	bytes = int64(float64(text) * max(costOfLarge, each+costOfEnd))
	if each > 0 {
		spare = max(0, bytes-int64(float64(text)*each))
	}
	return bytes, spare
}

// claim is somebody who waits for memory.
type claim struct {
	account *Account
	text    int64 // that is paid for with it
	bytes   int64 // that the account is to hold
	spare   int64 // of bytes: what is kept free
	asks    int64 // bytes of a request to a model, in place of these two
	borrows bool  // the request is held of what large answers have
	err     error // set before granted is closed
	granted chan struct{}
}

func (a *Account) claim(ctx context.Context, text, bytes int64) error {
	return (&claim{account: a, text: text, bytes: bytes}).wait(ctx)
}

// wait waits until the claim is granted.
func (c *claim) wait(ctx context.Context) error {
	a, l := c.account, c.account.ledger
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
	l.asking += c.isAsk()
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
	l.asking -= c.isAsk()
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
	case l.fitsRequests(c):
		c.ask()
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
		case l.fitsRequests(c):
			c.ask()
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
		l.asking -= c.isAsk()
		close(c.granted)
		return true
	})
}

// grant makes the account hold what is claimed. Another bot of the run may have got more meanwhile.
func (c *claim) grant(large bool) {
	if c.asks > 0 {
		c.borrows = true
		c.account.admitted = 0
		c.account.count()
		c.account.borrowed += c.asks
		c.account.ledger.largeHeld += c.asks
		return
	}
	if a := c.account; c.bytes > a.held && a.users > 0 {
		a.set(c.bytes, large)
		a.spare = c.spare
		a.ledger.unused += c.spare
	}
	if c.text > c.account.paid.Load() {
		c.account.paid.Store(c.text)
	}
}

// ask makes the account hold a request to a model. What was held for the first one is free.
func (c *claim) ask() {
	c.account.admitted = 0
	c.account.asked += c.asks
	c.account.count()
}

// isAsk is 1 for a claim of a request to a model.
func (c *claim) isAsk() int {
	if c.asks > 0 {
		return 1
	}
	return 0
}

// grows is how much more a claim takes of what large answers have.
func (c *claim) grows() int64 {
	if c.asks > 0 {
		return c.asks
	}
	if c.account.large {
		return max(0, c.bytes-c.account.held)
	}
	return c.bytes
}

// fitsRequests says whether a request to a model has room among requests.
func (l *Ledger) fitsRequests(c *claim) bool {
	a := c.account
	return c.asks > 0 && l.asksHeld-a.asks+a.kept+a.asked+c.asks <= max(l.requests, l.asksHeld)
}

func (l *Ledger) fitsSmall(c *claim) bool {
	a := c.account
	if c.asks > 0 {
		return false
	}
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
func (l *Ledger) never(c *claim) bool {
	a := c.account
	most := l.shared + l.reserve
	if c.asks == 0 {
		return c.bytes+a.borrowed > most
	}
	return c.asks+a.borrowed+a.held > most
}

// errMemory is the cause of errors that mean that there is no memory. There is no use in trying at once what was ended for it.
var errMemory = errors.New("limit_memory")

// none is the error of an answer that has waited in vain.
func (l *Ledger) none() *Error {
	l.refused.Add(1)
	return &Error{
		Code: CodeOverloaded, Retryable: true, RetryAfter: ledgerRetry, Cause: errMemory,
		Message: fmt.Sprintf("the server had no memory for the rest of this answer for %v; the part so far is kept", l.wait),
	}
}

// tooLarge is the error of an answer that does not fit.
func (l *Ledger) tooLarge() *Error {
	l.refused.Add(1)
	return &Error{
		Code: CodeTooLarge, Cause: errMemory,
		Message: fmt.Sprintf("the answer exceeds the limit of %d MiB for the answers of one run; the part so far is kept", (l.shared+l.reserve)>>20),
	}
}

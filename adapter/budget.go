package adapter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/lingserve/lingserve/internal/trail"
)

// BudgetOptions say what calls of models may cost, in millionths of a dollar; 0 is no limit.
type BudgetOptions struct {
	Run     int64 // of one run
	Session int64 // of all turns of a session
	Caller  int64 // of one caller in a day, which begins at midnight UTC
	Day     int64 // of all together in a day
	// Spent says what a session has cost before; nil is nothing. It may be slow: it is asked when a run of the session first calls a model.
	Spent func(ctx context.Context, session string) (int64, error)
	// Store stores what callers have spent, over restarts; servers with one store count together. nil keeps it in memory.
	Store SpendingStore
	Log   *slog.Logger // nil is none
}

// SpendingStore stores what callers have spent on a day (as 2026-11-24, UTC).
type SpendingStore interface {
	// Add adds to what was spent on a day, and returns what these callers and all have spent on it.
	Add(ctx context.Context, day string, spent []Spent) (Spending, error)
	// On returns what was spent on a day.
	On(ctx context.Context, day string) (Spending, error)
}

// Spent is what calls of a model took for a caller.
type Spent struct {
	Caller, Model string
	Usage         Usage
}

// Budget counts what calls of models cost, and bounds it. Each call reserves what it may cost before it is made. An answer that costs more
// reserves more while it comes, and is cut off where a limit has no room: it fails with [CodeBudget], as does a call for which there is no room.
// So limits are passed by no more than what the calls under way have cost beyond their estimates.
//
// Costs are known for models that have a price, and of providers that report what a call has cost. Calls of models on machines of the operator
// count as 0; those of other models are refused where anything is bounded. A Budget is safe for concurrent use.
type Budget struct {
	o        BudgetOptions
	saveLock sync.Mutex // held while the store is written to

	mu      sync.Mutex
	purses  *lru.Cache[string, *purse] // of runs, sessions, callers and days that were used last
	unsaved map[spentKey]Usage
	saving  *time.Timer
	closed  bool
}

// spentKey names whose usage it is.
type spentKey struct{ day, caller, model string }

// purse is what a run, a session, a caller of a day or a day has spent and reserved.
type purse struct {
	limit           int64  // 0 is none
	full            string // begins the refusal of a call for which it has no room
	day, caller     string // of one for a day
	work            string // of a session: the run or turn that used it last
	spent, reserved int64
}

const (
	// What is assumed of a call before it is known.
	bytesPerToken = 4
	tokensOfImage = 1500
	bytesPerScan  = 32   // of a file that is no text, for each token
	answerTokens  = 1024 // of an answer that the request does not bound

	maxPurses       = 100_000 // what was spent in sessions, and by callers today, can be read again, and most runs have ended
	budgetSaveWait  = time.Second
	budgetRetryWait = 30 * time.Second
	budgetCallTime  = 10 * time.Second
)

// unpriced are the providers whose models need no price: they run on machines of the operator, or report what a call has cost.
var unpriced = []string{"demo", "ollama", "lmstudio", "vllm", "openrouter", "perplexity", "xai"}

// NewBudget returns a budget, which continues with what the store has of today. Errors of the store are logged: the budget then starts at 0.
func NewBudget(o BudgetOptions) *Budget {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Budget{o: o, unsaved: map[spentKey]Usage{}}
	b.purses, _ = lru.New[string, *purse](maxPurses) // fails for no size
	if o.Store == nil {
		return b
	}
	ctx, cancel := context.WithTimeout(context.Background(), budgetCallTime)
	defer cancel()
	total, err := o.Store.On(ctx, today())
	if err != nil {
		o.Log.WarnContext(ctx, "cannot read what calls of models cost today", "error", err)
	} else {
		b.addStored(total)
	}
	return b
}

// today is the day, in UTC.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

// limited reports whether anything is bounded.
func (b *Budget) limited() bool {
	return b.o.Run > 0 || b.o.Session > 0 || b.o.Caller > 0 || b.o.Day > 0
}

// Spending is what was spent in a day, in millionths of a dollar.
type Spending struct {
	Day     string           `json:"day"` // as 2026-11-24, UTC
	Cost    int64            `json:"cost"`
	Callers map[string]int64 `json:"callers"`
}

// Today returns what was spent today.
func (b *Budget) Today() Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Spending{Day: today(), Callers: map[string]int64{}}
	for _, p := range b.purses.Values() {
		switch {
		case p.day != s.Day || p.spent == 0:
		case p.caller == "":
			s.Cost = p.spent
		default:
			s.Callers[p.caller] = p.spent
		}
	}
	return s
}

// purse returns the purse with a key, or adds one. The lock is held.
func (b *Budget) purse(key string, added purse) *purse {
	p, ok := b.purses.Get(key)
	if !ok {
		p = &added
		b.purses.Add(key, p)
	}
	return p
}

func (b *Budget) dayPurse(day string) *purse {
	return b.purse("day "+day, purse{limit: b.o.Day, day: day, full: "the server reached its cost limit for today"})
}

func (b *Budget) callerPurse(day, caller string) *purse {
	full := "you reached your cost limit for today, " + dollars(b.o.Caller)
	return b.purse("caller "+day+" "+caller, purse{limit: b.o.Caller, day: day, caller: caller, full: full})
}

// bill is what one attempt at an answer owes.
type bill struct {
	budget *Budget
	key    spentKey
	price  *Price // nil where it is not known
	purses []*purse
	input  int // tokens of the request, about

	reserved int64 // in each purse
	text     int   // bytes of the answer so far
	usage    Usage // as the provider counts
	counted  bool  // the provider has counted
	complete bool  // the answer has ended
}

// reserve holds what an attempt may cost, until its bill is paid.
func (b *Budget) reserve(ctx context.Context, model string, price *Price, req *Request) (*bill, error) {
	if provider, _, _ := strings.Cut(model, ":"); price == nil && b.limited() && !slices.Contains(unpriced, provider) {
		return nil, &Error{
			Code: CodeBudget, OfModel: true,
			Message: "the model " + model + " has no price, so it is not used where the cost is limited; the operator can add it to prices",
		}
	}
	t := trail.Of(ctx)
	work := cmp.Or(t.Run, t.Turn)
	before := b.sessionCost(ctx, t.Session, work)

	b.mu.Lock()
	defer b.mu.Unlock()
	l := &bill{budget: b, key: spentKey{today(), t.Caller, model}, price: price, input: req.Tokens()}
	if b.o.Run > 0 && work != "" {
		l.purses = append(l.purses, b.purse("run "+work, purse{limit: b.o.Run, full: "this run reached its cost limit, " + dollars(b.o.Run)}))
	}
	if b.o.Session > 0 && t.Session != "" {
		p := b.purse("session "+t.Session, purse{limit: b.o.Session, full: "this session reached its cost limit, " + dollars(b.o.Session)})
		p.work, p.spent = work, max(p.spent, before)
		l.purses = append(l.purses, p)
	}
	if t.Caller != "" {
		l.purses = append(l.purses, b.callerPurse(l.key.day, t.Caller))
	}
	l.purses = append(l.purses, b.dayPurse(l.key.day))

	answer := answerTokens
	if req.MaxTokens != nil && *req.MaxTokens > 0 {
		answer = *req.MaxTokens
	}
	need := l.cost(answer)
	if full := l.raise(need); full != nil {
		return nil, full.refusal("the next answer can cost " + dollars(need))
	}
	return l, nil
}

// sessionCost returns what a session has cost before this run; 0 if that is known or cannot be read. It is read once for each run, because the
// session may have been used elsewhere.
func (b *Budget) sessionCost(ctx context.Context, session, work string) int64 {
	if b.o.Session <= 0 || session == "" || b.o.Spent == nil {
		return 0
	}
	b.mu.Lock()
	p, known := b.purses.Get("session " + session)
	known = known && p.work == work
	b.mu.Unlock()
	if known {
		return 0
	}
	spent, err := b.o.Spent(ctx, session)
	if err != nil {
		b.o.Log.WarnContext(ctx, "cannot read a session's cost", "error", err)
	}
	return spent
}

// cost is what the call costs if its answer has so many tokens, as far as that is known.
func (l *bill) cost(answer int) int64 {
	if l.price == nil {
		return 0
	}
	u := l.usage
	if u.PromptTokens == 0 {
		u.PromptTokens = l.input
	}
	u.CompletionTokens = max(u.CompletionTokens, answer)
	return l.price.Cost(u)
}

// tokens is how many the answer has so far, about.
func (l *bill) tokens() int { return (l.text + bytesPerToken - 1) / bytesPerToken }

// raise reserves need in place of what is reserved. If a purse has no room, it returns that, and nothing changes. The lock is held.
func (l *bill) raise(need int64) (full *purse) {
	for _, p := range l.purses {
		if p.limit > 0 && p.spent+p.reserved-l.reserved+need > p.limit {
			return p
		}
	}
	for _, p := range l.purses {
		p.reserved += need - l.reserved
	}
	l.reserved = need
	return nil
}

// add counts a chunk of the answer, and fails if it costs too much.
func (l *bill) add(c *Chunk) error {
	l.text += c.size()
	if c.Usage != nil {
		l.usage, l.counted = *c.Usage, true
	}
	l.complete = l.complete || c.Finish != ""
	if l.complete || !l.budget.limited() { // a complete answer is paid in full
		return nil
	}
	need := l.cost(l.tokens())
	if need <= l.reserved {
		return nil
	}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if full := l.raise(need); full != nil {
		return full.refusal("the answer was cut off")
	}
	return nil
}

// pay pays what the attempt has cost. Of an answer that was cut off the provider may not have counted all.
func (l *bill) pay() {
	if l.text > 0 && (!l.counted || !l.complete) {
		l.usage.Cost = max(l.usage.Cost, l.cost(l.tokens()))
	}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range l.purses {
		p.reserved -= l.reserved
		p.spent += l.usage.Cost
	}
	if l.usage != (Usage{}) && b.o.Store != nil {
		b.addUnsaved(l.key, l.usage, budgetSaveWait)
	}
}

// refusal is the error of a call for which a purse has no room.
func (p *purse) refusal(what string) *Error {
	e := &Error{Code: CodeBudget, Message: p.full + ": " + what}
	if p.day != "" {
		now := time.Now().UTC()
		e.RetryAfter = now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
		e.Message += "; the next day starts at midnight UTC"
	}
	return e
}

// dollars writes millionths of a dollar: $0.50, $0.000213.
func dollars(micro int64) string {
	s := fmt.Sprintf("$%d.%06d", micro/1_000_000, micro%1_000_000)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > len(".00") {
		s = s[:len(s)-1]
	}
	return s
}

// Tokens estimates how many tokens the request has.
func (r *Request) Tokens() (n int) {
	text := int(r.Size()) + len(r.Format.Schema)
	for i := range r.Tools {
		t := &r.Tools[i]
		text += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			if p.Image != "" {
				n += tokensOfImage
				text -= len(p.Image)
			}
			if !strings.HasPrefix(p.File, "data:text/") {
				n += len(p.File) / bytesPerScan
				text -= len(p.File)
			}
		}
	}
	return n + (text+bytesPerToken-1)/bytesPerToken
}

// addUnsaved adds to what is not stored yet, which is stored after a time. The lock is held.
func (b *Budget) addUnsaved(key spentKey, usage Usage, wait time.Duration) {
	sum := b.unsaved[key]
	sum.Add(usage)
	b.unsaved[key] = sum
	if b.saving == nil && !b.closed {
		b.saving = time.AfterFunc(wait, b.save)
	}
}

// save stores what is not stored yet, and reads what was spent at other servers. What cannot be stored is tried again later.
func (b *Budget) save() {
	b.saveLock.Lock()
	defer b.saveLock.Unlock()
	days := map[string][]Spent{}
	b.mu.Lock()
	for key, usage := range b.unsaved {
		days[key.day] = append(days[key.day], Spent{key.caller, key.model, usage})
	}
	clear(b.unsaved)
	b.saving = nil
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), budgetCallTime)
	defer cancel()
	for day, spent := range days {
		total, err := b.o.Store.Add(ctx, day, spent)
		if err == nil {
			b.addStored(total)
			continue
		}
		b.o.Log.WarnContext(ctx, "cannot store what calls of models cost; retrying", "error", err)
		b.mu.Lock()
		for _, s := range spent {
			b.addUnsaved(spentKey{day, s.Caller, s.Model}, s.Usage, budgetRetryWait)
		}
		b.mu.Unlock()
	}
}

// addStored adds what other servers, or this one before a restart, have spent on a day.
func (b *Budget) addStored(total Spending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	day := b.dayPurse(total.Day)
	day.spent = max(day.spent, total.Cost)
	for caller, cost := range total.Callers {
		if caller != "" {
			p := b.callerPurse(total.Day, caller)
			p.spent = max(p.spent, cost)
		}
	}
}

// Close stores what is not stored yet.
func (b *Budget) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.saving != nil {
		b.saving.Stop()
	}
	b.mu.Unlock()
	b.save()
	return nil
}

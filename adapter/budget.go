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

// Budget counts what calls of models cost, and bounds it. Each call reserves what it may cost before it is made; while its answer comes it
// reserves more where that is not enough; when it has ended it pays what it has cost. A call for which there is no room fails with
// [CodeBudget]; so does one in the middle of its answer. So limits are passed by no more than what the calls under way have cost beyond
// their estimates.
//
// Costs are known for models that have a price, and of providers that say what a call has cost. Calls of models on machines of one's own count
// as 0; those of other models are refused where anything is bounded.
// A Budget is safe for concurrent use.
type Budget struct {
	o BudgetOptions

	mu       sync.Mutex
	day      string
	total    *purse                     // of the day
	callers  map[string]*purse          // of the day
	works    *lru.Cache[string, *purse] // of runs ("run NAME") and sessions ("session NAME") that were used last
	unsaved  map[spentKey]Usage
	saving   *time.Timer
	closed   bool
	saveLock sync.Mutex // held while the store is written to
}

// spentKey says whose usage it is. The caller is the name of a purse, or "".
type spentKey struct{ day, caller, model string }

// purse is what a run, a session, a caller of today or a day has spent and reserved.
type purse struct {
	full            string // begins the refusal of a call for which it has no room
	daily           bool
	limit           int64 // 0 is none
	spent, reserved int64
	work            string // of a session: the run or turn that used it last
}

// What is assumed of a call before it is known.
const (
	bytesPerToken  = 4
	tokensOfImage  = 1500
	bytesPerScan   = 32     // of a file that is no text, for each token
	answerTokens   = 1024   // of an answer that the request does not bound
	answerStep     = 256    // tokens that an answer which takes longer reserves at once
	maxPurses      = 50_000 // of callers, and of runs and sessions: what was spent in sessions can be read again, and most runs have ended
	budgetSaveWait = time.Second
	budgetCallTime = 10 * time.Second

	budgetRetryWait = 30 * time.Second
)

// unpriced are the providers whose models need no price: they run on machines of one's own, or say what a call has cost.
var unpriced = []string{"demo", "ollama", "lmstudio", "vllm", "openrouter", "perplexity", "xai"}

// NewBudget returns a budget, which goes on with what the store has of today. Errors of the store are logged: it begins anew then.
func NewBudget(o BudgetOptions) *Budget {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Budget{o: o, unsaved: map[spentKey]Usage{}}
	b.works, _ = lru.New[string, *purse](maxPurses) // fails for no size
	if b.startDay(time.Now()); o.Store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), budgetCallTime)
		defer cancel()
		if total, err := o.Store.On(ctx, b.day); err != nil {
			o.Log.WarnContext(ctx, "cannot read what calls of models cost today", "error", err)
		} else {
			b.learn(total)
		}
	}
	return b
}

// limited says whether anything is bounded.
func (b *Budget) limited() bool {
	return b.o.Run > 0 || b.o.Session > 0 || b.o.Caller > 0 || b.o.Day > 0
}

// Spending is what was spent in a day, in millionths of a dollar.
type Spending struct {
	Day     string           `json:"day"` // as 2026-11-24, UTC
	Cost    int64            `json:"cost"`
	Callers map[string]int64 `json:"callers"`
}

// Today tells what was spent today.
func (b *Budget) Today() Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startDay(time.Now())
	s := Spending{Day: b.day, Cost: b.total.spent, Callers: map[string]int64{}}
	for name, p := range b.callers {
		if p.spent > 0 {
			s.Callers[name] = p.spent
		}
	}
	return s
}

// startDay starts a new day if there is one. Calls that go on from the day before pay to that. The lock is held, or b is new.
func (b *Budget) startDay(now time.Time) {
	if day := now.UTC().Format(time.DateOnly); day != b.day {
		b.day, b.callers = day, map[string]*purse{}
		b.total = &purse{full: "the server reached its cost limit for today", limit: b.o.Day, daily: true}
	}
}

// bill is what one attempt at an answer owes.
type bill struct {
	budget *Budget
	of     spentKey
	price  *Price // nil where it is not known
	purses []*purse
	input  int // tokens of the request, about

	held     int64 // of each purse
	text     int   // bytes of the answer so far
	usage    Usage // as the provider counts
	counted  bool  // the provider has counted
	complete bool  // the answer has ended
}

// reserve holds what an attempt may cost, until its bill is paid.
func (b *Budget) reserve(ctx context.Context, model string, price *Price, req *Request) (*bill, error) {
	t := trail.Of(ctx)
	work := cmp.Or(t.Run, t.Turn)
	before, known := b.spentBefore(ctx, t.Session, work)
	now := time.Now()

	if provider, _, _ := strings.Cut(model, ":"); price == nil && b.limited() && !slices.Contains(unpriced, provider) {
		return nil, &Error{
			Code: CodeBudget, OfModel: true,
			Message: "the model " + model + " has no price, so it is not used where the cost is limited; the operator can add it to prices",
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startDay(now)
	l := &bill{budget: b, of: spentKey{day: b.day, model: model}, price: price, input: req.Tokens()}
	if b.o.Run > 0 && work != "" {
		l.purses = append(l.purses, b.workPurse("run", work, b.o.Run))
	}
	if b.o.Session > 0 && t.Session != "" {
		p := b.workPurse("session", t.Session, b.o.Session)
		if p.work = work; known {
			p.spent = max(p.spent, before)
		}
		l.purses = append(l.purses, p)
	}
	if t.Caller != "" {
		var p *purse
		l.of.caller, p = b.callerPurse(t.Caller)
		l.purses = append(l.purses, p)
	}
	l.purses = append(l.purses, b.total)

	answer := answerTokens
	if req.MaxTokens != nil && *req.MaxTokens > 0 {
		answer = *req.MaxTokens
	}
	need := l.cost(answer)
	if full := l.raise(need); full != nil {
		return nil, full.refusal("the next answer can cost "+dollars(need), now)
	}
	return l, nil
}

// spentBefore asks what a session has cost before this run, once for each run of it: it may have gone on elsewhere meanwhile.
func (b *Budget) spentBefore(ctx context.Context, session, work string) (spent int64, known bool) {
	if b.o.Session <= 0 || session == "" || b.o.Spent == nil {
		return 0, false
	}
	b.mu.Lock()
	p, counted := b.works.Get("session " + session)
	counted = counted && p.work == work
	b.mu.Unlock()
	if counted {
		return 0, false
	}
	spent, err := b.o.Spent(ctx, session)
	if err != nil {
		b.o.Log.WarnContext(ctx, "cannot read a session's cost", "error", err)
		return 0, false
	}
	return spent, true
}

// workPurse returns the purse of a run or a session. The lock is held.
func (b *Budget) workPurse(kind, name string, limit int64) *purse {
	p, ok := b.works.Get(kind + " " + name)
	if !ok {
		p = &purse{full: "this " + kind + " reached its cost limit, " + dollars(limit), limit: limit}
		b.works.Add(kind+" "+name, p)
	}
	return p
}

// callerPurse returns the purse of a caller, and its name. Addresses can be made up: the callers that come last share one. The lock is held.
func (b *Budget) callerPurse(caller string) (name string, p *purse) {
	if p = b.callers[caller]; p == nil && len(b.callers) >= maxPurses {
		caller = "others"
		p = b.callers[caller]
	}
	if p == nil {
		p = &purse{full: "you reached your cost limit for today, " + dollars(b.o.Caller), limit: b.o.Caller, daily: true}
		b.callers[caller] = p
	}
	return caller, p
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

// raise reserves need in place of what is reserved; where a purse has no room it returns that, and nothing changes. The lock is held.
func (l *bill) raise(need int64) (full *purse) {
	for _, p := range l.purses {
		if p.limit > 0 && p.spent+p.reserved-l.held+need > p.limit {
			return p
		}
	}
	for _, p := range l.purses {
		p.reserved += need - l.held
	}
	l.held = need
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
	tokens := l.tokens()
	need := l.cost(tokens)
	if need <= l.held {
		return nil
	}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if l.raise(l.cost(tokens+answerStep)) == nil {
		return nil
	}
	if full := l.raise(need); full != nil {
		return full.refusal("the answer was cut off", time.Now())
	}
	return nil
}

// pay pays what the attempt has cost. Of an answer that was cut off the provider may not have counted all.
func (l *bill) pay() {
	cost := l.usage.Cost
	if l.text > 0 && (!l.counted || !l.complete) {
		cost = max(cost, l.cost(l.tokens()))
	}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range l.purses {
		p.reserved -= l.held
		p.spent += cost
	}
	if l.usage.Cost = cost; l.usage != (Usage{}) && b.o.Store != nil {
		b.addUnsaved(l.of, l.usage)
		b.saveAfter(budgetSaveWait)
	}
}

// refusal is the error of a call for which a purse has no room.
func (p *purse) refusal(what string, now time.Time) *Error {
	e := &Error{Code: CodeBudget, Message: p.full + ": " + what}
	if p.daily {
		now = now.UTC()
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

// addUnsaved adds to what is not stored yet. The lock is held.
func (b *Budget) addUnsaved(of spentKey, usage Usage) {
	sum := b.unsaved[of]
	sum.Add(usage)
	b.unsaved[of] = sum
}

// saveAfter has save called once, unless it is to be called already. The lock is held.
func (b *Budget) saveAfter(wait time.Duration) {
	if b.saving == nil && !b.closed {
		b.saving = time.AfterFunc(wait, b.save)
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

// save stores what is not stored yet, and learns what callers have spent at other servers.
func (b *Budget) save() {
	b.saveLock.Lock()
	defer b.saveLock.Unlock()
	b.mu.Lock()
	days := map[string][]Spent{}
	for key, usage := range b.unsaved {
		days[key.day] = append(days[key.day], Spent{key.caller, key.model, usage})
	}
	clear(b.unsaved)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), budgetCallTime)
	defer cancel()
	wait := budgetSaveWait
	for day, spent := range days {
		total, err := b.o.Store.Add(ctx, day, spent)
		if err == nil {
			b.learn(total)
			continue
		}
		b.o.Log.WarnContext(ctx, "cannot store what calls of models cost; retrying", "error", err)
		wait = budgetRetryWait
		b.mu.Lock()
		for _, s := range spent {
			b.addUnsaved(spentKey{day, s.Caller, s.Model}, s.Usage)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saving = nil
	if len(b.unsaved) > 0 {
		b.saveAfter(wait)
	}
}

// learn takes what is stored of a day.
func (b *Budget) learn(total Spending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startDay(time.Now())
	if total.Day != b.day {
		return
	}
	for key, usage := range b.unsaved { // paid since
		if key.day == b.day {
			total.Cost += usage.Cost
			if _, ok := total.Callers[key.caller]; ok {
				total.Callers[key.caller] += usage.Cost
			}
		}
	}
	b.total.spent = total.Cost
	for name, cost := range total.Callers {
		if name != "" {
			_, p := b.callerPurse(name)
			p.spent = cost
		}
	}
}

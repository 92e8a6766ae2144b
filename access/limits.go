package access

import (
	"net/http"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/ratelimit"
)

// Rate is how much of something a caller gets in a minute, and how much at once after a pause.
type Rate = ratelimit.Rate

// LimitsOptions are limits for each caller. Zero is no limit, except for Debt.
type LimitsOptions struct {
	Requests Rate
	Tokens   Rate          // of models, in and out
	Debt     time.Duration // the maximum wait after using too many tokens; 10 min
	Runs     int           // at once
}

// limited returns the refusal for a limit that was reached.
func limited(reason, detail string, wait time.Duration) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Code: "rate_limited", Reason: reason, Detail: detail, RetryAfter: wait}
}

const (
	// runRetry is how long to wait for the end of a run, which is unknown.
	runRetry = 2 * time.Second
	// maxCallers bounds how many callers have buckets. A dropped one starts again with full ones.
	maxCallers = 100_000
)

// Limits counts what callers do, by the name of a principal or by an address. Its methods are safe for concurrent use.
type Limits struct {
	o                LimitsOptions
	requests, tokens *ratelimit.Buckets[string]

	mu   sync.Mutex
	runs map[string]int // active runs, by caller
}

// NewLimits returns limits for callers of one kind.
func NewLimits(o LimitsOptions) *Limits {
	if o.Debt <= 0 {
		o.Debt = 10 * time.Minute
	}
	return &Limits{o: o, requests: ratelimit.New[string](maxCallers), tokens: ratelimit.New[string](maxCallers), runs: map[string]int{}}
}

// Request counts a request of a caller. It returns why the caller has to wait, or nil.
func (l *Limits) Request(name string) *Refusal {
	if wait := l.requests.Take(name, l.o.Requests); wait > 0 {
		return limited("limit_requests", "too many requests in a short time; retry later", wait)
	}
	return nil
}

// Run lets a caller begin a run, and counts it until end is called; more calls have no effect. end is nil if the run is refused. A caller
// with at least one token may begin a run, however many it will use.
func (l *Limits) Run(name string) (end func(), refusal *Refusal) {
	if wait := l.tokens.Wait(name, l.o.Tokens); wait > 0 {
		return nil, limited("limit_tokens", "you used too many tokens in a short time; retry later", wait)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Runs > 0 && l.runs[name] >= l.o.Runs {
		return nil, limited("limit_runs", "you have too many active runs; retry when one has ended", runRetry)
	}
	l.runs[name]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.runs[name]--; l.runs[name] == 0 {
			delete(l.runs, name)
		}
	}), nil
}

// Charge counts tokens that a caller has used. They are known too late to be refused, so the caller may get into debt, and begins no run
// until time has paid for it.
func (l *Limits) Charge(name string, tokens int) { l.tokens.Charge(name, l.o.Tokens, tokens, l.o.Debt) }

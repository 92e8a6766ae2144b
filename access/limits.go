package access

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// Rate is how much of something a caller gets in a minute, and how much at once after a pause. Zero is no limit.
type Rate struct {
	PerMinute int
	Burst     int // 0 is a minute's worth
}

// LimitsOptions are limits for each caller, and for all together. Zero is no limit, unless something else is said.
type LimitsOptions struct {
	Requests Rate
	Tokens   Rate          // of models, in and out
	Debt     time.Duration // nobody waits for longer than this for having used too many tokens at once; 10 min
	Runs     int           // at once
	Callers  int           // that are kept apart at once; others share what one of them has. 100000
}

// Limit is what was reached.
type Limit string

// The limits.
const (
	LimitRequests Limit = "requests"
	LimitTokens   Limit = "tokens"
	LimitRuns     Limit = "runs"
)

// Decision is whether something may happen, and if not, why and for how long. The zero value is that it may.
type Decision struct {
	Limit      Limit // that was reached; "" is none
	RetryAfter time.Duration
}

// OK says that it may happen.
func (d Decision) OK() bool { return d.Limit == "" }

// Err is the decision as a [Refusal]; nil where it is none.
func (d Decision) Err() error {
	r := Refusal{Status: http.StatusTooManyRequests, Code: "rate_limited", Reason: "limit_" + string(d.Limit), RetryAfter: d.RetryAfter}
	switch d.Limit {
	case "":
		return nil
	case LimitRequests:
		r.Detail = "too many requests in a short time; retry later"
	case LimitTokens:
		r.Detail = "you used too many tokens in a short time; retry later"
	default:
		r.Detail = "you have too many active runs; retry when one has ended"
	}
	return &r
}

// runRetry is how long to wait for the end of a run, which nobody knows.
const runRetry = 2 * time.Second

// Limits counts what callers do: principals by their names, or those who have none by their addresses. One Limits is for callers of
// one kind, so that no stranger is taken for somebody with a name. Its methods are safe for concurrent use.
//
// A bucket is one number: when it will be full again. It fills by itself as time goes by, and is forgotten when it is full. (A limiter of
// golang.org/x/time/rate could neither be charged afterwards for more than it holds, nor be asked whether it is full.)
type Limits struct {
	requests, tokens bucketRate
	runs             int
	most             int
	start            time.Time // times are counted from it by the clock that nobody sets

	mu       sync.Mutex
	callers  map[string]*caller
	overflow caller // of those that came when there were most
	sweepAt  int    // callers, with which it is looked for those that can be forgotten
	swept    int64  // when that was done last
}

// caller is what is known of one.
type caller struct {
	requests, tokens int64 // when the buckets will be full, in nanoseconds from the start
	runs             int
}

// bucketRate is a Rate as buckets need it.
type bucketRate struct {
	each  float64 // nanoseconds for one; 0 is no limit
	burst int64   // nanoseconds for a whole bucket
	debt  int64   // nanoseconds that a bucket may be below empty
}

const (
	// sweepLeast is not worth looking through.
	sweepLeast = 1024
	// sweepEvery bounds what strangers with ever new addresses make the server look through.
	sweepEvery = int64(time.Second)
)

// NewLimits returns limits for callers of one kind.
func NewLimits(o LimitsOptions) *Limits {
	if o.Callers <= 0 {
		o.Callers = 100_000
	}
	if o.Debt <= 0 {
		o.Debt = 10 * time.Minute
	}
	l := &Limits{
		requests: newBucketRate(o.Requests, 0), tokens: newBucketRate(o.Tokens, o.Debt),
		runs: o.Runs, most: o.Callers, start: time.Now(), callers: map[string]*caller{},
	}
	l.sweepAt, l.swept = min(sweepLeast, l.most), -sweepEvery
	return l
}

func newBucketRate(r Rate, debt time.Duration) bucketRate {
	if r.PerMinute <= 0 {
		return bucketRate{}
	}
	if r.Burst <= 0 {
		r.Burst = r.PerMinute
	}
	each := float64(time.Minute) / float64(r.PerMinute)
	return bucketRate{each: each, burst: nanoseconds(each * float64(r.Burst)), debt: int64(debt)}
}

// century is longer than any server runs; times with it do not overflow.
const century = float64(100 * 365 * 24 * time.Hour)

// nanoseconds rounds up, so that what was used is never counted for less.
func nanoseconds(f float64) int64 { return int64(math.Ceil(min(f, century))) }

// Request counts a request of a caller.
func (l *Limits) Request(name string) Decision {
	if l.requests.each == 0 {
		return Decision{}
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(name, now)
	full := max(c.requests, now) + nanoseconds(l.requests.each)
	if wait := full - now - l.requests.burst; wait > 0 {
		return Decision{LimitRequests, time.Duration(wait)}
	}
	c.requests = full
	return Decision{}
}

// Run lets a caller begin a run, and counts it until end is called, which can be done more than once. end is nil where the decision is
// not OK. Somebody who has tokens left begins a run, however many that will use.
func (l *Limits) Run(name string) (end func(), d Decision) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(name, now)
	switch wait := c.tokens - now - l.tokens.burst + nanoseconds(l.tokens.each); {
	case l.tokens.each > 0 && wait > 0:
		return nil, Decision{LimitTokens, time.Duration(wait)}
	case l.runs > 0 && c.runs >= l.runs:
		return nil, Decision{LimitRuns, runRetry}
	}
	c.runs++
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			c.runs--
			l.mu.Unlock()
		})
	}, Decision{}
}

// Charge counts tokens that a caller has used. It is told when they are known, which is too late to refuse them: the caller is then in
// debt, and begins no run until time has paid for it.
func (l *Limits) Charge(name string, tokens int) {
	if l.tokens.each == 0 || tokens <= 0 {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(name, now)
	full := max(c.tokens, now) + nanoseconds(l.tokens.each*float64(tokens))
	c.tokens = min(full, now+l.tokens.burst+l.tokens.debt)
}

func (l *Limits) now() int64 { return int64(time.Since(l.start)) }

// caller finds or makes one. The lock is held.
func (l *Limits) caller(name string, now int64) *caller {
	if c := l.callers[name]; c != nil {
		return c
	}
	if len(l.callers) >= l.sweepAt {
		l.sweep(now)
	}
	if len(l.callers) >= l.most {
		return &l.overflow
	}
	c := &caller{}
	l.callers[name] = c
	return c
}

// sweep forgets callers whose buckets are full and who have no runs: a new one would be as they are. The map is made anew, since one
// that was large stays so.
func (l *Limits) sweep(now int64) {
	if now-l.swept < sweepEvery {
		return
	}
	l.swept = now
	kept := map[string]*caller{}
	for name, c := range l.callers {
		if c.requests > now || c.tokens > now || c.runs > 0 {
			kept[name] = c
		}
	}
	l.callers = kept
	l.sweepAt = min(max(sweepLeast, 2*len(kept)), l.most)
}

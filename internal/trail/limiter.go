package trail

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Repeated is what the lines of a log have in common that a [LineLimiter] takes as one kind.
type Repeated struct {
	Reason string
	Client string // the address of the caller, as [access.Caller] groups addresses
}

// LineLimiter keeps repeated lines out of a log, such as those of refused requests, which strangers can send as fast as they like. It allows
// three lines a minute of a kind: enough to see what a person did wrong. It is safe for concurrent use.
type LineLimiter struct {
	kinds *lru.Cache[Repeated, *rate.Limiter]
	all   *rate.Limiter
}

// NewLineLimiter returns a limiter.
func NewLineLimiter() *LineLimiter {
	kinds, err := lru.New[Repeated, *rate.Limiter](1024)
	if err != nil {
		panic(err) // the size is positive
	}
	return &LineLimiter{kinds: kinds, all: rate.NewLimiter(rate.Every(time.Minute/1000), 1000)}
}

// Allow reports whether a line of this kind may be written.
func (l *LineLimiter) Allow(kind Repeated) bool {
	limiter, known := l.kinds.Get(kind)
	if !known {
		limiter = rate.NewLimiter(rate.Every(time.Minute/3), 3)
		l.kinds.Add(kind, limiter)
	}
	return limiter.Allow() && l.all.Allow()
}

package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fair"
	"github.com/lingserve/lingserve/internal/trail"
)

// Slots bound the requests that are made to one provider at once. A request has its slot from before it is sent until its answer has
// ended or was left. Other requests wait for one. Callers take turns, and the requests of a caller come first come, first
// served; without a known caller each session, or else each run, is one. Zero is the default of a member, but for Max.
type Slots struct {
	Max   int           // requests at once to each provider; 0 is no limit
	Queue int           // requests that wait for each provider, 1000; negative is none
	Wait  time.Duration // for a slot, 30 s
}

// Defaults of [Slots].
const (
	defaultQueue = 1000
	defaultWait  = 30 * time.Second
)

// Load is what goes on at a provider that has slots.
type Load struct {
	Provider string
	Max      int
	Taken    int
	Waiting  int
	Refused  uint64 // since the start: requests that have waited in vain, or could not wait
}

// Load tells of each provider that can be asked, sorted; nil where requests are not bounded.
func (r *Registry) Load() []Load {
	var all []Load
	for _, name := range r.Providers() {
		if !r.Configured(name) {
			continue
		}
		s := r.slotsOf(name)
		if s == nil {
			continue
		}
		s.mu.Lock()
		all = append(all, Load{Provider: name, Max: s.Max, Taken: s.taken, Waiting: s.waiting.Len(), Refused: s.refused})
		s.mu.Unlock()
	}
	return all
}

// slotsOf returns the slots of a provider; nil where there is no limit.
func (r *Registry) slotsOf(provider string) *slots {
	if r.Slots.Max <= 0 {
		return nil
	}
	s := &slots{Slots: r.Slots, provider: provider}
	s.Queue = cmp.Or(s.Queue, defaultQueue)
	if s.Wait <= 0 {
		s.Wait = defaultWait
	}
	stored, _ := r.slots.LoadOrStore(provider, s)
	return stored.(*slots)
}

// slots are those of one provider.
type slots struct {
	Slots
	provider string

	mu      sync.Mutex
	taken   int
	waiting fair.Queue[chan struct{}] // each is closed when its request has got a slot
	refused uint64
}

// acquire waits for a slot. The error is an *[Error], or the cause of ctx.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.taken < s.Max { // then no request waits
		s.taken++
		s.mu.Unlock()
		return nil
	}
	if s.waiting.Len() >= s.Queue || elsewhere(ctx, s.provider) {
		s.refused++
		s.mu.Unlock()
		return s.full(0)
	}
	got := make(chan struct{})
	t := trail.Of(ctx)
	place := s.waiting.Push(cmp.Or(t.Caller, t.Session, t.Run), got)
	s.mu.Unlock()

	late := time.NewTimer(s.Wait)
	defer late.Stop()
	select {
	case <-got:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-got: // just now
		if ctx.Err() == nil {
			return nil
		}
		s.giveLocked()
	default:
		s.waiting.Remove(place)
		if ctx.Err() == nil {
			s.refused++
			return s.full(s.Wait)
		}
	}
	return context.Cause(ctx)
}

// give gives a slot back.
func (s *slots) give() {
	s.mu.Lock()
	s.giveLocked()
	s.mu.Unlock()
}

// giveLocked hands the slot to the request whose turn it is.
func (s *slots) giveLocked() {
	if next := s.waiting.First(); next != nil {
		s.waiting.Take(next)
		close(next.Value)
		return
	}
	s.taken--
}

// busyRetry is when to come back where there was no slot. It is not known when one becomes free: answers take seconds.
const busyRetry = 5 * time.Second

// full is the error of a request that has got no slot.
func (s *slots) full(waited time.Duration) *Error {
	e := &Error{
		Code: CodeOverloaded, Retryable: true, RetryAfter: busyRetry, Cause: errFull,
		Message: fmt.Sprintf("this server reached its limit of %d active requests to %s", s.Max, s.provider),
	}
	if waited > 0 {
		e.Message += fmt.Sprintf("; none ended within %v", waited)
	}
	return e
}

// errFull is the cause of an error that means no slot. There is no use in trying at once what was refused: others wait.
var errFull = errors.New("no slot")

// orElse is the context's key of the links that a chain asks where this one fails. No request waits for a slot of its provider while there
// is another provider to ask.
type orElse struct{}

// elsewhere says whether another provider than this one can be asked.
func elsewhere(ctx context.Context, provider string) bool {
	links, _ := ctx.Value(orElse{}).([]link)
	return slices.ContainsFunc(links, func(l link) bool { return !strings.HasPrefix(l.name, provider+":") })
}

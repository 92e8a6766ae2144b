package run

import (
	"errors"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/wording"
)

// admit counts a run for its caller, who may have no more of them at once, and no new one after having used too many tokens. What
// was taken before is not refused any more. The lock of runs is held, so that runs that begin together are counted one after the other.
func (s *Service) admit(sp *spec) (release func(), p error) {
	limits := s.o.Limits
	if limits == nil || sp.caller == "" {
		return nil, nil
	}
	release, d := limits.Run(sp.caller)
	if refusal, ok := errors.AsType[*access.Refusal](d.Err()); ok && !sp.accepted() {
		return nil, &Error{Kind: ErrLimited, Detail: refusal.Detail, Limit: refusal.Reason, Retry: refusal.RetryAfter}
	}
	return release, nil
}

// release stops counting a run that has ended, and charges its caller for the tokens that it has used.
func (s *Service) release(r *Run) {
	if s.o.Limits == nil || r.caller == "" {
		return
	}
	if r.release != nil {
		r.release()
	}
	tokens := 0
	for _, u := range r.result.Usage {
		tokens += u.TotalTokens
	}
	s.o.Limits.Charge(r.caller, tokens)
}

// Full says why no run can start now; nil where one can.
func (s *Service) Full() error {
	if s.o.Pressure.LowMemory() {
		return littleMemory(nothingBegins)
	}
	if running, _ := s.Running(); running >= s.o.MaxRuns {
		return tooManyRuns(running)
	}
	return nil
}

// littleMemory is the refusal of what there may be no memory for.
func littleMemory(detail string) *Error { return overLimit(LimitMemory, detail, memoryRetry) }

const nothingBegins = "the server is close to its memory limit and starts no new runs; retry later"

// tooManyRuns is the refusal of a run beyond the most.
func tooManyRuns(running int) *Error {
	return overLimit(LimitAllRuns, wording.Plural(int64(running), "run")+" are active, the server's limit; retry later", runsRetry)
}

// runsRetry is when to come back where too many runs go on: one of thousands ends soon.
const runsRetry = 2 * time.Second

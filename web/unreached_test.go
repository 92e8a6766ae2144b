package web

import (
	"context"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/web/wire"
)

// unreached is a store that nobody reaches in time.
type unreached struct{ tape.Store }

func (unreached) Append(context.Context, string, tape.Batch) (int64, error) {
	return 0, fmt.Errorf("append: %w", tooLate{})
}

type tooLate struct{}

func (tooLate) Error() string {
	return "tape: the servers that store the sessions are unreachable; retry later"
}
func (tooLate) ErrorCode() string { return wire.CodeOverloaded }
func (tooLate) Unwrap() error     { return context.DeadlineExceeded }

// CL-10: where the store of sessions is not reached in time, it is not the model that has taken too long.
func TestAStoreThatIsNotReachedInTimeIsNoModelThatIsLate(t *testing.T) {
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		o.Tapes = unreached{logs.NewMemory(0, nil)}
		ao.Store = o.Tapes
	})
	a.serve()
	if p := readProblem(t, a.do("POST", "/v1/runs?format=json", `{"agent":"assistant","session":"s","input":"hello"}`)); p.Status != 503 || p.Code != wire.CodeOverloaded {
		t.Errorf("%+v", p)
	}
}

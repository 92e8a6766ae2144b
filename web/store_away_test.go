package web

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/turn"
)

// unstable is a store whose writes fail from some moment on, and whose leases can be lost.
type unstable struct {
	*logs.Store
	cause error
	fails atomic.Bool
	lost  chan struct{} // closed: leases are lost
}

func (s *unstable) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if s.fails.Load() {
		return 0, fmt.Errorf("append: %w", storeError{s.cause})
	}
	return s.Store.Append(ctx, name, b)
}

func (s *unstable) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	l, err := s.Store.Lease(ctx, name, wait)
	return lost{l, s.lost}, err
}

type lost struct {
	tape.Lease
	lost chan struct{}
}

func (l lost) Lost() <-chan struct{} { return l.lost }

// storeError is one as the stores of several processes have: coded, and what nobody is to read.
type storeError struct{ error }

func (storeError) ErrorCode() string { return turn.CodeOverloaded }
func (e storeError) Unwrap() error   { return e.error }

func unstableBench(t *testing.T, cause error) (*agentBench, *unstable) {
	store := &unstable{Store: logs.NewMemory(0, nil), cause: cause, lost: make(chan struct{})}
	t.Cleanup(func() { store.Close() })
	a := newAgentBench(t, func(o *Options, ao *agent.Options) { o.Tapes, ao.Store = store, store })
	a.serve()
	return a, store
}

// TU-34, TU-68: the error of a run says what happened to the store or the session during its turn, and whether to try again.
func TestTurnWhoseStoreOrLeaseFailsSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		cause      error // nil: the lease is lost
		says, code string
	}{
		"unsure": {fmt.Errorf("%w: %w", tape.ErrUnsure, tape.ErrAway), "may or may not be stored; please check before you repeat them.", `"code":"overloaded"`},
		"lost":   {nil, "the server lost the session during the answer", `"code":"internal"`},
	} {
		t.Run(name, func(t *testing.T) {
			a, store := unstableBench(t, tt.cause)
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			if tt.cause == nil {
				close(store.lost)
			} else {
				store.fails.Store(true)
				close(a.talk.goOn)
			}
			f, data := named(t, resp)
			if f.terminal != `finished{"status":"failed"}` || !strings.Contains(data["error"], tt.says) {
				t.Errorf("%s, %s", f.terminal, data["error"])
			}
			if !strings.Contains(data["error"], tt.code) || strings.Contains(data["error"], `"retryable":true`) != (tt.cause == nil) {
				t.Errorf("want %s: %s", tt.code, data["error"])
			}
		})
	}
}

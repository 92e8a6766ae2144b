package web

import (
	"context"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// losing is a store whose leases can be lost.
type losing struct {
	*tapetest.Memory
	lost chan struct{} // closed: leases are lost
}

func (s *losing) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	l, err := s.Memory.Lease(ctx, name, wait)
	return lost{l, s.lost}, err
}

type lost struct {
	tape.Lease
	lost chan struct{}
}

func (l lost) Lost() <-chan struct{} { return l.lost }

// TU-68: a run whose server lost the session says so.
func TestTurnWhoseLeaseIsLostSaysSo(t *testing.T) {
	store := &losing{Memory: tapetest.NewMemory(nil), lost: make(chan struct{})}
	t.Cleanup(func() { store.Close() })
	a := newAgentBench(t, func(o *Options, ao *agent.Options) { o.Tapes, ao.Store = store, store })
	a.serve()
	resp := a.say("wait", "", asEvents)
	<-a.talk.waits
	close(store.lost)
	f, data := named(t, resp)
	if f.terminal != `finished{"status":"failed"}` || !strings.Contains(data["error"], "the server lost the session during the answer") ||
		!strings.Contains(data["error"], `"code":"internal"`) || !strings.Contains(data["error"], `"retryable":true`) {
		t.Errorf("%s, %s", f.terminal, data["error"])
	}
}

package web

import (
	"context"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// losable is a store whose leases are lost when lose is closed.
type losable struct {
	*logs.Store
	lose chan struct{}
}

func (s *losable) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	l, err := s.Store.Lease(ctx, name, wait)
	return lost{l, s.lose}, err
}

type lost struct {
	tape.Lease
	lost chan struct{}
}

func (l lost) Lost() <-chan struct{} { return l.lost }

// TU-68: whoever has asked is told what has happened, and what to do.
func TestTU_68_ATurnThatLosesItsSessionSaysSo(t *testing.T) {
	store := &losable{logs.NewMemory(0, nil), make(chan struct{})}
	defer store.Close()
	a := newAgentBench(t, func(o *Options, ao *agent.Options) { o.Tapes, ao.Store = store, store })
	a.serve()
	resp := a.say("wait", "", asEvents)
	<-a.talk.waits
	close(store.lose)
	f, data := named(t, resp)
	if f.terminal != `finished{"status":"failed"}` || !strings.Contains(data["error"], "the server lost the session during the answer") ||
		!strings.Contains(data["error"], `"code":"internal"`) {
		t.Errorf("%s, %s", f.terminal, data["error"])
	}
}

package web

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// slowRecorder records the sessions of a kernel, and stops at one of them.
type slowRecorder struct {
	kernel.Recorder
	lane     string
	at, goOn chan struct{}
}

func (r *slowRecorder) Record(_ context.Context, row channel.Row, _ bool) error {
	if row.SessionKey == r.lane {
		close(r.at)
		<-r.goOn
	}
	return nil
}

// RU-53: on one server, a start with a key waits for no start with another key.
func TestRU_53_AStartDoesNotWaitForAStartWithAnotherKey(t *testing.T) {
	slow := &slowRecorder{lane: laneOf("slow"), at: make(chan struct{}), goOn: make(chan struct{})}
	a, _, _ := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) { o.Kernel.Recorder = slow })
	body := func(session string) string {
		return `{"agent":"assistant","session":"` + session + `","input":"hello"}`
	}
	first := make(chan *http.Response, 1)
	go func() {
		first <- a.do("POST", "/v1/runs", body("slow"), "Prefer: respond-async", "Idempotency-Key: one")
	}()
	<-slow.at
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	resp, err := a.try(ctx, "POST", "/v1/runs", body("other"), "Prefer: respond-async", "Idempotency-Key: two")
	close(slow.goOn)
	if err != nil {
		t.Errorf("the second start waits: %v", err)
	} else if resp.Body.Close(); resp.StatusCode != 202 {
		t.Error(resp.StatusCode)
	}
	if r := <-first; r.StatusCode != 202 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
}

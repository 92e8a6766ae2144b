package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// server is an agent whose model is a scripted server, over OpenAI's wire.
func serve(t *testing.T, script func(fakeproviders.Request) fakeproviders.Answer, o Options) (*world, *fakeproviders.Server) {
	t.Helper()
	server := &fakeproviders.Server{Script: script}
	p, err := openai.New(openai.Options{BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	r := &adapter.Registry{}
	r.Register("openai", p)
	o.Models, o.Model = r, "openai:m"
	return newWorld(t, nil, o), server
}

// AG-22, AG-25: whoever stops a turn ends the request and the tools, and the next turn goes on.
func TestStoppingATurnEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := serve(t, func(r fakeproviders.Request) fakeproviders.Answer {
			if r.Attempt == 1 {
				return fakeproviders.Answer{Text: strings.Repeat("word ", 100), Pace: 1}
			}
			return fakeproviders.Answer{Text: "fine"}
		}, Options{})
		defer server.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(5*time.Second, func() { cancel(turn.ErrStopped) })
		h := w.process(ctx, message("go"))
		if !errors.Is(h.err, turn.ErrStopped) || !h.Partial || h.Output == "" {
			t.Errorf("%v %q", h.err, h.Output)
		}
		synctest.Wait()
		if server.Open() != 0 || server.Canceled() != 1 {
			t.Errorf("%d open, %d canceled", server.Open(), server.Canceled())
		}
		w.say("again")
		// What came at the very moment of the cancellation may be on the tape and not in the output.
		if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, `assistant: "`+h.Output) || !strings.Contains(got, `" partial`) {
			t.Errorf("output %q\n%s", h.Output, got)
		}
	})
}

// MO-41: a model that costs more than there is left for lets the next one answer.
func TestAModelThatIsTooDearIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "fine"} }}
		defer server.Close()
		p, err := openai.New(openai.Options{Prefix: "x", BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		r := &adapter.Registry{Budget: adapter.NewBudget(adapter.BudgetOptions{Day: 500_000}), Prices: func(_, model string) (adapter.Price, bool) {
			return map[string]adapter.Price{"dear": {Input: 1000, Output: 1000}, "cheap": {Input: 1, Output: 1}}[model], true
		}}
		r.Register("x", p)
		w := newWorld(t, nil, Options{Models: r, Model: "x:dear", Fallback: []string{"x:cheap"}})
		if h := w.say("hi"); h.Output != "fine" || h.Usage.Model != "x:cheap" || h.Usage.Cost == 0 {
			t.Errorf("%q %+v", h.Output, h.Usage)
		}
		w = newWorld(t, nil, Options{Models: r, Model: "x:dear"})
		if h := w.process(t.Context(), message("hi")); w.f.Code(h.err) != adapter.CodeBudget {
			t.Errorf("%v", h.err)
		}
	})
}

// Section 8: error text, keys and paths reach no envelope, no event and no entry.
func TestNothingSecretLeavesATurn(t *testing.T) {
	leaky := tool.Must(tool.New("leaky", "Leaks.", func(context.Context, struct{}) (string, error) {
		return "", errors.New("GET https://user:CANARY@host/?key=CANARY with Authorization: Bearer CANARY: refused")
	}))
	w := newWorld(t, newFake(calls("", "c1:leaky:{}"), fails(errors.New("panic at /srv/CANARY"))), Options{Tools: setOf(t, leaky)})
	c := &chat{got: make(chan *turn.Envelope, 10)}
	c.join(w)
	h := w.process(t.Context(), message("go"))
	if h.err == nil {
		t.Fatal("no error")
	}
	notice := <-c.got
	all := strings.Join(append(append(told(h.events), w.lines()...), notice.Content), "\n")
	if strings.Contains(all, "CANARY") {
		t.Error(all)
	}
	if diff := cmp.Diff(turn.KindError, notice.Kind); diff != "" {
		t.Error(diff)
	}
}

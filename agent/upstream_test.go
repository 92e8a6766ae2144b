package agent

import (
	"context"
	"errors"
	"net/http"
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

// AG-20, AG-25: calls come in pieces, their results go back, and the answer comes as it is written.
func TestATurnOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := serve(t, func(r fakeproviders.Request) fakeproviders.Answer {
			if r.Messages[len(r.Messages)-1].Role != "tool" {
				return fakeproviders.Answer{Text: "Let me see. ", Pace: 10, ToolCalls: []fakeproviders.ToolCall{
					{ID: "c1", Name: "echo", Arguments: `{"text":"sunny in Rome"}`}, {ID: "c2", Name: "echo", Arguments: `{"text":"rain in Paris"}`},
				}}
			}
			var got []string
			for _, m := range r.Messages[len(r.Messages)-2:] {
				got = append(got, m.Content)
			}
			return fakeproviders.Answer{Text: strings.Join(got, ", "), Pace: 10}
		}, Options{Tools: setOf(t, echoTool(t))})
		defer server.Close()
		begin := time.Now()
		var first time.Duration
		h, err := w.f.Process(t.Context(), message("weather?"), turn.WithSink(func(e turn.Event, _ error) {
			if e.Kind == turn.TextEvent && first == 0 {
				first = time.Since(begin)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(h.Output, "Let me see. ") || !strings.Contains(h.Output, "sunny in Rome") || !strings.Contains(h.Output, "rain in Paris") {
			t.Errorf("%q", h.Output)
		}
		if first > 200*time.Millisecond || time.Since(begin) < time.Second {
			t.Errorf("the first text came after %v, all of it after %v", first, time.Since(begin))
		}
		if h.Usage.TotalTokens == 0 || h.Usage.Model != "openai:m" {
			t.Errorf("%+v", h.Usage)
		}
	})
}

// AG-03: the server's own words for a context that is full.
func TestAFullContextOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := serve(t, func(r fakeproviders.Request) fakeproviders.Answer {
			if len(r.Messages) > 5 {
				return fakeproviders.Answer{Status: 400, Body: `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`}
			}
			return fakeproviders.Answer{Text: "fine"}
		}, Options{})
		defer server.Close()
		for range 4 {
			w.say("hello")
		}
		anchors := 0
		for _, l := range w.lines() {
			if strings.HasPrefix(l, "anchor auto_handoff") {
				anchors++
			}
		}
		if anchors != 1 {
			t.Errorf("%d automatic handoffs: %q", anchors, w.lines())
		}
	})
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

// AG-27: an error of a server before anything came lets the next model answer, and its words reach nobody.
func TestAServerThatFailsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Status: http.StatusUnauthorized, Body: `{"error":{"message":"CANARY"}}`}
		}}
		good := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "fine"} }}
		defer bad.Close()
		defer good.Close()
		r := &adapter.Registry{}
		for name, s := range map[string]*fakeproviders.Server{"bad": bad, "good": good} {
			p, err := openai.New(openai.Options{Prefix: name, BaseURL: "http://upstream/v1", Key: "key", Transport: s.Transport()})
			if err != nil {
				t.Fatal(err)
			}
			r.Register(name, p)
		}
		w := newWorld(t, nil, Options{Models: r, Model: "bad:m", Fallback: []string{"good:m"}})
		if h := w.say("hi"); h.Output != "fine" || h.Usage.Model != "good:m" {
			t.Errorf("%q %+v", h.Output, h.Usage)
		}
		if got := strings.Join(w.lines(), "\n"); strings.Contains(got, "CANARY") {
			t.Error(got)
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
	w.f.Bind(c)
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

package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/run/hooks"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
)

// askFor starts what a client of another server asks for, and waits for its end.
func (b *bench) askFor(a run.Request) document {
	b.t.Helper()
	of, p := b.tryAsk(a)
	if p != nil {
		b.t.Fatalf("%+v", p)
	}
	<-of.Done()
	var d document
	if err := json.Unmarshal(appendDocument(nil, of, false), &d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *bench) tryAsk(a run.Request) (*run.Run, *wire.Problem) {
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "/", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r = r.WithContext(access.With(r.Context(), access.Local))
	of, _, p := b.s.wire.Start(httptest.NewRecorder(), r, &a)
	return of, p
}

// quoted is a text as an input.
func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text)
	return raw
}

// talk is what was said before, two turns of it.
var talk = []run.Said{{Role: adapter.User, Text: "first"}, {Role: adapter.Assistant, Text: "1st"}, {Role: adapter.User, Text: "second"}, {Role: adapter.Assistant, Text: "2nd"}}

// roles are who has said what in a request, without the system prompt.
func roles(req adapter.Request) (list []string) {
	for _, m := range req.Messages {
		if m.Role != adapter.System {
			list = append(list, m.Role+": "+m.Content)
		}
	}
	return list
}

func TestANewSessionBeginsWithWhatWasSaidBefore(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	d := a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: quoted("third"), History: talk})
	if d.Status != run.StatusCompleted {
		t.Fatalf("%+v", d)
	}
	want := []string{"user: first", "assistant: 1st", "user: second", "assistant: 2nd", "user: third"}
	has := func(got []string) bool { // the anchor that a tape begins with is shown to the model, too
		return len(got) >= len(want) && cmp.Equal(want, got[len(got)-len(want):])
	}
	if got := roles(a.talk.requests()[0]); !has(got) {
		t.Errorf("%q", got)
	}
	for _, line := range []string{`message {"role":"user","content":"first"}`, `message {"role":"assistant","content":"2nd"}`} {
		if n := strings.Count(a.tapeOf("s"), line); n != 1 {
			t.Errorf("%d times %s on %s", n, line, a.tapeOf("s"))
		}
	}
	if got := get[session](a.bench, sessionPath("s")).Title; got != "first" {
		t.Errorf("the session is called %q", got)
	}
	t.Run("one that has a tape does not look at it", func(t *testing.T) {
		said := []run.Said{{Role: adapter.User, Text: "something else"}}
		a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: quoted("fourth"), History: said})
		if strings.Contains(a.tapeOf("s"), "something else") {
			t.Error(a.tapeOf("s"))
		}
	})
	t.Run("one without a name has one of its own, where the conversation can go on", func(t *testing.T) {
		d := a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Input: quoted("third"), History: talk})
		a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Session: d.Session, Input: quoted("fourth"), History: talk})
		requests := a.talk.requests()
		want := append(slices.Clone(want), "assistant: "+unquote(t, d.Result), "user: fourth")
		got := roles(requests[len(requests)-1])
		if d := cmp.Diff(want, got[len(got)-len(want):]); d != "" {
			t.Error(d)
		}
	})
}

func unquote(t testing.TB, raw json.RawMessage) (text string) {
	t.Helper()
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestManyThatBeginASessionAtOnceWriteItsHistoryOnce(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			run, p := a.tryAsk(run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: quoted(strconv.Itoa(i)), History: talk})
			if p != nil {
				t.Errorf("%+v", p)
				return
			}
			<-run.Done()
		})
	}
	wg.Wait()
	if n := strings.Count(a.tapeOf("s"), `"content":"1st"`); n != 1 {
		t.Errorf("%d times", n)
	}
}

// overtaken is a store in which somebody else begins a session in the moment before its history is written.
type overtaken struct{ tape.Store }

func (o overtaken) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if b.IfLast != 0 && b.Entries[0].Kind == tape.KindMessage {
		if _, err := o.Store.Append(ctx, name, tape.Batch{Entries: []tape.Entry{tape.NewMessage(adapter.User, "from elsewhere")}}); err != nil {
			return 0, err
		}
	}
	return o.Store.Append(ctx, name, b)
}

func TestASessionThatAnotherServerHasBegunMeanwhileTakesNoHistory(t *testing.T) {
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		ao.Store = overtaken{ao.Store}
		o.Tapes = ao.Store
	})
	a.serve()
	d := a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: quoted("third"), History: talk})
	if got := a.tapeOf("s"); d.Status != run.StatusCompleted || strings.Contains(got, "1st") || !strings.Contains(got, "from elsewhere") {
		t.Errorf("%+v\n%s", d, got)
	}
}

func TestWhatACallerInstructsStandsBehindTheAgentsOwnWordsAndIsMarked(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Input: quoted("hello"), Instructions: "Rhyme."})
	a.askFor(run.Request{Subject: run.Subject{Agent: "assistant"}, Input: quoted("hello")})
	requests := a.talk.requests()
	with, without := requests[0].Messages[0], requests[1].Messages[0]
	if with.Role != adapter.System || with.Content != without.Content+"\n\n"+hooks.Instructed("Rhyme.") {
		t.Errorf("%q and without them %q", with.Content, without.Content)
	}
	if !strings.HasSuffix(hooks.Instructed("Rhyme."), "\n\nRhyme.") || len(hooks.Instructed("Rhyme.")) < 50 {
		t.Errorf("%q", hooks.Instructed("Rhyme."))
	}
}

func TestAWorkflowKnowsWhatWasSaidBefore(t *testing.T) {
	a := newAgentBench(t, nil)
	asked := make(chan adapter.Request, 1)
	a.model.say = func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		asked <- req
		yield(`{"answer":1}`)
		return nil
	}
	a.serve()
	for _, session := range []string{"", "s"} {
		d := a.askFor(run.Request{Subject: run.Subject{Workflow: "chat"}, Session: session, Input: quoted("third"), Model: "test:story", History: talk, Instructions: "Rhyme."})
		if d.Status != run.StatusCompleted {
			t.Fatalf("%+v", d)
		}
		req := <-asked
		got := roles(req)
		want := []string{"user: first", "assistant: 1st", "user: second", "assistant: 2nd", "user: third"}
		if len(got) < len(want) || !cmp.Equal(want, got[len(got)-len(want):]) {
			t.Errorf("in session %q: %q", session, got)
		}
		for _, m := range req.Messages {
			if strings.Contains(m.Content, "Rhyme.") {
				t.Errorf("a workflow is told what a caller instructs: %q", m.Content)
			}
		}
	}
	if !strings.Contains(a.tapeOf("s"), "1st") {
		t.Error(a.tapeOf("s"))
	}
}

func TestWhatWasSaidBeforeIsBounded(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for _, c := range []struct {
		name string
		ask  run.Request
		says string
	}{
		{"instructions", run.Request{Instructions: strings.Repeat("x", run.MaxInstructions+1)}, "instructions of at most"},
		{"messages", run.Request{History: slices.Repeat(talk, run.MaxHistory/len(talk)+1)}, "at most 1000 earlier messages"},
		{"bytes", run.Request{History: []run.Said{{Role: adapter.User, Text: strings.Repeat("x", run.MaxHistoryBytes+1)}}}, "earlier messages of at most"},
		{"a role", run.Request{History: []run.Said{{Role: adapter.ToolRole, Text: "x"}}}, `found "tool"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, to := range []run.Subject{{Agent: "assistant"}, {Workflow: "chat"}} {
				as := c.ask
				as.Subject, as.Input = to, quoted("x")
				if _, p := a.tryAsk(as); p == nil || p.Code != wire.CodeInvalid || !strings.Contains(p.Detail, c.says) {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

func TestWhatWasSaidBeforeIsAPartOfTheRequestThatAKeyStandsFor(t *testing.T) {
	one := run.Request{Subject: run.Subject{Agent: "assistant"}, Input: quoted("x")}
	other, third := one, one
	other.History, third.Instructions = talk, "Rhyme."
	if one.Hash() == other.Hash() || one.Hash() == third.Hash() || other.Hash() == third.Hash() {
		t.Error("requests that differ have one hash")
	}
}

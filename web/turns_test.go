package web

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

// watcher keeps what the kernel tells.
type watcher struct {
	mu   sync.Mutex
	told []channel.Trace
}

func (w *watcher) Observe(_ context.Context, t channel.Trace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, t)
}

// ends are the last words on each turn that has ended.
func (w *watcher) ends() (list []channel.Trace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.told {
		if t.Stage == channel.StageFinalize && t.Phase == channel.PhaseDone {
			list = append(list, t)
		}
	}
	return list
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told)
}

// came waits until so many turns have ended, and returns what each came to, in order of their ends.
func (w *watcher) came(t testing.TB, n int) (list []string) {
	t.Helper()
	eventually(t, "the turns end", func() bool { return len(w.ends()) >= n })
	for _, e := range w.ends() {
		what := string(e.Outcome)
		if e.Admission.Reason != "" {
			what += " " + string(e.Admission.Reason)
		}
		list = append(list, what)
	}
	return list
}

// watchedBench is a server with an agent whose kernel is watched, and has these settings.
func watchedBench(t testing.TB, place channel.Place, edit func(*Options, *agent.Options)) (*agentBench, *watcher, *channel.Tree) {
	t.Helper()
	w := &watcher{}
	tree, err := channel.NewTree(settingsOf(place))
	if err != nil {
		t.Fatal(err)
	}
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		o.Kernel = &channel.Kernel{Settings: tree, Observer: channel.Observers{w, channel.NewSlogObserver(o.Log)}, Log: o.Log}
		o.Workflows.Register(flow.Func("echo", "", question, func(_ context.Context, m *ling.Manager, input map[string]any) error {
			if err := m.SendEvent("noted", input); err != nil {
				return err
			}
			quoted, err := json.Marshal(input["question"])
			if err == nil {
				_, err = m.Tube().Send(tube.Event{Kind: tube.Set, URI: []byte("said"), Value: quoted})
			}
			return err
		}))
		if edit != nil {
			edit(o, ao)
		}
	})
	a.serve()
	return a, w, tree
}

func settingsOf(place channel.Place) channel.Configuration {
	return channel.Configuration{Channels: map[string]channel.ChannelPlace{
		webchannel.Name: {AccountPlace: channel.AccountPlace{Place: place}, Shipped: webchannel.Shipped()},
	}}
}

// CH-06, CH-150
func TestARunIsATurnOfTheKernelIfItHasASession(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, nil)
	if d := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"echo","input":"x"}`)); d.Status != run.StatusCompleted || w.count() != 0 {
		t.Errorf("%+v, and %d traces of a run without a session", d, w.count())
	}
	for i, body := range []string{
		`{"workflow":"echo","session":"s","input":",x"}`, `{"agent":"assistant","session":"s","input":"x"}`, `{"agent":"assistant","input":"x"}`,
	} {
		d := readDocument(t, a.do("POST", "/v1/runs", body))
		w.came(t, i+1)
		if end := w.ends()[i]; d.Status != run.StatusCompleted || end.TurnID != d.Run || end.SessionKey != d.Session || d.Session == "" || end.Channel != "web" ||
			end.MessageID != d.Run || end.Sender != webchannel.Local || end.Outcome != channel.OutcomeVisible {
			t.Errorf("%s: %+v %+v", body, d, end)
		}
	}
}

// CH-14, CH-101, CH-105, CH-152, CH-193: package channel/web knows who may talk.
func TestWhoMayNotTalkIsRefusedWithoutARun(t *testing.T) {
	a, w, tree := watchedBench(t, channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"canary"}}, nil)
	resp := a.say("hello", "", "Idempotency-Key: k")
	if p := readProblem(t, resp); p.Status != http.StatusForbidden || p.Code != wire.CodeForbidden || p.Run != "" || resp.Header.Get("X-Run-Id") != "" || strings.Contains(p.Detail, "canary") {
		t.Errorf("%+v %v", p, resp.Header)
	}
	if got := w.came(t, 1); !cmp.Equal(got, []string{"blocked " + string(channel.ReasonDMNotAllowed)}) {
		t.Errorf("%q", got)
	}
	if n := len(get[sessionList](a.bench, "/v1/sessions").Sessions); n != 0 || len(a.talk.requests()) != 0 || a.s.runs.Load().Running != 0 {
		t.Errorf("%d sessions, %d requests", n, len(a.talk.requests()))
	}
	// When the configuration lets them, they can come again, with the same key, too.
	if err := tree.Set(settingsOf(channel.Place{})); err != nil {
		t.Fatal(err)
	}
	resp = a.say("hello", "", "Idempotency-Key: k")
	if d := readDocument(t, resp); d.Status != run.StatusCompleted || resp.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%+v", d)
	}
	if end := w.came(t, 2); end[1] != "visible" || w.ends()[1].MessageID != "k" {
		t.Errorf("%q", end)
	}
}

func TestTheConfigurationSaysWhatIsToldToTheModelAndWhatABusySessionDoes(t *testing.T) {
	canary := "answer in rhymes"
	a, _, _ := watchedBench(t, channel.Place{SystemPrompt: &canary, OnBusy: "reject"}, nil)
	resp := a.say("wait", "", asEvents)
	<-a.talk.waits
	if p := readProblem(t, a.say("next", "")); p.Status != http.StatusConflict {
		t.Errorf("%+v", p)
	}
	queued := a.say("next", `,"on_busy":"queue"`, asEvents) // who asks knows better
	a.talk.goOn <- struct{}{}
	for _, r := range []*http.Response{resp, queued} {
		if f, _ := named(t, r); f.terminal != `finished{"status":"completed"}` {
			t.Error(f.terminal)
		}
	}
	if system := a.talk.requests()[0].Messages[0].Content; !strings.Contains(system, canary) {
		t.Errorf("%q", system)
	}
	// A workflow cannot be steered, whatever the configuration says.
	a, _, _ = watchedBench(t, channel.Place{OnBusy: "steer"}, nil)
	resp = a.say("wait", "", asEvents)
	<-a.talk.waits
	flow := a.do("POST", "/v1/runs", `{"workflow":"echo","session":"s","input":"x"}`, asEvents)
	steered := a.say("and this", "", asEvents)
	if flow.Header.Get("X-Run-Id") == resp.Header.Get("X-Run-Id") || steered.Header.Get("X-Run-Id") != resp.Header.Get("X-Run-Id") {
		t.Errorf("%v %v", flow.Header, steered.Header)
	}
	a.talk.goOn <- struct{}{}
	named(t, flow)
}

// CH-14, CH-152: such a turn is blocked for the kernel, is not on the tape, and its key leads nowhere.
func TestATurnThatCannotBeginIsAProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		queue  int
		ready  func(*agentBench)
		more   string
		want   wire.Problem
		came   string
		reason string // in the log
	}{
		"the session is busy":    {0, func(*agentBench) {}, `,"on_busy":"reject"`, wire.Problem{Status: 409, Code: wire.CodeConflict}, "blocked session_busy", wire.CodeConflict},
		"too much waits":         {1, func(a *agentBench) { a.say("next", "", asEvents) }, "", wire.Problem{Status: 503, Code: wire.CodeOverloaded}, "blocked overloaded", run.LimitQueue},
		"the server is draining": {0, func(a *agentBench) { a.s.runs.Inspect().Refuse() }, "", wire.Problem{Status: 503, Code: wire.CodeDraining}, "blocked draining", wire.CodeDraining},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) {
				o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Queue: tt.queue})
			})
			a.say("wait", "", asEvents)
			<-a.talk.waits
			tt.ready(a)
			tape := a.tapeOf("s")
			for range 2 {
				resp := a.say("refused", tt.more, "Idempotency-Key: k")
				p := readProblem(t, resp)
				if p.Status != tt.want.Status || p.Code != tt.want.Code || (resp.Header.Get("Retry-After") != "") != (p.Status == 503) || resp.Header.Get("Idempotency-Replayed") != "" {
					t.Errorf("%+v %v", p, resp.Header)
				}
			}
			if got := w.came(t, 1); got[0] != tt.came {
				t.Errorf("%q", got)
			}
			a.lineOf("reason=" + tt.reason)
			if a.tapeOf("s") != tape {
				t.Error("it is on the tape")
			}
		})
	}
}

// begin starts what is asked for with an admission that is decided already.
func (a *agentBench) begin(as *run.Request, admission channel.Admission) *run.Run {
	a.t.Helper()
	r, err := a.s.runs.Inspect().Start(as, "", admission)
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// CH-40, CH-42, CH-44, CH-152, RU-30
func TestAnObservedRunShowsNothingButItsBeginningAndEnd(t *testing.T) {
	observe := channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	asking := func(text string) run.Request {
		return run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: quoted(text), Done: true}
	}
	for name, tt := range map[string]struct {
		ask  run.Request
		tape string // has it
		came string
	}{
		"tools":              {asking("use weather"), `clear <here>`, "observed observer"},
		"a tool that fails":  {asking("use broken"), `out of order`, "observed observer"},
		"a question":         {asking("use danger"), `denied`, "observed observer"},
		"a model that fails": {asking("fail"), `upstream_auth`, "failed observer"},
		"a command":          {asking(",tools"), ``, "observed observer"},
		"a workflow":         {run.Request{Subject: run.Subject{Workflow: "echo"}, Session: "s", Input: quoted("hello")}, `"said":"hello"`, "observed observer"},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, nil)
			r := a.begin(&tt.ask, observe)
			f, data := named(t, a.do("GET", "/v1/runs/"+r.ID+"/events", "", asEvents))
			if len(data) != 2 || f.json() != "{}" || f.terminal != `finished{"status":"completed"}` {
				t.Errorf("%v %s %s", data, f.json(), f.terminal)
			}
			d := readDocument(t, a.do("GET", "/v1/runs/"+r.ID+"?include=reserved", ""))
			if d.Status != run.StatusCompleted || string(d.Result) != "{}" || string(d.Reserved) != "{}" || len(d.Usage)+len(d.Models)+len(d.Errors) != 0 {
				t.Errorf("%+v", d)
			}
			if got := w.came(t, 1); got[0] != tt.came {
				t.Errorf("%q", got)
			}
			if tt.tape != "" && !strings.Contains(strings.ReplaceAll(a.tapeOf("s"), `\"`, `"`), tt.tape) {
				t.Errorf("not on the tape: %s\n%s", tt.tape, a.tapeOf("s"))
			}
		})
	}
	t.Run("beside one that is seen", func(t *testing.T) {
		a, w, _ := watchedBench(t, channel.Place{}, nil)
		seen := a.say("wait", "", asEvents)
		<-a.talk.waits
		unseen := asking("wait")
		unseen.OnBusy = string(turn.Interrupt)
		a.begin(&unseen, observe)
		a.talk.goOn <- struct{}{}
		if f, _ := named(t, seen); f.terminal != `finished{"status":"completed"}` || f.json() != `"…"` {
			t.Errorf("%s %s", f.terminal, f.json())
		}
		// Who steers a turn that nobody sees is answered all the same.
		<-a.talk.waits
		steered := a.say("and this", steered, asEvents)
		a.talk.goOn <- struct{}{}
		if f, _ := named(t, steered); !strings.HasSuffix(f.json(), `: and this"`) {
			t.Errorf("%s %s", f.terminal, f.json())
		}
		got := w.came(t, 3)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"observed observer", "visible", "visible"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		a, w, _ := watchedBench(t, channel.Place{}, nil)
		ask := asking("wait")
		r := a.begin(&ask, observe)
		<-a.talk.waits
		a.do("POST", "/v1/runs/"+r.ID+"/cancel", "")
		f, data := named(t, a.do("GET", "/v1/runs/"+r.ID+"/events", "", asEvents))
		if f.terminal != `canceled{"reason":"canceled by request"}` || f.json() != "{}" || len(data) != 2 {
			t.Errorf("%s %s %v", f.terminal, f.json(), data)
		}
		if got := w.came(t, 1); got[0] != "canceled observer" {
			t.Errorf("%q", got)
		}
	})
}

// CH-61: nothing is shown to somebody who may no longer talk when the turn gets its run.
func TestWhoMayTalkIsAskedAgainWhenTheSettingsChange(t *testing.T) {
	var tree *channel.Tree
	a, _, tr := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) {
		o.Kernel.Observer = atDispatch(func() { _ = tree.Set(settingsOf(channel.Place{DMPolicy: channel.PolicyDisabled})) })
	})
	tree = tr
	if d := readDocument(t, a.say("hello", "")); d.Status != run.StatusCompleted || string(d.Result) != "{}" {
		t.Errorf("%+v %s", d, d.Result)
	}
	if p := readProblem(t, a.say("hello", "")); p.Status != http.StatusForbidden {
		t.Errorf("%+v", p)
	}
}

// atDispatch does something when a turn was let in.
type atDispatch func()

func (f atDispatch) Observe(_ context.Context, t channel.Trace) {
	if t.Stage == channel.StageDispatch && t.Phase == channel.PhaseStart {
		f()
	}
}

// CH-72, CH-191
func TestCopiesOfARequestAreOneTurn(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, nil)
	const n = 100
	ids := make(chan string, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			resp := a.say("hello", "", "Prefer: respond-async", "Idempotency-Key: k")
			ids <- resp.Header.Get("X-Run-Id")
		})
	}
	wg.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first || id == "" {
			t.Errorf("%q is not %q", id, first)
		}
	}
	<-a.runOf(first).Done()
	resp := a.say("hello", "", "Idempotency-Key: k")
	if d := readDocument(t, resp); d.Run != first || resp.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", d)
	}
	if got := w.came(t, 1); len(got) != 1 || got[0] != "visible" || w.ends()[0].TurnID != first || len(a.talk.requests()) != 1 {
		t.Errorf("%q, %d requests", got, len(a.talk.requests()))
	}
}

// CH-130, CH-191
func TestEachTurnIsFinalizedOnceWithItsOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(a *agentBench, resp *http.Response) // nil: it is answered
		want []string
	}{
		"answered": {nil, []string{"visible"}},
		"canceled": {func(a *agentBench, resp *http.Response) { a.do("POST", resp.Header.Get("Location")+"/cancel", "") }, []string{"partial"}},
		// CH-04, CH-152: the turn lives on the run's context, and a run goes on when its client has gone.
		"left": {func(a *agentBench, resp *http.Response) {
			resp.Body.Close()
			a.talk.goOn <- struct{}{}
		}, []string{"visible"}},
		"interrupted": {func(a *agentBench, _ *http.Response) { readDocument(a.t, a.say("next", `,"on_busy":"interrupt"`)) }, []string{"partial", "visible"}},
		"steered": {func(a *agentBench, _ *http.Response) {
			a.say("also this", steered, "Prefer: respond-async")
			a.talk.goOn <- struct{}{}
		}, []string{"deferred", "visible"}},
		"steered too late": {func(a *agentBench, resp *http.Response) {
			a.say("late", steered, "Prefer: respond-async")
			a.do("POST", resp.Header.Get("Location")+"/cancel", "")
		}, []string{"partial", "visible"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, nil)
			if tt.then == nil {
				readDocument(t, a.say("hello", ""))
			} else {
				resp := a.say("wait", "", asEvents)
				<-a.talk.waits
				tt.then(a, resp)
			}
			got := w.came(t, len(tt.want))
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// CH-130, CH-191
func TestTheServersEndWaitsForItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watcher{}
		a := newAgentBench(t, func(o *Options, _ *agent.Options) {
			o.Kernel = webchannel.NewKernel(o.Log)
			o.Kernel.Observer = w
		})
		a.servePipes()
		defer a.down()
		a.say("wait", "", "Prefer: respond-async")
		<-a.talk.waits
		a.say("steered", `,"on_busy":"steer"`, "Prefer: respond-async")
		a.say("next", "", "Prefer: respond-async")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.s.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.came(t, 3); len(got) != 3 {
			t.Errorf("%q", got)
		}
	})
}

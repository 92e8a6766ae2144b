package web

import (
	"context"
	"encoding/json"
	"maps"
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
	if d := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"echo","input":"x"}`)); d.Status != run.StatusCompleted || string(d.Result) != `{"said":"x"}` {
		t.Errorf("%+v %s", d, d.Result)
	}
	if n := w.count(); n != 0 {
		t.Errorf("a run without a session has come to the kernel: %d", n)
	}
	for i, body := range []string{
		`{"workflow":"echo","session":"s","input":",x"}`,
		`{"agent":"assistant","session":"s","input":"x"}`,
		`{"agent":"assistant","input":"x"}`,
	} {
		d := readDocument(t, a.do("POST", "/v1/runs", body))
		if d.Status != run.StatusCompleted {
			t.Errorf("%s: %+v", body, d)
		}
		w.came(t, i+1)
		if end := w.ends()[i]; end.TurnID != d.Run || end.SessionKey != d.Session || end.Channel != "web" || end.MessageID != d.Run ||
			end.Sender != webchannel.Local || end.Outcome != channel.OutcomeVisible {
			t.Errorf("%s: %+v", body, end)
		}
	}
}

// CH-14, CH-101, CH-105, CH-152, CH-193
func TestWhoMayNotTalkIsRefusedWithoutARun(t *testing.T) {
	for name, tt := range map[string]struct {
		place  channel.Place
		text   string
		reason channel.Reason
	}{
		"nobody may":       {channel.Place{DMPolicy: channel.PolicyDisabled}, "hello", channel.ReasonDMDisabled},
		"others may":       {channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"canary"}}, "hello", channel.ReasonDMNotAllowed},
		"only others here": {channel.Place{DMAllowFrom: []string{"canary"}}, "hello", channel.ReasonDMNotAllowed},
		"no commands":      {channel.Place{CommandMode: channel.CommandsAuthorizers, Users: []string{"canary"}}, ",help", channel.ReasonCommandNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, tree := watchedBench(t, tt.place, nil)
			resp := a.say(tt.text, "", "Idempotency-Key: k")
			body := text(t, resp)
			if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("X-Run-Id") != "" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
			var p wire.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || p.Code != wire.CodeForbidden || p.Run != "" {
				t.Errorf("%s %v", body, err)
			}
			for _, secret := range []string{"canary", "channels.", "dm.", "commands.", "policy", "allow", "setting"} {
				if strings.Contains(body, secret) {
					t.Errorf("%s has %q", body, secret)
				}
			}
			if got := w.came(t, 1); !cmp.Equal(got, []string{"blocked " + string(tt.reason)}) {
				t.Errorf("%q", got)
			}
			if n := len(get[sessionList](a.bench, "/v1/sessions").Sessions); n != 0 || len(a.talk.requests()) != 0 || a.s.runs.Load().Running != 0 {
				t.Errorf("%d sessions, %d requests", n, len(a.talk.requests()))
			}
			// When the configuration lets them, they can come again, with the same key, too.
			if err := tree.Set(settingsOf(channel.Place{})); err != nil {
				t.Fatal(err)
			}
			resp = a.say(tt.text, "", "Idempotency-Key: k")
			if d := readDocument(t, resp); d.Status != run.StatusCompleted || resp.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%+v", d)
			}
			if end := w.came(t, 2); end[1] != "visible" || w.ends()[1].MessageID != "k" {
				t.Errorf("%q", end)
			}
		})
	}
}

// CH-105
func TestTheRoleOfACommandComesFromTheConfiguration(t *testing.T) {
	a, _, _ := watchedBench(t, channel.Place{Admins: []string{webchannel.Local}}, nil)
	asAdmin := string(readDocument(t, a.say(",forget", "")).Result)
	a, _, _ = watchedBench(t, channel.Place{}, nil)
	if asUser := string(readDocument(t, a.say(",forget", "")).Result); asUser == asAdmin {
		t.Errorf("both are answered %s", asUser)
	}
	// CH-140
	if d := readDocument(t, a.say("one\r\ntwo\x1b", "")); !strings.HasSuffix(string(d.Result), `: one\ntwo"`) {
		t.Errorf("%s", d.Result)
	}
	a, _, _ = watchedBench(t, channel.Place{CommandMode: channel.CommandsOff}, nil)
	if d := readDocument(t, a.say(",forget", "")); string(d.Result) != `"3: ,forget"` {
		t.Errorf("%s, expected it to be a text", d.Result)
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
	if p := readProblem(t, a.do("POST", "/v1/runs", `{"workflow":"echo","session":"s","input":"x"}`)); p.Status != http.StatusConflict {
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
	for _, r := range []*http.Response{resp, flow, steered} {
		if f, _ := named(t, r); f.terminal != `finished{"status":"completed"}` {
			t.Error(f.terminal)
		}
	}
}

// CH-14, CH-152
func TestATurnThatCannotBeginIsAProblem(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		edit   func(*Options, *agent.Options)
		ready  func(*agentBench)
		more   string
		want   wire.Problem
		came   string
		repeat bool // Retry-After
		reason string
	}{
		"the session is busy": {
			ready: func(a *agentBench) {
				a.say("wait", "", asEvents)
				<-a.talk.waits
			},
			more: `,"on_busy":"reject"`, want: wire.Problem{Status: 409, Code: wire.CodeConflict}, came: "blocked session_busy",
		},
		"too much waits": {
			edit: func(o *Options, _ *agent.Options) {
				o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Queue: 1})
			},
			ready: func(a *agentBench) {
				a.say("wait", "", asEvents)
				<-a.talk.waits
				a.say("next", "", asEvents)
			},
			want: wire.Problem{Status: 503, Code: wire.CodeOverloaded}, came: "blocked overloaded", repeat: true, reason: run.LimitQueue,
		},
		"too many runs": {
			edit: func(o *Options, _ *agent.Options) { o.MaxRuns = -1 },
			want: wire.Problem{Status: 503, Code: wire.CodeOverloaded}, came: "blocked overloaded", repeat: true, reason: run.LimitAllRuns,
		},
		"the turns are draining": {
			ready: func(a *agentBench) { _ = a.s.o.Turns.Drain(ended) },
			want:  wire.Problem{Status: 503, Code: wire.CodeDraining}, came: "blocked draining", repeat: true,
		},
		"the server is draining": {
			ready: func(a *agentBench) { a.s.runs.Inspect().Refuse() },
			want:  wire.Problem{Status: 503, Code: wire.CodeDraining}, came: "blocked draining", repeat: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, tt.edit)
			if tt.ready != nil {
				tt.ready(a)
			}
			tape := ""
			if tt.want.Code != wire.CodeDraining && tt.edit == nil {
				tape = a.tapeOf("s")
			}
			resp := a.say("refused", tt.more, "Idempotency-Key: k")
			p := readProblem(t, resp)
			if p.Status != tt.want.Status || p.Code != tt.want.Code || (resp.Header.Get("Retry-After") != "") != tt.repeat {
				t.Errorf("%+v %v", p, resp.Header)
			}
			if got := w.came(t, 1); got[0] != tt.came {
				t.Errorf("%q", got)
			}
			if tt.reason != "" {
				a.lineOf("reason=" + tt.reason)
			}
			if tape != "" && a.tapeOf("s") != tape {
				t.Error("it is on the tape")
			}
			if again := a.say("refused", tt.more, "Idempotency-Key: k"); again.StatusCode != p.Status || again.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("the key leads somewhere: %d %v", again.StatusCode, again.Header)
			}
		})
	}
}

// begin starts what is asked for with an admission that is decided already.
func (a *agentBench) begin(as *run.Request, admission channel.Admission) (*run.Run, *wire.Problem) {
	a.t.Helper()
	r, err := a.s.runs.Inspect().Start(as, "", admission)
	if err != nil {
		return nil, a.s.wire.Problem(a.t.Context(), err)
	}
	return r, nil
}

// CH-13, CH-14
func TestNobodyWhoAnswersIsNotFound(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, nil)
	for reason, want := range map[channel.Reason]int{
		channel.ReasonNoRoute: http.StatusNotFound, channel.ReasonTooLarge: http.StatusRequestEntityTooLarge, channel.ReasonUnsupported: http.StatusBadRequest,
	} {
		r, p := a.begin(&run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: json.RawMessage(`"x"`)}, channel.Admission{Kind: channel.Drop, Reason: reason})
		if r != nil || p == nil || p.Status != want || wire.Statuses[p.Code] != want {
			t.Errorf("%s: %+v", reason, p)
		}
	}
	w.came(t, 3)
	if len(a.talk.requests()) != 0 {
		t.Error("somebody was asked")
	}
}

// CH-40, CH-42, CH-44, CH-152, RU-30
func TestAnObservedRunShowsNothingButItsBeginningAndEnd(t *testing.T) {
	observe := channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	for name, tt := range map[string]struct {
		ask  run.Request
		tape string // has it
		came string
	}{
		"an agent":               {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"hello"`)}, `"content":"3: hello"`, "observed observer"},
		"tools of it":            {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"use weather"`), Done: true}, `clear <here>`, "observed observer"},
		"a tool that fails":      {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"use broken"`)}, `out of order`, "observed observer"},
		"a question":             {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"use danger"`)}, `denied`, "observed observer"},
		"a model that fails":     {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"fail"`)}, `upstream_auth`, "failed observer"},
		"a command":              {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`",tools"`)}, ``, "observed observer"},
		"a command aside":        {run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`",help"`)}, ``, "observed observer"},
		"a workflow, and events": {run.Request{Subject: run.Subject{Workflow: "echo"}, Input: json.RawMessage(`"hello"`)}, `"said":"hello"`, "observed observer"},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, nil)
			as := tt.ask
			as.Session = "s"
			r, p := a.begin(&as, observe)
			if p != nil {
				t.Fatal(p)
			}
			resp := a.do("GET", "/v1/runs/"+r.ID+"/events", "", asEvents)
			f, data := named(t, resp)
			if got := slices.Sorted(maps.Keys(data)); !cmp.Equal(got, []string{"finished", "started"}) || f.json() != "{}" || f.terminal != `finished{"status":"completed"}` {
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
		for _, policy := range []turn.Policy{turn.Steer, turn.Interrupt} {
			r, p := a.begin(&run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: json.RawMessage(`"wait"`), OnBusy: string(policy)}, observe)
			if p != nil || r == nil {
				t.Fatal(p)
			}
		}
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
		<-a.talk.waits
		a.talk.goOn <- struct{}{}
		got := w.came(t, 4)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"observed observer", "observed observer", "visible", "visible"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		a, w, _ := watchedBench(t, channel.Place{}, nil)
		r, p := a.begin(&run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: json.RawMessage(`"wait"`)}, observe)
		if p != nil {
			t.Fatal(p)
		}
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
		do   func(*testing.T, *agentBench)
		want []string
	}{
		"answered": {func(t *testing.T, a *agentBench) { readDocument(t, a.say("hello", "")) }, []string{"visible"}},
		"failed":   {func(t *testing.T, a *agentBench) { named(t, a.say("fail", "", asEvents)) }, []string{"partial"}},
		"canceled": {func(t *testing.T, a *agentBench) {
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			a.do("POST", resp.Header.Get("Location")+"/cancel", "")
			named(t, resp)
		}, []string{"partial"}},
		"left": {func(t *testing.T, a *agentBench) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-a.talk.waits
				cancel()
			}()
			// CH-04, CH-152: the turn lives on the run's context, and a run goes on when its client has gone.
			if resp, err := a.try(ctx, "POST", "/v1/runs", `{"agent":"assistant","session":"s","input":"wait"}`); err == nil {
				resp.Body.Close()
			}
			a.talk.goOn <- struct{}{}
		}, []string{"visible"}},
		"interrupted": {func(t *testing.T, a *agentBench) {
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			readDocument(t, a.say("next", `,"on_busy":"interrupt"`))
			named(t, resp)
		}, []string{"partial", "visible"}},
		"steered": {func(t *testing.T, a *agentBench) {
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			a.say("also this", `,"on_busy":"steer"`, "Prefer: respond-async")
			a.talk.goOn <- struct{}{}
			named(t, resp)
		}, []string{"deferred", "visible"}},
		"steered too late": {func(t *testing.T, a *agentBench) {
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			late := a.say("late", `,"on_busy":"steer"`, "Prefer: respond-async")
			a.do("POST", resp.Header.Get("Location")+"/cancel", "")
			named(t, resp)
			id := late.Header.Get("X-Follow-Up-Id")
			eventually(t, "the run that follows has ended", func() bool {
				r := a.do("GET", "/v1/runs/"+id, "")
				defer r.Body.Close()
				return r.StatusCode == 200
			})
		}, []string{"partial", "visible"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, w, _ := watchedBench(t, channel.Place{}, nil)
			tt.do(t, a)
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

// CH-14
func TestAServerThatIsClosedTakesNoMessage(t *testing.T) {
	a, _, _ := watchedBench(t, channel.Place{}, nil)
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	if p := readProblem(t, a.say("hello", "")); p.Status != 503 || p.Code != wire.CodeDraining {
		t.Errorf("%+v", p)
	}
}

// CH-151
func TestANameReachesNoSessionOfAnotherPrincipal(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, nil)
	say := func(principal string, as *run.Request) *run.Run {
		t.Helper()
		r, err := a.s.runs.Inspect().Start(as, principal, channel.Admission{})
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		return r
	}
	for i, who := range []string{"", "alice", "bob"} {
		r := say(who, &run.Request{Subject: run.Subject{Agent: "assistant"}, Session: "s", Input: json.RawMessage(`"hello"`)})
		// Each is the first who speaks in the session, which bears the name that they have given it.
		if o, document, _ := r.Result(); string(document) != `"3: hello"` || o.Session != "s" {
			t.Errorf("%q: %s %s", who, document, o.Session)
		}
		w.came(t, i+1)
	}
	say("alice", &run.Request{Subject: run.Subject{Workflow: "echo"}, Session: "s", Input: json.RawMessage(`"hello"`)})
	var ids []string
	for _, s := range get[sessionList](a.bench, "/v1/sessions").Sessions {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	if diff := cmp.Diff([]string{"s", "web:alice#s", "web:bob#s"}, ids); diff != "" {
		t.Error(diff)
	}
}

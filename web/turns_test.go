package web

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

// watcher keeps the last words of the kernel on each turn that has ended.
type watcher struct {
	mu   sync.Mutex
	list []channel.Trace
}

func (w *watcher) Observe(_ context.Context, t channel.Trace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Stage == channel.StageFinalize && t.Phase == channel.PhaseDone {
		w.list = append(w.list, t)
	}
}

func (w *watcher) ends() []channel.Trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
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
		o.Kernel = &kernel.Kernel{Settings: tree, Observer: channel.Observers{w, channel.NewSlogObserver(o.Log)}, Log: o.Log}
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
	return channel.Configuration{{Channel: webchannel.Name}: webchannel.Shipped(), {Level: channel.OfChannel, Channel: webchannel.Name}: &place}
}

// CH-06, CH-150
func TestARunIsATurnOfTheKernelIfItHasASession(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, nil)
	if d := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"echo","input":"x"}`)); d.Status != run.StatusCompleted || len(w.ends()) != 0 {
		t.Errorf("%+v, and %+v of a run without a session", d, w.ends())
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

func TestATurnThatHasNoPlaceInItsQueueIsAProblem(t *testing.T) {
	a, w, _ := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) {
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Queue: 1})
	})
	a.say("wait", "", asEvents)
	<-a.talk.waits
	a.say("next", "", asEvents)
	for range 2 { // its key leads nowhere
		turnedAway(t, a.say("refused", "", "Idempotency-Key: k"), 503, wire.CodeOverloaded, "")
	}
	if got := w.came(t, 1); got[0] != "blocked overloaded" {
		t.Errorf("%q", got)
	}
}

// atDispatch does something when a turn was let in.
type atDispatch func()

func (f atDispatch) Observe(_ context.Context, t channel.Trace) {
	if t.Stage == channel.StageDispatch && t.Phase == channel.PhaseStart {
		f()
	}
}

// A turn keeps the settings that let it in; the next message meets the new ones.
func TestSettingsThatChangeHoldForTheNextMessage(t *testing.T) {
	var tree *channel.Tree
	a, _, tr := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) {
		o.Kernel.Observer = atDispatch(func() { _ = tree.Set(settingsOf(channel.Place{DMPolicy: channel.PolicyDisabled})) })
	})
	tree = tr
	if d := readDocument(t, a.say("hello", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	if p := readProblem(t, a.say("hello", "")); p.Status != http.StatusForbidden {
		t.Errorf("%+v", p)
	}
}

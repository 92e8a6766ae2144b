package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/run"
	runlogs "github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
	oncetable "github.com/lingserve/lingserve/web/once/table"
	"github.com/lingserve/lingserve/web/wire"
)

// group is servers that share a database, as replicas do. Package run knows what they promise; here are the ways over HTTP.
type group struct {
	t         testing.TB
	database  *postgrestest.Server
	schema    string
	workspace string
	lose      atomic.Pointer[func(log string) bool]
}

func newGroup(t testing.TB) *group {
	return &group{t: t, database: postgrestest.Shared(t), schema: replicatest.Schema(), workspace: t.TempDir()}
}

// loseRuns has writes of runs fail without being stored, for the logs for which lose returns true, until whole is called.
func (g *group) loseRuns(lose func(log string) bool) (whole func()) {
	g.lose.Store(&lose)
	return func() { g.lose.Store(nil) }
}

// losingLogs are logs of runs whose writes a group loses.
type losingLogs struct {
	store.LogEngine
	g *group
}

type losingLog struct {
	store.Log
	g *group
}

func (l losingLogs) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	log, err := l.LogEngine.Log(ctx, o)
	return losingLog{log, l.g}, err
}

func (l losingLog) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if lose := l.g.lose.Load(); lose != nil && (*lose)(name) {
		return store.Info{}, store.ErrUnsure
	}
	return l.Log.Append(ctx, name, b)
}

// open connects a replica.
func (g *group) open() (*run.Shared, *db.Tapes) {
	g.t.Helper()
	t := g.t
	there := replicatest.Open(t, g.database.URL(), g.schema)
	tables := there.Engine
	requests, err := replicas.NewMux(there.Bus)
	if err != nil {
		t.Fatal(err)
	}
	asks := control.New(requests.Of(""), there.Members, nil)
	l, err := runlogs.Open(t.Context(), runlogs.Options{
		Logs: losingLogs{tables, g}, Tables: tables, Bus: requests.Of("run log"), Replica: there.Members.ID(), Keep: time.Hour,
		Tube: func() *tube.Options { return run.TubeOptions(0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := oncetable.Open(t.Context(), tables, oncetable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := there.Members.Leases("tape")
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := db.Open(t.Context(), g.database.URL()+"&search_path="+g.schema+"_sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	tapes := sessions.SharedTapes(leases, nil)
	t.Cleanup(func() { _, _, _, _ = asks.Close(), keys.Close(), sessions.Close(), l.Close() })
	return &run.Shared{
		Runs: l, Control: asks, Keys: keys,
		Replicas: func() (ids []string) {
			for _, r := range there.Members.Replicas() {
				ids = append(ids, r.ID)
			}
			return ids
		},
		Watch: func(gone func(string)) func() {
			return there.Members.Watch(func(c replicas.Change) {
				if c.What != replicas.Came {
					gone(c.Replica.ID)
				}
			})
		},
		Holder: func(ctx context.Context, tape string) (string, error) {
			replica, _, _, err := leases.Holder(ctx, tape)
			return replica, err
		},
	}, tapes
}

// replica starts a server of the group, with one agent.
func (g *group) replica() *agentBench {
	g.t.Helper()
	shared, tapes := g.open()
	a := newAgentBench(g.t, func(o *Options, ao *agent.Options) {
		o.Shared, o.Tapes, ao.Store = shared, tapes, tapes
		o.Workspace = g.workspace
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log})
	})
	a.serve()
	return a
}

// reader is a client that follows a run, on any replica, and comes back with the id of the last event that it has seen.
type reader struct {
	t testing.TB
	folded
	run string
}

// until reads from a replica until something is true of what the client has.
func (c *reader) until(b *agentBench, ok func() bool) {
	c.t.Helper()
	var header []string
	if c.last != "" {
		header = append(header, "Last-Event-ID: "+c.last)
	}
	resp := b.do("GET", "/v1/runs/"+c.run+"/events", "", append(header, asEvents)...)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%d: %s", resp.StatusCode, text(c.t, resp))
	}
	for e, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			break
		}
		if c.take(c.t, e); ok() {
			return
		}
	}
	c.t.Fatalf("the stream has ended at %s %s", c.json(), c.terminal)
}

func (c *reader) says(words string) func() bool {
	return func() bool { return strings.Contains(c.json(), words) }
}

func (c *reader) ended() bool { return c.terminal != "" }

// CL-04, CL-05, CL-08: a run is read on any replica, from wherever the client was, and has the same events with the same ids there; it is
// canceled from any, too.
func TestAnyReplicaServesAnyRun(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(), g.replica()
	id, st := a.startAsync()
	st.send("a", "one")
	here, there := &reader{t: t, run: id}, &reader{t: t, run: id}
	here.until(a, here.says("one"))
	there.until(b, there.says("one"))
	waits := make(chan document, 1)
	go func() { waits <- readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")) }()
	st.send("a", " two")
	here.until(b, here.says("two"))
	there.until(a, there.says("two"))
	if here.last != there.last {
		t.Errorf("the same event is %s and %s", here.last, there.last)
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning || string(d.Result) != `{"a":"one two"}` {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	if r := b.do("POST", "/v1/runs/"+id+"/cancel", ""); r.StatusCode != 202 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	<-st.ctx.Done()
	here.until(b, here.ended)
	there.until(a, there.ended)
	if here.terminal != `canceled{"reason":"canceled by request"}` || there.terminal != here.terminal || here.last != there.last {
		t.Errorf("%s %s, %s %s", here.last, here.terminal, there.last, there.terminal)
	}
	if d := <-waits; d.Status != run.StatusCanceled || string(d.Result) != `{"a":"one two"}` {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	// Who has everything is told so, and what has ended is a conflict. It is nobody else's, wherever they ask.
	for _, x := range []*agentBench{a, b} {
		if r := x.do("GET", "/v1/runs/"+id+"/events", "", asEvents, "Last-Event-ID: "+here.last); r.StatusCode != http.StatusNoContent {
			t.Errorf("%d", r.StatusCode)
		}
		if p := readProblem(t, x.do("POST", "/v1/runs/"+id+"/cancel", "")); p.Status != 409 || p.Run != id {
			t.Errorf("%+v", p)
		}
		if _, err := x.s.runs.Find(t.Context(), access.Principal{Name: "eve", Role: tool.User}, id); !errors.Is(err, run.ErrUnknown) {
			t.Errorf("eve gets %v", err)
		}
	}
}

// CL-08, RU-31: what concerns a turn on another replica reaches it there: messages, answers, handoffs, a chat's stream, the session's end.
func TestASessionIsUsedOnAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(), g.replica()
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	if p := readProblem(t, b.say("no", `,"on_busy":"reject"`)); p.Code != wire.CodeConflict {
		t.Errorf("%+v", p)
	}
	if p := readProblem(t, b.do("POST", "/v1/sessions/s/handoff", `{"name":"n"}`)); p.Code != wire.CodeConflict {
		t.Errorf("%+v", p)
	}
	if d := readDocument(t, b.say("more", steered, "Prefer: respond-async")); d.Run != first {
		t.Errorf("it was given to %s, expected %s", d.Run, first)
	}
	stream := b.do("GET", "/v1/ui/assistant/s/stream", "")
	if stream.StatusCode != 200 || stream.Header.Get("X-Run-Id") != first {
		t.Fatalf("%d %v", stream.StatusCode, stream.Header)
	}
	close(a.talk.goOn)
	if said := text(t, stream); !strings.Contains(said, `"delta":"more"`) || !strings.Contains(said, "[DONE]") {
		t.Error(said)
	}
	resp := a.say("use danger", "", asEvents)
	call, _, stop := a.question(resp)
	defer stop()
	if r := b.do("POST", resp.Header.Get("Location")+"/approvals/"+call, `{"decision":"approve"}`); r.StatusCode != 204 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	if got := <-a.ran; got != "here" {
		t.Error(got)
	}
	if d := readDocument(t, b.do("GET", resp.Header.Get("Location")+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	asked := a.say("use danger", "", asEvents)
	_, _, end := a.question(asked)
	defer end()
	if r := b.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	if d := readDocument(t, b.do("GET", asked.Header.Get("Location")+"/events?format=json", "")); d.Status != run.StatusCanceled {
		t.Errorf("%+v", d)
	}
	if r := a.do("GET", "/v1/sessions/s", ""); r.StatusCode != 404 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
}

// CL-05, CL-10, RU-03: a client is told the id of no run that the other replicas cannot know: not of one that it begins, and not of one that
// goes on with its message.
func TestAClientIsToldOfNoRunThatIsNotStored(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(), g.replica()
	a.s.runs.Inspect().Times().Begin = 50 * time.Millisecond
	whole := g.loseRuns(func(string) bool { return true })
	resp := a.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async")
	if p := readProblem(t, resp); p.Status != 503 || p.Code != wire.CodeOverloaded || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Run-Id") != "" {
		t.Errorf("%+v %v", p, resp.Header)
	}
	<-(<-a.steps.came).ctx.Done()
	whole()

	a.s.runs.Inspect().Times().Begin = time.Minute
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("Location")
	<-a.talk.waits
	late := a.say("late", steered, "Prefer: respond-async").Header.Get("X-Follow-Up-Id")
	lost := make(chan struct{})
	var once sync.Once
	whole = g.loseRuns(func(log string) bool {
		is := log == store.KeyPart(late)
		if is {
			once.Do(func() { close(lost) })
		}
		return is
	})
	if r := b.do("POST", first+"/cancel", ""); r.StatusCode != 202 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	<-lost // it has begun, and nobody has stored that
	whole()
	_, data := named(t, b.do("GET", first+"/events", "", asEvents))
	if own := followUp(t, data); own != late {
		t.Errorf("it goes on with %s, expected %s", own, late)
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+late+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

// CL-10: who comes back while the log of runs is away is broken off, and comes back once more: to be told 503 would end an EventSource.
func TestWhoComesBackWhileTheLogOfRunsIsAwayIsBrokenOff(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Shared = sharedAway() }).serve()
	id := run.NewID()
	for _, path := range []string{"/v1/runs/" + id + "/events", "/v1/runs?workflow=steps"} {
		if resp, err := b.try(t.Context(), "GET", path, "", asEvents, "Last-Event-ID: "+id+":0"); err == nil {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text(t, resp))
		}
	}
}

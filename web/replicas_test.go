package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

// group is servers that share a database, as replicas do. Package run knows what they promise; here are the ways over HTTP.
type group struct {
	t         testing.TB
	db        *db.DB
	workspace string
}

func newGroup(t testing.TB) *group {
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return &group{t: t, db: d, workspace: t.TempDir()}
}

// replica starts a server of the group, with one agent.
func (g *group) replica() *agentBench {
	g.t.Helper()
	c, err := cluster.Join(g.t.Context(), cluster.Options{Store: g.db.Runs()})
	if err != nil {
		g.t.Fatal(err)
	}
	leases := c.Leases("tape", g.db.Runs())
	tapes := g.db.SharedTapes(leases, nil)
	a := newAgentBench(g.t, func(o *Options, ao *agent.Options) {
		o.Cluster, o.Holder, o.Runs = c, leases.Holder, g.db.Runs()
		o.Tapes, ao.Store, o.Workspace = tapes, tapes, g.workspace
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log})
	})
	a.serve()
	c.Serve(a.s.Handler())
	g.t.Cleanup(func() {
		a.down()
		_ = c.Close()
	})
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
	if r := b.do("GET", asked.Header.Get("Location"), ""); r.StatusCode != 404 { // erased with its session (DS-01)
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
	if r := a.do("GET", "/v1/sessions/s", ""); r.StatusCode != 404 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
}

package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/runlog"
	runlogs "github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
	oncetable "github.com/lingserve/lingserve/web/once/table"
	"github.com/lingserve/lingserve/web/wire"
)

// group is servers that share a database, as replicas do.
type group struct {
	t        testing.TB
	database *postgrestest.Server
	schema   string

	workspace string
	opening   *sharedPlace // of the replica that is made last
	lose      atomic.Pointer[func(log string) bool]
}

func newGroup(t testing.TB) *group { return newGroupOn(t, postgrestest.Shared(t)) }

// newGroupOn makes a group on a database of its own, which the test may stop.
func newGroupOn(t testing.TB, database *postgrestest.Server) *group {
	return &group{t: t, database: database, schema: replicatest.Schema(), workspace: t.TempDir()}
}

// sharedPlace is what a replica has of what is shared.
type sharedPlace struct {
	*replicatest.Replica
	shared *run.Shared
	tapes  *logs.Store
	lossy  *lossy // what it asks others by
	absent *absent
	close  func()
}

// loseRuns has writes of runs fail without being stored, for the logs for which lose returns true, until whole is called.
func (g *group) loseRuns(lose func(log string) bool) (whole func()) {
	g.lose.Store(&lose)
	return func() { g.lose.Store(nil) }
}

// loseWrites has nothing stored of runs until whole is called.
func (g *group) loseWrites() (whole func()) { return g.loseRuns(func(string) bool { return true }) }

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
func (g *group) open() *sharedPlace {
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
	tapes, err := logs.Open(t.Context(), tables, logs.Options{Durability: store.Synced, Leases: leases, Replica: there.Members.ID()})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	p := &sharedPlace{Replica: there, tapes: tapes, lossy: &lossy{Control: asks}, absent: &absent{Shared: l}, close: func() {
		once.Do(func() {
			_, _, _, _ = asks.Close(), keys.Close(), tapes.Close(), l.Close() // of one that has died, they cannot do all
		})
	}}
	t.Cleanup(p.close)
	p.shared = &run.Shared{
		Runs: p.absent, Control: p.lossy, Keys: keys,
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
	}
	return p
}

// replica is a server of a group.
type replica struct {
	*bench
	*sharedPlace
}

// replica starts one.
func (g *group) replica(edit func(*Options)) *replica {
	g.t.Helper()
	p := g.open()
	g.opening = p
	return &replica{newBench(g.t, func(o *Options) {
		o.Shared, o.Tapes = p.shared, p.tapes
		if edit != nil {
			edit(o)
		}
	}).serve(), p}
}

// takesOver makes a run of another replica, which may have words of it on their way still, this one's: who writes meanwhile is not taken for dead.
func (r *replica) takesOver(id string, from *replica) {
	r.t.Helper()
	eventually(r.t, "it can be taken over", func() bool { return r.s.runs.Inspect().Adopt(r.t.Context(), id, from.shared.Control.Replica()) })
}

// die ends what a replica says to others, as the end of its process does.
func (r *replica) die() { r.Kill() }

// reader is a client that follows a run, on any replica, and comes back with the id of the last event that it has seen.
type reader struct {
	t testing.TB
	folded
	run string
}

// until reads from a replica until something is true of what the client has, or the stream ends: then it is false, and says whether it was
// broken off.
func (c *reader) until(b *bench, ok func() bool) (done, broken bool) {
	c.t.Helper()
	var header []string
	if c.last != "" {
		header = append(header, "Last-Event-ID: "+c.last)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	resp, err := b.try(ctx, "GET", "/v1/runs/"+c.run+"/events", "", append(header, asEvents)...)
	if err != nil {
		return false, true
	}
	defer resp.Body.Close()
	if b.s.runs.Inspect().Stopped() && resp.StatusCode == http.StatusServiceUnavailable {
		return false, true // the request had come to a server that has ended before it was looked at
	}
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%d: %s", resp.StatusCode, text(c.t, resp))
	}
	if ok() {
		return true, false
	}
	for e, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			return false, true
		}
		c.take(c.t, e)
		if ok() {
			return true, false
		}
	}
	return false, c.terminal == ""
}

func (c *reader) says(words string) func() bool {
	return func() bool { return strings.Contains(c.json(), words) }
}

func (c *reader) ended() bool { return c.terminal != "" }

// must fails where the stream has ended before.
func (c *reader) must(b *bench, ok func() bool) {
	c.t.Helper()
	if done, broken := c.until(b, ok); !done {
		c.t.Fatalf("the stream has ended (broken off: %v) at %s %s", broken, c.json(), c.terminal)
	}
}

// CL-04, CL-05: a run is read on any replica, from wherever the client was, and has the same events with the same ids there.
func TestAnyReplicaServesAnyRun(t *testing.T) {
	g := newGroup(t)
	a, b, c := g.replica(nil), g.replica(nil), g.replica(nil)
	id, st := a.startAsync()
	st.send("a", "one")
	here, there := &reader{t: t, run: id}, &reader{t: t, run: id}
	here.must(a.bench, here.says("one"))
	there.must(b.bench, there.says("one"))
	waits := make(chan document, 1)
	go func() { waits <- readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")) }()
	st.send("a", " two")
	there.must(c.bench, there.says("two"))
	here.must(b.bench, here.says("two"))
	if here.last != there.last {
		t.Errorf("the same event is %s and %s", here.last, there.last)
	}
	if d := readDocument(t, c.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning || string(d.Result) != `{"a":"one two"}` {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	st.finish()
	there.must(a.bench, there.ended)
	here.must(c.bench, here.ended)
	if here.json() != `{"a":"one two"}` || here.terminal != `finished{"status":"completed"}` || there.terminal != here.terminal || here.last != there.last {
		t.Errorf("%s %s, %s %s", here.json(), here.terminal, there.json(), there.terminal)
	}
	if d := <-waits; d.Status != run.StatusCompleted || string(d.Result) != `{"a":"one two"}` {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	// Who has everything is told so, and who comes with what is no id of it, is told that.
	if r := b.do("GET", "/v1/runs/"+id+"/events", "", asEvents, "Last-Event-ID: "+here.last); r.StatusCode != http.StatusNoContent {
		t.Errorf("%d", r.StatusCode)
	}
	if p := readProblem(t, b.do("GET", "/v1/runs/"+run.NewID(), "")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
	// It is nobody else's, wherever they ask.
	for _, x := range []*replica{a, b, c} {
		if _, err := x.s.runs.Find(t.Context(), access.Principal{Name: "eve", Role: tool.User}, id); !errors.Is(err, run.ErrUnknown) {
			t.Errorf("eve gets %v", err)
		}
	}
	// The replica that had it goes; the run stays.
	a.down()
	a.close()
	late := &reader{t: t, run: id}
	late.must(c.bench, late.ended)
	if late.json() != here.json() {
		t.Error(late.json())
	}
}

// CL-08, RU-16: a run is canceled from any replica, and all who read it know it at once. One that has ended is a conflict everywhere.
func TestARunIsCanceledFromAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(nil), g.replica(nil)
	id, st := a.startAsync()
	st.send("a", "one")
	c := &reader{t: t, run: id}
	c.must(b.bench, c.says("one"))
	began := time.Now()
	if r := b.do("POST", "/v1/runs/"+id+"/cancel", ""); r.StatusCode != 202 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	<-st.ctx.Done()
	t.Logf("canceled after %v", time.Since(began))
	c.must(b.bench, c.ended)
	if c.terminal != `canceled{"reason":"canceled by request"}` {
		t.Error(c.terminal)
	}
	for _, x := range []*replica{a, b} {
		if p := readProblem(t, x.do("POST", "/v1/runs/"+id+"/cancel", "")); p.Status != 409 || p.Run != id {
			t.Errorf("%+v", p)
		}
	}
}

// CL-09: requests with one key start one run, wherever they come, and the model is called once.
func TestAKeyStartsOneRunOnAllReplicas(t *testing.T) {
	g := newGroup(t)
	replicas := []*replica{g.replica(nil), g.replica(nil), g.replica(nil)}
	body := `{"workflow":"chat","input":{"question":"why?"}}`
	for round := range 5 {
		key := fmt.Sprint("Idempotency-Key: ", round)
		ids := make([]string, 9)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				resp := replicas[i%3].do("POST", "/v1/runs", body, key)
				ids[i] = readDocument(t, resp).Run
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] || id == "" {
				t.Fatalf("%q", ids)
			}
		}
		if p := readProblem(t, replicas[1].do("POST", "/v1/runs", `{"workflow":"chat","input":{"question":"else?"}}`, key)); p.Status != 422 {
			t.Errorf("%+v", p)
		}
	}
	var calls int64
	for _, r := range replicas {
		calls += r.model.calls.Load()
	}
	if calls != 5 {
		t.Errorf("the model was called %d times", calls)
	}
}

// anew is a workflow that is run again.
func anew(o *Options, m *scripted) {
	w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nrestart: true\nbots: {writer: {format: text, message: '{{ input.q }}', root: answer}}\n"), nil)
	if err != nil {
		panic(err)
	}
	o.Models = &adapter.Registry{Default: "test:story", Retries: adapter.Retries{Attempts: 1}}
	o.Models.Register("test", m)
	o.Workflows.Register(w)
}

func scriptedBy(say func(context.Context, func(string) bool) error) *scripted {
	return &scripted{say: func(ctx context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		return say(ctx, yield)
	}}
}

// babbles says words, and goes on without a pause.
func babbles(words string) func(context.Context, func(string) bool) error {
	return func(ctx context.Context, yield func(string) bool) error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for yield(words) {
			words = "."
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// CL-07: a replica dies. What it ran ends for all readers as interrupted, or goes on where its workflow says so; nobody hangs, and no id
// means two things.
func TestWhatADeadReplicaRanEndsOrGoesOnForAllReaders(t *testing.T) {
	g := newGroup(t)
	old, now := scriptedBy(hangs("old words")), scriptedBy(tells("new words"))
	a := g.replica(func(o *Options) { anew(o, old) })
	b := g.replica(func(o *Options) { anew(o, now) })
	c := g.replica(func(o *Options) { anew(o, now) })
	plain, st := a.startAsync()
	st.send("a", "one")
	again := a.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async", "Idempotency-Key: k").Header.Get("X-Run-Id")
	ends, goes := &reader{t: t, run: plain}, &reader{t: t, run: again}
	ends.must(b.bench, ends.says("one"))
	goes.must(c.bench, goes.says("old words"))
	began := time.Now()
	a.die()
	var wg sync.WaitGroup
	wg.Go(func() { ends.must(b.bench, ends.ended) })
	wg.Go(func() { goes.must(c.bench, goes.ended) })
	wg.Wait()
	longtest.Within(t, "all of it", time.Since(began), replicas.TTL+3*time.Second) // a second, and what readers take
	if ends.terminal != `finished{"status":"interrupted"}` || ends.json() != `{"a":"one"}` || strings.Count(strings.Join(ends.names, " "), "error") != 1 {
		t.Errorf("%s %s %q", ends.json(), ends.terminal, ends.names)
	}
	if goes.terminal != `finished{"status":"completed"}` || goes.json() != `{"answer":"new words"}` || now.calls.Load() != 1 {
		t.Errorf("%s %s, %d calls", goes.json(), goes.terminal, now.calls.Load())
	}
	for _, x := range []*replica{b, c} {
		if d := readDocument(t, x.do("GET", "/v1/runs/"+plain+"/events?format=json", "")); d.Status != run.StatusInterrupted || len(d.Errors) != 1 || string(d.Result) != `{"a":"one"}` {
			t.Errorf("%+v %s", d, d.Result)
		}
		if d := readDocument(t, x.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Idempotency-Key: k")); d.Run != again || string(d.Result) != `{"answer":"new words"}` {
			t.Errorf("%+v %s", d, d.Result)
		}
	}
	// One that starts finds nothing to do.
	d := g.replica(func(o *Options) { anew(o, now) })
	d.s.runs.Inspect().AdoptAll()
	if n := now.calls.Load(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// CL-06: a replica that was taken for dead stops at its next word; its readers come back to what is true.
func TestAReplicaThatIsFencedStopsAndItsReadersGoOn(t *testing.T) {
	g := newGroup(t)
	watch := &tally{}
	a, b := g.replica(func(o *Options) { o.Observer = watch }), g.replica(nil)
	id, st := a.startAsync()
	st.send("a", "one")
	c := &reader{t: t, run: id}
	c.must(a.bench, c.says("one"))
	a.unread(id)
	waits := make(chan error, 1) // who waits for the document where it was fenced is not told that it is complete
	go func() {
		resp, err := a.try(t.Context(), "GET", "/v1/runs/"+id+"/events?format=json", "")
		if err == nil {
			err = fmt.Errorf("%d: %s", resp.StatusCode, text(t, resp))
		} else {
			err = nil
		}
		waits <- err
	}()
	eventually(t, "it is waited for", func() bool { return a.reads(id) })
	b.takesOver(id, a)
	broken := make(chan bool, 1)
	go func() {
		_, is := c.until(a.bench, c.ended)
		broken <- is
	}()
	st.do <- func(context.Context) error {
		_, err := st.m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(" never")})
		return err
	}
	close(st.do) // it completes, as far as it knows
	if err := <-waits; err != nil {
		t.Errorf("who waited has got %v", err)
	}
	if is := <-broken; is {
		c.must(a.bench, c.ended)
	}
	if c.json() != `{"a":"one"}` || c.terminal != `finished{"status":"interrupted"}` {
		t.Errorf("%s %s", c.json(), c.terminal)
	}
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusInterrupted || string(d.Result) != `{"a":"one"}` {
		t.Errorf("%+v %s", d, d.Result)
	}
	eventually(t, "whoever runs the replica is told that it has moved", func() bool { return watch.count("steps moved ") == 1 })
}

// unread waits until nobody reads a run of this server any more: it hears of who goes away a moment later.
func (b *bench) unread(id string) {
	b.t.Helper()
	eventually(b.t, "who has read it is gone", func() bool { return !b.reads(id) })
}

// CL-11: a replica that is told to go hands over what can go on elsewhere, at once; its readers are broken off, come back to another one,
// and see no end that is none.
func TestWhatCanGoOnGoesOnWhereAReplicaIsToldToGo(t *testing.T) {
	g := newGroup(t)
	old, now := scriptedBy(babbles("old words")), scriptedBy(tells("new words")) // it writes in the moment of its handing over
	a := g.replica(func(o *Options) { anew(o, old) })
	b := g.replica(func(o *Options) { anew(o, now) })
	id := a.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
	c, other := &reader{t: t, run: id}, &reader{t: t, run: id}
	c.must(a.bench, c.says("old words"))
	other.must(b.bench, other.says("old words"))
	a.unread(id)
	broken := make(chan bool, 1)
	go func() {
		_, is := c.until(a.bench, c.ended)
		broken <- is
	}()
	eventually(t, "the reader is there", func() bool { return a.reads(id) })
	began := time.Now()
	ended, cancel := context.WithCancel(t.Context())
	cancel() // the time for those that run is over
	if err := a.s.Drain(ended); err != nil {
		t.Fatal(err)
	}
	if is := <-broken; !is {
		t.Errorf("the reader was not broken off: %s", c.terminal)
	}
	c.must(b.bench, c.ended)
	other.must(b.bench, other.ended)
	if r := b.s.runs.Inspect().Own(id); r == nil || b.s.runs.Inspect().Attempt(r) != 0 {
		t.Errorf("it counts as one that has crashed: %+v", r)
	}
	longtest.Within(t, "to hand over and end", time.Since(began), replicas.TTL)
	for _, x := range []*reader{c, other} {
		if x.json() != `{"answer":"new words"}` || x.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s %s", x.json(), x.terminal)
		}
	}
	a.down()
}

// CL-11: where nobody takes over what can go on elsewhere, it has no end until somebody does: those who read it elsewhere wait, and see none
// that is none. To be told to go is no crash of the run.
func TestWhatNobodyTakesOverHasNoEndUntilSomebodyDoes(t *testing.T) {
	g := newGroup(t)
	old, now := scriptedBy(hangs("old words")), scriptedBy(tells("new words"))
	a := g.replica(func(o *Options) { anew(o, old) })
	b := g.replica(func(o *Options) { anew(o, now) })
	id := a.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
	plain, st := a.startAsync("Idempotency-Key: p")
	st.send("a", "one")
	c, ends := &reader{t: t, run: id}, &reader{t: t, run: plain}
	c.must(b.bench, c.says("old words"))
	ends.must(b.bench, ends.says("one"))
	a.lossy.make(func(r control.Request, ask func() ([]byte, error)) ([]byte, error) {
		if r.Command == run.CommandAdopt {
			return []byte(`{"not_here":true}`), nil
		}
		return ask()
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.s.Drain(over); err != nil {
		t.Fatal(err)
	}
	// One that is not run again says why it ends, as one does whose replica was killed.
	ends.must(b.bench, ends.ended)
	if names := strings.Join(ends.names, " "); names != "started error finished" || ends.terminal != `finished{"status":"interrupted"}` {
		t.Errorf("%s %s", names, ends.terminal)
	}
	d := readDocument(t, b.do("GET", "/v1/runs/"+plain, ""))
	if d.Status != run.StatusInterrupted || len(d.Errors) != 1 || d.Errors[0].Code != wire.CodeDraining || !d.Errors[0].Retryable || !d.Errors[0].Fatal ||
		!strings.Contains(d.Errors[0].Message, "another Idempotency-Key") {
		t.Errorf("%+v", d)
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning || string(d.Result) != `{"answer":"old words"}` {
		t.Errorf("it has ended: %+v %s", d, d.Result)
	}
	a.down()
	a.close()
	if err := a.sharedPlace.Close(); err != nil {
		t.Error(err)
	}
	c.must(b.bench, c.ended)
	if c.json() != `{"answer":"new words"}` || c.terminal != `finished{"status":"completed"}` || strings.Contains(strings.Join(c.names, " "), "error") {
		t.Errorf("%s %s %q", c.json(), c.terminal, c.names)
	}
	if r := b.s.runs.Inspect().Own(id); r == nil || b.s.runs.Inspect().Attempt(r) != 0 {
		t.Errorf("it counts as one that has crashed: %+v", r)
	}
}

// agents are servers of a group with one agent.
func (g *group) agents() (*agentBench, *sharedPlace) {
	g.t.Helper()
	p := g.open()
	a := newAgentBench(g.t, g.agentOptions(p))
	a.serve()
	return a, p
}

// agentOptions are those of a server of a group that has agents.
func (g *group) agentOptions(p *sharedPlace) func(*Options, *agent.Options) {
	return func(o *Options, ao *agent.Options) {
		o.Shared, o.Tapes, ao.Store = p.shared, p.tapes, p.tapes
		o.Workspace = g.workspace
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log})
	}
}

// CL-08: what is said to an agent whose turn runs on another replica reaches it there: it is steered, refused or queued as it would be
// there. Approvals do, too.
func TestASessionIsSpokenToOnAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, _ := g.agents()
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	if p := readProblem(t, b.say("no", `,"on_busy":"reject"`)); p.Code != wire.CodeConflict {
		t.Errorf("%+v", p)
	}
	steered := b.say("more", `,"on_busy":"steer"`, "Prefer: respond-async", "Idempotency-Key: steer")
	if d := readDocument(t, steered); d.Run != first {
		t.Errorf("it was given to %s, expected %s", d.Run, first)
	}
	if d := readDocument(t, a.say("more", `,"on_busy":"steer"`, "Prefer: respond-async", "Idempotency-Key: steer")); d.Run != first {
		t.Errorf("the second time it is %s", d.Run)
	}
	if said := b.tapeOf("s"); said != a.tapeOf("s") || !strings.Contains(said, `"wait"`) {
		t.Errorf("the tape of a turn that goes on is another one elsewhere: %s", said)
	}
	queued := b.say("later", `,"on_busy":"queue"`, "Prefer: respond-async").Header.Get("X-Run-Id")
	if queued == first || queued == "" {
		t.Errorf("queued as %s", queued)
	}
	close(a.talk.goOn)
	for _, id := range []string{first, queued} {
		if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusCompleted {
			t.Errorf("%+v", d)
		}
	}
	if said := b.tapeOf("s"); said != a.tapeOf("s") {
		t.Errorf("the tape is another one elsewhere: %s", said)
	}
	if said := a.tapeOf("s"); strings.Count(said, "more") < 1 || strings.Count(said, `"later"`) != 1 {
		t.Error(said)
	}

	resp := a.say("use danger", "", asEvents)
	call, _, stop := a.question(resp)
	defer stop()
	path := "/v1/runs/" + resp.Header.Get("X-Run-Id")
	if p := readProblem(t, b.do("POST", path+"/approvals/"+run.NewID(), `{"decision":"approve"}`)); p.Status != 404 {
		t.Errorf("%+v", p)
	}
	began := time.Now()
	if r := b.do("POST", path+"/approvals/"+call, `{"decision":"approve"}`); r.StatusCode != 204 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	if got := <-a.ran; got != "here" {
		t.Error(got)
	}
	t.Logf("approved after %v", time.Since(began))
	if p := readProblem(t, b.do("POST", path+"/approvals/"+call, `{"decision":"deny"}`)); p.Status != 409 && p.Status != 404 {
		t.Errorf("%+v", p)
	}
	if d := readDocument(t, b.do("GET", path+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

// RU-31: a session whose turn runs on another replica is not idle here; where it is erased, that turn ends.
func TestASessionIsErasedOnAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, _ := g.agents()
	id := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	if p := readProblem(t, b.do("POST", "/v1/sessions/s/handoff", `{"name":"n"}`)); p.Code != wire.CodeConflict {
		t.Errorf("%+v", p)
	}
	if r := b.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusCanceled {
		t.Errorf("%+v", d)
	}
	if r := a.do("GET", "/v1/sessions/s", ""); r.StatusCode != 404 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
}

// CL-10: while what is shared is away, runs go on and nobody sees more of them; when it is back, all is there, in order and once.
func TestRunsGoOnWhileWhatIsSharedIsAway(t *testing.T) {
	g := newGroupOn(t, postgrestest.Run(t))
	a, b := g.replica(nil), g.replica(nil)
	id, st := a.startAsync()
	st.send("a", "0 ")
	c := &reader{t: t, run: id}
	c.must(a.bench, c.says("0 "))
	if err := g.database.Shutdown(); err != nil {
		t.Fatal(err)
	}
	want := "0 "
	for i := range 50 {
		st.send("a", fmt.Sprint(i+1, " "))
		want += fmt.Sprint(i+1, " ")
	}
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); string(d.Result) != `{"a":"0 "}` || d.Status != run.StatusRunning {
		t.Errorf("%s is seen of what is not stored", d.Result)
	}
	st.finish()
	r := a.s.runs.Inspect().Own(id)
	eventually(t, "it has ended", func() bool { return a.s.runs.Inspect().Manager(r).Outcome().Status == run.StatusCompleted })
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); string(d.Result) != `{"a":"0 "}` || d.Status != run.StatusRunning {
		t.Errorf("its end is seen before its last words are stored: %+v %s", d, d.Result)
	}
	if err := g.database.Restart(); err != nil {
		t.Fatal(err)
	}
	c.must(a.bench, c.ended)
	if c.json() != `{"a":"`+want+`"}` || c.terminal != `finished{"status":"completed"}` {
		t.Errorf("%s %s", c.json(), c.terminal)
	}
	other := &reader{t: t, run: id}
	eventually(t, "the other replica has the servers back, too", func() bool { return b.whole("GET", "/v1/runs/"+id, "").Status == http.StatusOK })
	other.must(b.bench, other.ended)
	if other.json() != c.json() {
		t.Error(other.json())
	}
}

// SE-10: a ticket of one replica lets one request in, at whichever.
func TestATicketLetsOneRequestInAtAnyReplica(t *testing.T) {
	g, k := newGroup(t), newKeyring(t, "ann:user")
	replicas := make([]*replica, 2)
	for i := range replicas {
		replicas[i] = g.replica(func(o *Options) {
			tickets, err := g.opening.Engine.Table(t.Context(), access.TicketTable)
			if err != nil {
				t.Fatal(err)
			}
			door := *k.door
			door.Tickets = access.NewTickets(access.TicketsOptions{Table: tickets})
			o.Access.Door = &door
		})
	}
	var made struct{ Ticket string }
	if err := json.Unmarshal([]byte(replicas[0].whole("POST", "/v1/tickets", `{"path":"/v1/runs"}`, k.bearer["ann"]).Body), &made); err != nil {
		t.Fatal(err)
	}
	path := "/v1/runs?workflow=chat&input=q&format=sse&ticket=" + made.Ticket
	if got := replicas[1].whole("GET", path, ""); got.Status != 200 || !strings.Contains(got.Body, "finished") {
		t.Errorf("%+v", got)
	}
	for _, r := range replicas {
		if got := r.whole("GET", path, ""); got.Status != 401 {
			t.Errorf("used again: %+v", got)
		}
	}
}

// absent is a log of runs that cannot be reached when a test says so.
type absent struct {
	runlog.Shared
	away atomic.Bool
}

func (a *absent) Follow(ctx context.Context, id string) (runlog.Tail, error) {
	if a.away.Load() {
		return nil, runlog.ErrAway
	}
	return a.Shared.Follow(ctx, id)
}

// CL-10: who comes back while the log of runs is away is broken off, and comes back once more: to be told 503 would end an EventSource.
func TestWhoComesBackWhileTheLogOfRunsIsAwayIsBrokenOff(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(nil), g.replica(nil)
	id, st := a.startAsync()
	st.send("a", "one")
	b.absent.away.Store(true)
	for _, path := range []string{"/v1/runs/" + id + "/events", "/v1/runs?workflow=steps"} {
		if resp, err := b.try(t.Context(), "GET", path, "", asEvents, "Last-Event-ID: "+id+":0"); err == nil {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text(t, resp))
		}
	}
	if p := readProblem(t, b.do("GET", "/v1/runs/"+id, "")); p.Status != 503 {
		t.Errorf("%+v", p)
	}
	b.absent.away.Store(false)
	st.finish()
	c := &reader{t: t, run: id}
	c.last = id + ":0"
	if c.must(b.bench, c.ended); c.json() != `{"a":"one"}` || c.terminal != `finished{"status":"completed"}` {
		t.Errorf("%s %s", c.json(), c.terminal)
	}
}

// reads says whether somebody reads a run here.
func (b *bench) reads(id string) bool {
	i := b.s.runs.Inspect()
	return i.Reads(i.Own(id))
}

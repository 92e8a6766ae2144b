package web

import (
	"context"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// CL-04, CL-11: a replica that is told to go while the end of a run cannot be stored tells nobody of that end, whoever comes still: what it has
// shown of the document is not what the run has made. When it is stored, all have all of it.
func TestNobodyIsToldOfAnEndThatIsNotStored(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(nil), g.replica(nil)
	a.s.runs.Inspect().Times().Stored = 10 * time.Millisecond
	const steps, chat = `{"workflow":"steps"}`, `{"model":"steps","messages":[{"role":"user","content":"{}"}]}`
	id, st := a.startAsync("Idempotency-Key: k")
	completion := make(chan struct{})
	asked, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(completion)
		if resp, err := a.try(asked, "POST", "/v1/chat/completions", chat, "Idempotency-Key: c"); err == nil {
			t.Errorf("%d: %s", resp.StatusCode, text(t, resp))
		}
	}()
	completed := <-a.steps.came
	other := completed.m.ID()
	eventually(t, "both have begun", func() bool {
		r, x := a.s.runs.Inspect().Own(id), a.s.runs.Inspect().Own(other)
		return r != nil && x != nil && a.s.runs.Inspect().Tube(r).Len() > 0 && a.s.runs.Inspect().Tube(x).Len() > 0
	})
	cancel() // it has a key, and goes on
	<-completion
	whole := g.loseWrites()
	for _, st := range []*stepped{st, completed} {
		st.send("a", "one")
		st.finish()
	}
	mine, its := a.s.runs.Inspect().Own(id), a.s.runs.Inspect().Own(other)
	eventually(t, "both have made what they make", func() bool {
		return a.s.runs.Inspect().Manager(mine).Outcome().Status == run.StatusCompleted && a.s.runs.Inspect().Manager(its).Outcome().Status == run.StatusCompleted
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.s.Drain(over); err != nil {
		t.Fatal(err)
	}
	<-mine.Done()
	<-its.Done()
	for range 10 { // it is chance which of two reasons not to wait any more a client meets
		if resp, err := a.try(t.Context(), "POST", "/v1/runs", steps, "Idempotency-Key: k"); err == nil {
			t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
		}
		if resp, err := a.try(t.Context(), "POST", "/v1/chat/completions", chat, "Idempotency-Key: c"); err == nil {
			t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
		}
	}
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning || string(d.Result) != "{}" {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	whole()
	const want = `{"a":"one"}`
	if d := b.repeat(steps, "Idempotency-Key: k"); d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != want {
		t.Errorf("%s %s %s", d.Run, d.Status, d.Result)
	}
	eventually(t, "its end is known where it ran", mine.Ended)
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusCompleted || string(d.Result) != want {
		t.Errorf("%s %s", d.Status, d.Result)
	}
}

// CL-07, RU-10: a run whose end is stored has ended, also where its replica has died before it had said what came of it, and as one that would be run
// again: somebody has seen that end.
func TestARunWhoseEndWasSeenIsNotRunAgain(t *testing.T) {
	g := newGroup(t)
	now := scriptedBy(tells("new words"))
	b := g.replica(func(o *Options) { anew(o, now) })
	dead, id := g.open(), run.NewID()
	held := run.TubeOptions(0)
	held.Held = true
	tb := tube.New(id, held)
	dead.shared.Runs.Keep(runlog.Run{ID: id, Tube: tb, Opening: mustJSON(map[string]any{
		"run": id, "workflow": "anew", "began": time.Now(), "status": "",
		"attempt": run.MaxAttempts - 1, "again": &run.Request{Subject: run.Subject{Workflow: "anew"}, Input: []byte(`{"q":"x"}`)},
	})})
	for _, e := range []tube.Event{
		{Kind: tube.Append, URI: []byte("answer"), Value: []byte("old words")},
		{Kind: tube.Named, Name: "error", Value: []byte(`{"code":"internal","message":"it was begun 3 times","fatal":true}`)},
	} {
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	_ = tb.Close(run.StatusInterrupted)
	if err := dead.shared.Runs.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &reader{t: t, run: id}
	c.must(b.bench, c.ended)
	b.takesOver(id, &replica{sharedPlace: dead}) // before it is seen to be dead, which has it taken over, too
	dead.Kill()
	for _, x := range []*replica{b, g.replica(nil)} {
		d := readDocument(t, x.do("GET", "/v1/runs/"+id+"/events?format=json", ""))
		if d.Status != run.StatusInterrupted || string(d.Result) != c.json() || len(d.Errors) != 1 {
			t.Errorf("%+v %s, and who has read it has %s %s", d, d.Result, c.terminal, c.json())
		}
	}
	if n := now.calls.Load(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// CL-11: a replica that is told to go when it has just taken a run over does not end it: the next one runs it.
func TestARunThatWasTakenOverByWhoGoesIsTakenOverOnceMore(t *testing.T) {
	g := newGroup(t)
	now := scriptedBy(tells("new words"))
	a := g.replica(func(o *Options) { anew(o, scriptedBy(hangs("old words"))) })
	b := g.replica(func(o *Options) { anew(o, now) })
	id := a.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async", "Idempotency-Key: k").Header.Get("X-Run-Id")
	eventually(t, "all that it says is stored", func() bool { // who still writes is not taken for dead
		return string(readDocument(t, b.do("GET", "/v1/runs/"+id, "")).Result) == `{"answer":"old words"}`
	})
	left, err := b.shared.Runs.Adopt(t.Context(), id, a.shared.Control.Replica())
	if err != nil {
		t.Fatal(err)
	}
	b.s.runs.Inspect().Refuse()
	b.s.runs.Inspect().Continue(left)
	c := g.replica(func(o *Options) { anew(o, now) })
	if d := readDocument(t, c.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning {
		t.Fatalf("%+v", d)
	}
	c.takesOver(id, b)
	if d := c.repeat(`{"workflow":"anew","input":{"q":"x"}}`, "Idempotency-Key: k"); d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"new words"}` {
		t.Errorf("%+v %s", d, d.Result)
	}
}

// FT-23: a server that is alone and told to go cuts a run off that the next one runs again. Whoever asks for the document in that moment is not
// told that this was its end.
func TestNobodyIsToldOfTheEndOfARunThatComesAgain(t *testing.T) {
	folder := t.TempDir()
	b := againBench(t, folder, hangs("old words"), nil).serve()
	const body, key = `{"workflow":"anew","input":{"q":"x"}}`, "Idempotency-Key: k"
	id := b.do("POST", "/v1/runs", body, key, "Prefer: respond-async").Header.Get("X-Run-Id")
	r := b.runOf(id)
	eventually(t, "it has said something", func() bool { _, said, _ := r.Result(); return string(said) == `{"answer":"old words"}` })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.s.Drain(over); err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	if resp, err := b.try(t.Context(), "POST", "/v1/runs", body, key); err == nil {
		t.Errorf("%d: %s", resp.StatusCode, text(t, resp))
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning || string(d.Result) != `{"answer":"old words"}` {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	b.down()
	b = againBench(t, folder, tells("new words"), nil).serve()
	if d := readDocument(t, b.do("POST", "/v1/runs", body, key)); d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"new words"}` {
		t.Errorf("%s %s %s", d.Run, d.Status, d.Result)
	}
}

// CL-07, CL-09: who waits for the document of a run with its key, at a replica that does not have it, gets the whole one: of the last attempt
// where it is run again, and where its replica dies between its last words and the word that these were the last, too.
func TestWhoWaitsForADocumentElsewhereGetsAllOfIt(t *testing.T) {
	g := newGroup(t)
	a := g.replica(func(o *Options) { anew(o, scriptedBy(hangs("old words"))) })
	b := g.replica(func(o *Options) { anew(o, scriptedBy(tells("new words"))) })
	c := g.replica(nil)
	const body, key = `{"workflow":"anew","input":{"q":"x"}}`, "Idempotency-Key: k"
	id := a.do("POST", "/v1/runs", body, key, "Prefer: respond-async").Header.Get("X-Run-Id")
	waits := make(chan document, 1)
	go func() { waits <- readDocument(t, c.do("POST", "/v1/runs", body, key)) }()
	eventually(t, "it is waited for", func() bool {
		r, err := c.s.runs.Find(t.Context(), access.Local, id)
		return err == nil && c.s.runs.Inspect().Reads(r) && c.s.runs.Inspect().Tube(r).Len() > 1
	})
	b.takesOver(id, a)
	if d := <-waits; d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"new words"}` {
		t.Errorf("%s %s %s", d.Run, d.Status, d.Result)
	}

	id, st := a.startAsync("Idempotency-Key: p")
	st.send("a", "one")
	go func() {
		waits <- readDocument(t, c.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: p"))
	}()
	eventually(t, "it is waited for", func() bool {
		r, err := c.s.runs.Find(t.Context(), access.Local, id)
		return err == nil && c.s.runs.Inspect().Reads(r)
	})
	st.send("a", " two")
	r := a.s.runs.Inspect().Own(id)
	_ = st.m.Tube().Close(run.StatusCompleted) // and its head never comes
	eventually(t, "its end is stored", r.Ended)
	select {
	case d := <-waits:
		t.Errorf("it is not known yet what came of it: %s %s", d.Status, d.Result)
	default:
	}
	b.takesOver(id, a)
	if d := <-waits; d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != `{"a":"one two"}` || len(d.Errors) > 0 {
		t.Errorf("%s %s %s %+v", d.Run, d.Status, d.Result, d.Errors)
	}
	st.finish()
}

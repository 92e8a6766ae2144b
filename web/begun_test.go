package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
)

// CL-05: a run of which the end of another one tells is there then, at every replica: nobody is told of one that is not stored.
func TestCL_05_WhatAStreamSaysGoesOnIsFoundAtAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, _ := g.agents()
	a.s.runs.Inspect().Times().Begin = time.Minute
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("Location")
	<-a.talk.waits
	late := a.say("late", steered, "Prefer: respond-async").Header.Get("X-Follow-Up-Id")
	lost := make(chan struct{}, 100)
	whole := g.loseRuns(func(log string) bool {
		if log == store.KeyPart(late) {
			lost <- struct{}{}
		}
		return log == store.KeyPart(late)
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
	if r := b.do("GET", "/v1/runs/"+late, ""); r.StatusCode != 200 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+late+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

// CL-05: a page that is loaded anew while its message's run begins, at another replica, gets that run's stream, and not the word that there is
// none.
func TestCL_05_ARunThatBeginsIsTheLastOfItsSessionAtAnyReplica(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, _ := g.agents()
	lost := make(chan struct{}, 100)
	whole := g.loseRuns(func(string) bool {
		lost <- struct{}{}
		return true
	})
	begun := make(chan *http.Response, 1)
	go func() { begun <- a.say("wait", "", "Prefer: respond-async") }()
	<-lost // nobody has stored that there is a run, until that is sent once more
	whole()
	<-a.talk.waits // its turn has the session
	resp := b.do("GET", "/v1/ui/assistant/s/stream", "")
	defer resp.Body.Close()
	id := (<-begun).Header.Get("X-Run-Id")
	if resp.StatusCode != 200 || resp.Header.Get("X-Run-Id") != id {
		t.Errorf("%d, %q: expected the stream of %q", resp.StatusCode, resp.Header.Get("X-Run-Id"), id)
	}
	close(a.talk.goOn)
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

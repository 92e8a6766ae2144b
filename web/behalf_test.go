package web

import (
	"encoding/json"
	"testing"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/web/wire"
)

// report is what a replica answers.
type report struct {
	Run     string
	Problem *wire.Problem
}

// DA-06: what another replica asks is checked here, too, with the role and the scopes of the one that it is for.
func TestDA_06_WhatAReplicaAsksIsCheckedWithThePrincipalsScopes(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	scoped := func(name string, scopes ...string) access.Principal {
		s, err := access.ParseScopes(scopes)
		if err != nil {
			t.Fatal(err)
		}
		return access.Principal{Name: name, Scopes: s}
	}
	serve := func(r control.Request) report {
		t.Helper()
		answer, err := a.s.runs.Inspect().Serve(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	code := func(r report) string {
		if r.Problem != nil {
			return r.Problem.Code
		}
		return ""
	}
	start := func(who access.Principal, session string, a run.Request) report {
		t.Helper()
		id := run.NewID()
		a.Session = session
		if session == "own" {
			a.Session = id
		}
		return serve(control.Request{Command: run.CommandStart, Body: mustJSON(map[string]any{"ask": &a, "id": id, "who": who})})
	}
	hello := run.Request{Subject: run.Subject{Agent: "assistant"}, Input: json.RawMessage(`"hello"`)}
	for name, c := range map[string]struct {
		who     access.Principal
		session string
		want    string
	}{
		"another agent":        {scoped("ann", "agents:other", "sessions"), "s1", wire.CodeForbidden},
		"no agents":            {scoped("ann", "workflows", "sessions"), "s2", wire.CodeForbidden},
		"no sessions":          {scoped("ann", "agents"), "s3", wire.CodeForbidden},
		"nobody":               {access.Principal{}, "s4", wire.CodeForbidden},
		"a session of its own": {scoped("ann", "agents"), "own", ""},
		"all that it needs":    {scoped("ann", "agents:assist*", "sessions"), "s5", ""},
	} {
		if got := start(c.who, c.session, hello); code(got) != c.want || c.want == "" && got.Run == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}

	ann, bob := access.Principal{Name: "ann"}, access.Principal{Name: "bob"}
	id := start(ann, "s", hello).Run
	lane := webchannel.SessionKey("ann", "s")
	for _, who := range []access.Principal{bob, {}, scopedAdmin(t)} {
		if got := serve(control.Request{Command: run.CommandCancel, Run: id, Body: mustJSON(map[string]any{"who": who})}); code(got) != wire.CodeNotFound {
			t.Errorf("%+v cancels another's run: %+v", who, got)
		}
		got := serve(control.Request{Command: run.CommandDecide, Run: id, Body: mustJSON(map[string]any{"id": "q", "approve": true, "who": who})})
		if code(got) != wire.CodeNotFound || got.Problem.Detail != "unknown run; it never existed or has expired" {
			t.Errorf("%+v decides in another's run: %+v", who, got)
		}
		if got := serve(control.Request{Command: run.CommandLatest, Session: lane, Body: mustJSON(map[string]any{"who": who})}); got.Run != "" {
			t.Errorf("%+v finds another's run: %+v", who, got)
		}
	}
	for _, who := range []access.Principal{bob, scopedAdmin(t), {Role: tool.Admin}} {
		if got := serve(control.Request{Command: run.CommandStop, Session: lane, Body: mustJSON(map[string]any{"who": who})}); code(got) != wire.CodeForbidden {
			t.Errorf("%+v ends the turns of another's session: %+v", who, got)
		}
	}
	if got := serve(control.Request{Command: run.CommandLatest, Session: lane, Body: mustJSON(map[string]any{"who": ann})}); got.Run != id {
		t.Errorf("ann finds %+v, expected %s", got, id)
	}
	if got := serve(control.Request{Command: run.CommandStop, Session: lane, Body: mustJSON(map[string]any{"who": ann})}); code(got) != "" {
		t.Errorf("ann ends her turns: %+v", got)
	}
	if got := serve(control.Request{Command: run.CommandCancel, Run: id, Body: mustJSON(map[string]any{"who": access.Principal{Name: "root", Role: tool.Admin}})}); code(got) == wire.CodeNotFound {
		t.Errorf("an admin cancels: %+v", got)
	}
}

// scopedAdmin is an admin whose key is for workflows only.
func scopedAdmin(t *testing.T) access.Principal {
	s, err := access.ParseScopes([]string{"workflows"})
	if err != nil {
		t.Fatal(err)
	}
	return access.Principal{Name: "root", Role: tool.Admin, Scopes: s}
}

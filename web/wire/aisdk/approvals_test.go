package aisdk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/aisdk/aisdktest"
)

func required(id, call string) tube.Event {
	return named("approval_required", `{"id":"`+id+`","call":"`+call+`","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z"}`)
}

func resolved(id, call, decision string) tube.Event {
	return named("approval_resolved", `{"id":"`+id+`","call":"`+call+`","decision":"`+decision+`"}`)
}

func called(n, id string) tube.Event {
	return set("$tools/"+n, `{"id":"`+id+`","name":"t","arguments":{"a":1}}`)
}

var denied = named("error", `{"code":"forbidden","message":"the tool t was not allowed to run","retryable":false,"fatal":false}`)

// stream is the chunks of events for a client, with their ends.
func stream(t *testing.T, e *aisdk.Encoder, m *aisdktest.Message, tb *tube.Tube, r *tube.Reader, events ...tube.Event) {
	t.Helper()
	for _, ev := range events {
		if _, err := tb.Send(ev); err != nil {
			t.Fatal(err)
		}
	}
	for ev := range r.Waiting() {
		if err := m.Write(e.Append(nil, ev)); err != nil {
			t.Fatal(err)
		}
		if e.Over() {
			break
		}
	}
}

func TestAQuestionIsADataPartThatSaysWhatWasDecided(t *testing.T) {
	for version := 5; version <= 7; version++ {
		events := []tube.Event{
			called("0", "c"), required("q1", "c"), resolved("q1", "c", "approve"), set("$tool_results/0", "1"), called("1", "c"), required("q2", "c"), resolved("q2", "c", "deny"),
			set("$tool_results/1", "null"), denied, text("", "x"),
		}
		if version > 5 { // a call that the client does not know of
			events = []tube.Event{required("q1", "other"), required("q2", "c"), resolved("q2", "c", "deny"), resolved("q1", "other", "approve")}
		}
		m := told(t, version, events...)
		want := []string{
			"step-start", `dynamic-tool $tools/0 t output-available {"a":1} 1`,
			`data-approval q1 {"run":"` + runID + `","id":"q1","call":"c","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z","decision":"approve"}`,
			"step-start", `dynamic-tool $tools/1 t output-error the tool t has failed {"a":1}`,
			`data-approval q2 {"run":"` + runID + `","id":"q2","call":"c","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z","decision":"deny"}`,
			"step-start", "text x",
		}
		if version > 5 {
			want = []string{
				`data-approval q1 {"run":"` + runID + `","id":"q1","call":"other","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z","decision":"approve"}`,
				`data-approval q2 {"run":"` + runID + `","id":"q2","call":"c","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z","decision":"deny"}`,
			}
		}
		if diff := cmp.Diff(want, shown(m)); diff != "" {
			t.Errorf("version %d: %s", version, diff)
		}
	}
}

func TestAStreamIsOverWhenNothingCanHappenWithoutAnAnswer(t *testing.T) {
	for version := 6; version <= 7; version++ {
		tb := newTube(0)
		r := tb.NewReader(0)
		e, m := aisdk.New(aisdk.Options{Run: runID, Version: version}), &aisdktest.Message{Version: version}
		stream(t, e, m, tb, r, text("", "Let me see."), called("0", "c"), called("1", "d"), required("qc", "c"))
		if e.Over() {
			t.Fatal("the other call goes on")
		}
		stream(t, e, m, tb, r, set("$tool_results/1", `"done"`), named("later", "1"))
		if !e.Over() || !m.Done || m.Finish != "tool-calls" {
			t.Fatalf("%+v", m)
		}
		if diff := cmp.Diff([]string{"qc"}, e.Questions()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			"step-start", "text Let me see.", `dynamic-tool $tools/0 t approval-requested {"a":1}`, `dynamic-tool $tools/1 t output-available {"a":1} "done"`,
		}, shown(m)); diff != "" {
			t.Error(diff)
		}
		if got := e.Append(nil, named("more", "1")); len(got) > 0 {
			t.Errorf("%s", got)
		}

		m.Continue()
		e.Continue("qc")
		stream(t, e, m, tb, r, resolved("qc", "c", "approve"), set("$tool_results/0", "7"), text("", "\\n\\nSo."), called("2", "c"), required("qc2", "c"))
		if !e.Over() || len(e.Questions()) != 1 || e.Questions()[0] != "qc2" {
			t.Errorf("%v", e.Questions())
		}
		m.Continue()
		e.Continue("qc2")
		stream(t, e, m, tb, r, resolved("qc2", "c", "deny"), set("$tool_results/2", "null"), denied)
		if e.Over() {
			t.Error("over again")
		}
		_ = tb.Close("completed")
		stream(t, e, m, tb, r)
		if diff := cmp.Diff([]string{
			"step-start", "text Let me see.", `dynamic-tool $tools/0 t output-available {"a":1} 7`, `dynamic-tool $tools/1 t output-available {"a":1} "done"`,
			"step-start", "text So.", `dynamic-tool $tools/2 t output-denied {"a":1}`,
		}, shown(m)); diff != "" {
			t.Errorf("version %d: %s", version, diff)
		}
		if m.Finish != "stop" || m.Text() != "Let me see.So." {
			t.Errorf("%+v", m)
		}

		// Whoever comes now is told all of it at once.
		all := tb.NewReader(0)
		late, e := &aisdktest.Message{Version: version}, aisdk.New(aisdk.Options{Run: runID, Version: version, Answered: answered(tb)})
		stream(t, e, late, tb, all)
		if diff := cmp.Diff(shown(m), shown(late)); diff != "" || e.Over() {
			t.Error(diff)
		}
	}
}

// answered reports whether a question of a run is closed.
func answered(tb *tube.Tube) func(n uint64, id string) bool {
	return func(n uint64, id string) bool {
		for e := range tb.NewReader(n + 1).Waiting() {
			if e.Name == "approval_resolved" && strings.Contains(string(e.Value), `"id":"`+id+`"`) {
				return true
			}
		}
		return false
	}
}

func TestTwoAnswersAtOnceDoNotEndTheStreamInBetween(t *testing.T) {
	tb := newTube(0)
	r := tb.NewReader(0)
	e, m := aisdk.New(aisdk.Options{Run: runID, Version: 6}), &aisdktest.Message{Version: 6}
	stream(t, e, m, tb, r, called("0", "c"), called("1", "d"), required("qc", "c"), required("qd", "d"))
	if !e.Over() || len(e.Questions()) != 2 {
		t.Fatal("not over")
	}
	m.Continue()
	e.Continue("qc", "qd")
	// One of them is through before the other has got its answer.
	stream(t, e, m, tb, r, resolved("qc", "c", "approve"), set("$tool_results/0", "1"))
	if e.Over() {
		t.Fatal("over, although both were answered")
	}
	stream(t, e, m, tb, r, resolved("qd", "d", "approve"), set("$tool_results/1", "2"), text("", "x"))
	_ = tb.Close("completed")
	stream(t, e, m, tb, r)
	if !slices.Contains(shown(m), "text x") || m.Finish != "stop" {
		t.Errorf("%q", shown(m))
	}
}

func TestAnswersOfWhichOneIsMissingEndTheStreamAgain(t *testing.T) {
	tb := newTube(0)
	r := tb.NewReader(0)
	e, m := aisdk.New(aisdk.Options{Run: runID, Version: 7}), &aisdktest.Message{Version: 7}
	stream(t, e, m, tb, r, called("0", "c"), called("1", "d"), required("qc", "c"), required("qd", "d"))
	m.Continue()
	e.Continue("qc")
	stream(t, e, m, tb, r, resolved("qc", "c", "approve"), set("$tool_results/0", "1"))
	if !e.Over() || len(e.Questions()) != 1 || e.Questions()[0] != "qd" {
		t.Errorf("%v", e.Questions())
	}
	late := aisdk.New(aisdk.Options{Run: runID, Version: 7, Answered: answered(tb)})
	stream(t, late, &aisdktest.Message{Version: 7}, tb, tb.NewReader(0))
	if diff := cmp.Diff([]string{"qd"}, late.Questions()); diff != "" || !late.Over() {
		t.Error(diff)
	}
	// Nobody answers: the run says so, and goes on.
	e.Continue()
	m.Continue()
	stream(t, e, m, tb, r, named("approval_resolved", `{"id":"qd","call":"d","decision":"deny","reason":"timeout"}`), set("$tool_results/1", "null"), denied, text("", "x"))
	_ = tb.Close("completed")
	stream(t, e, m, tb, r)
	if diff := cmp.Diff([]string{
		"step-start", `dynamic-tool $tools/0 t output-available {"a":1} 1`, `dynamic-tool $tools/1 t output-denied {"a":1}`, "step-start", "text x",
	}, shown(m)); diff != "" {
		t.Error(diff)
	}
}

// A subagent's call may have the id of the turn's own call. The client is asked about each by itself, and sees what will run.
func TestDA_01_ASubagentsQuestionIsNotAskedAsTheTurnsCall(t *testing.T) {
	for version := 6; version <= 7; version++ {
		tb, m := newTube(0), &aisdktest.Message{Version: version}
		stream(t, aisdk.New(aisdk.Options{Run: runID, Version: version}), m, tb, tb.NewReader(0),
			called("0", "c"), called("1", "s"),
			named("approval_required", `{"id":"q1","call":"c","subagent":"s","tool":"t","arguments":{"b":"<"}}`),
			named("approval_required", `{"id":"q2","call":"c","subagent":"s2","tool":"t","arguments":{"b":"<"}}`),
			named("approval_resolved", `{"id":"q2","call":"c","subagent":"s2","decision":"deny"}`),
			named("approval_required", `{"id":"q3","call":"c","tool":"t","arguments":{"a":2}}`), // a hook has changed it
		)
		if diff := cmp.Diff([]string{
			"step-start", `dynamic-tool $tools/0 t approval-requested {"a":2}`, `dynamic-tool $tools/1 t input-available {"a":1}`,
			`data-approval q1 {"run":"` + runID + `","id":"q1","call":"c","subagent":"s","tool":"t","arguments":{"b":"<"}}`,
			`data-approval q2 {"run":"` + runID + `","id":"q2","call":"c","subagent":"s2","tool":"t","arguments":{"b":"<"},"decision":"deny"}`,
		}, shown(m)); diff != "" {
			t.Errorf("version %d: %s", version, diff)
		}
	}
}

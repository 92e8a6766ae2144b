package aisdk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/aisdk/aisdktest"
)

// A client that is so slow that the log is cut behind it is told what it has missed, and nothing twice.
func TestASnapshotInMidStreamGoesOnWithWhatIsThere(t *testing.T) {
	filler := func(uri string) (list []tube.Event) { // more than the log holds
		for i := range 400 {
			list = append(list, text(uri, fmt.Sprint("word ", i, " ")))
		}
		return list
	}
	said := func() string {
		var b strings.Builder
		for i := range 400 {
			fmt.Fprint(&b, "word ", i, " ")
		}
		return b.String()
	}()
	call := set("$tools/0", `{"id":"c","name":"t","arguments":{}}`)
	for _, c := range []struct {
		name         string
		first, later []tube.Event
		want         []string
	}{
		{
			"an agent's text",
			[]tube.Event{text("", "So: ")},
			filler(""),
			[]string{"step-start", "text So: " + said},
		},
		{
			"an agent's text, of which nothing was told", nil, filler(""),
			[]string{"step-start", "text " + said},
		},
		{
			"thoughts, and then text",
			[]tube.Event{text("$reasoning_context", "hm, ")},
			append(filler("$reasoning_context"), text("", "So.")),
			[]string{"step-start", "reasoning hm, " + said, "text So."},
		},
		{
			"calls",
			[]tube.Event{text("", "So: "), call},
			append([]tube.Event{
				set("$tool_results/0", `{"a":1}`), set("$tools/1", `{"id":"d","name":"t","arguments":{}}`), set("$tool_results/1", `"x"`),
			}, filler("")...),
			[]string{"step-start", "text So: ", `dynamic-tool $tools/0 t output-available {} {"a":1}`, "text " + said, `dynamic-tool $tools/1 t output-available {} "x"`},
		},
		{
			"texts and data",
			[]tube.Event{text("a", "So: "), set("b", "{}"), text("b/c", "x")},
			append(append([]tube.Event{text("b/c", "y"), text("d", "new")}, filler("a")...), set("e", "[1]")),
			[]string{"step-start", "text a So: " + said, `data-ling b {"c":"xy"}`, "text d new", "data-ling e [1]"},
		},
		{
			"a text that was taken back",
			[]tube.Event{text("a", "No")},
			append([]tube.Event{set("a", "null")}, filler("a")...),
			[]string{"step-start", "text a No", `data-ling a "` + said + `"`},
		},
		{
			"a text at the root that was taken back",
			[]tube.Event{text("", "No")},
			append([]tube.Event{set("", "null")}, filler("")...),
			[]string{"step-start", "text No", `data-ling "` + said + `"`},
		},
		{
			"a document that was taken back",
			[]tube.Event{set("a", "1")},
			append([]tube.Event{set("", "null")}, filler("b")...),
			[]string{"step-start", "data-ling a 1", `data-ling {"b":"` + said + `"}`},
		},
		{
			"a list",
			[]tube.Event{set("", "[]"), text("0", "x")},
			filler("1"),
			[]string{"step-start", `data-ling ["x","` + said + `"]`},
		},
		{
			"calls in a list",
			[]tube.Event{text("x", "y")},
			append([]tube.Event{
				set("$tools", "[]"), call, set("$tool_results", `[7]`),
			}, filler("x")...),
			[]string{"step-start", "text x y" + said, "dynamic-tool $tools/0 t output-available {} 7"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := newTube(2 << 10)
			r := tb.NewReader(0)
			e, m := aisdk.New(aisdk.Options{Run: runID}), &aisdktest.Message{Version: 5}
			stream(t, e, m, tb, r, c.first...)
			before := m.Chunks
			stream(t, e, m, tb, r, c.later...)
			if m.Chunks-before > 20 {
				t.Fatalf("%d chunks: there was no snapshot", m.Chunks-before)
			}
			_ = tb.Close("completed")
			stream(t, e, m, tb, r)
			if diff := cmp.Diff(c.want, shown(m)); diff != "" {
				t.Error(diff)
			}
			want, _ := tb.Snapshot(false)
			for what, of := range map[string]func() (string, error){"parts": m.Document, "deltas": m.Deltas} {
				document, err := of()
				if err != nil {
					t.Fatal(err)
				}
				same(t, what, string(want), document)
			}
		})
	}
}

// A stream of a run that goes on after a restart begins when the run has taken back what it writes again.
func TestAnswerThatIsWrittenAgainAfterARestartIsToldOnce(t *testing.T) {
	const attempt = 1 << 32 // events that each attempt may have
	restarted := func(parts string) tube.Event {
		return named("restarted", `{"attempt":2,"bots":[],"parts":`+parts+`}`)
	}
	call := set("$tools/0", `{"id":"c","name":"t","arguments":{"a":1}}`)
	asks := named("approval_required", `{"id":"q","call":"c","tool":"t","arguments":{"a":1},"expires":"2026-11-21T21:10:25Z"}`)
	for _, c := range []struct {
		name                string
		before, after, rest []tube.Event
		want                []string
	}{
		{
			"an agent's text",
			[]tube.Event{text("$reasoning_context", "hm"), text("", "Half an ans")},
			[]tube.Event{restarted(`["","$reasoning_context"]`), set("$reasoning_context", "null"), set("", "null"), set("", "{}")},
			[]tube.Event{text("$reasoning_context", "Aha."), text("", "All "), text("", "of it.")},
			[]string{"step-start", "reasoning Aha.", "text All of it."},
		},
		{
			"a text that has begun again",
			[]tube.Event{text("", "Half an ans")},
			[]tube.Event{restarted(`[""]`), set("", "null"), set("", "{}"), text("", "All ")},
			[]tube.Event{text("", "of it.")},
			[]string{"step-start", "text All of it."},
		},
		{
			"texts and data",
			[]tube.Event{text("a", "half"), set("b", "{}"), text("b/c", "kept"), text("b/d", "half"), text("e", "kept")},
			[]tube.Event{restarted(`["a","b/d"]`), set("a", "null"), set("b/d", "null")},
			[]tube.Event{text("a", "all"), text("b/d", "all")},
			[]string{"step-start", `data-ling a "all"`, `data-ling b {"c":"kept","d":"all"}`, "text e kept"},
		},
		{
			"a call that waits for approval",
			[]tube.Event{text("", "Let me see."), call, asks},
			[]tube.Event{restarted("[]"), asks},
			nil,
			[]string{"step-start", "text Let me see.", `dynamic-tool $tools/0 t approval-requested {"a":1}`},
		},
		{
			"a call that was approved, and asked about again",
			[]tube.Event{call, asks, named("approval_resolved", `{"id":"q","call":"c","decision":"approve"}`), set("$tool_results/0", "1"), text("", "Half")},
			[]tube.Event{restarted(`[""]`), set("", "null"), set("", "{}")},
			[]tube.Event{text("", "All.")},
			[]string{"step-start", `dynamic-tool $tools/0 t output-available {"a":1} 1`, "step-start", "text All."},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := newTube(0)
			stream(t, aisdk.New(aisdk.Options{Run: runID, Version: 6}), &aisdktest.Message{Version: 6}, tb, tb.NewReader(0), c.before...)
			tb.Leap(attempt)
			for _, e := range c.after {
				if _, err := tb.Send(e); err != nil {
					t.Fatal(err)
				}
			}
			e, m, r := aisdk.New(aisdk.Options{Run: runID, Version: 6, Answered: answered(tb)}), &aisdktest.Message{Version: 6}, tb.NewReader(0)
			stream(t, e, m, tb, r)
			if !e.Over() {
				stream(t, e, m, tb, r, c.rest...)
				_ = tb.Close("completed")
				stream(t, e, m, tb, r)
			}
			if diff := cmp.Diff(c.want, shown(m)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAValueThatIsDoneIsToldAtOnce(t *testing.T) {
	done := func(uri string) tube.Event { return tube.Event{Kind: tube.Done, URI: []byte(uri)} }
	tb := newTube(0)
	r := tb.NewReader(0)
	e, m := aisdk.New(aisdk.Options{Run: runID}), &aisdktest.Message{Version: 5}
	stream(t, e, m, tb, r, set("a", "{}"), text("a/b", "x"), done("a/b"), done("a"), text("c", "y"), done("c"))
	if diff := cmp.Diff([]string{"step-start", `data-ling a {"b":"x"}`, "text c y"}, shown(m)); diff != "" || m.Parts[2].Open {
		t.Errorf("%s", diff)
	}
	whole := newTube(0)
	r = whole.NewReader(0)
	e, m = aisdk.New(aisdk.Options{Run: runID}), &aisdktest.Message{Version: 5}
	stream(t, e, m, whole, r, set("", "[]"), text("0", "x"), done(""))
	if diff := cmp.Diff([]string{"step-start", `data-ling ["x"]`}, shown(m)); diff != "" {
		t.Errorf("%s", diff)
	}
}

func TestASourceThatASnapshotBringsIsSent(t *testing.T) {
	tb := newTube(2 << 10)
	r, e := tb.NewReader(0), aisdk.New(aisdk.Options{Run: runID})
	var out []byte
	send := func(events ...tube.Event) {
		for _, ev := range events {
			if _, err := tb.Send(ev); err != nil {
				t.Fatal(err)
			}
		}
		for ev := range r.Waiting() {
			out = e.Append(out, ev)
		}
	}
	send(text("", "So: "))
	missed := []tube.Event{set("$citations/0", `{"url":"https://example.com/a","title":"A"}`)}
	for range 400 { // more than the log holds
		missed = append(missed, text("", "and more of it "))
	}
	send(missed...)
	want := `data: {"type":"source-url","sourceId":"$citations/0","url":"https://example.com/a","title":"A"}`
	if n := strings.Count(string(out), want); n != 1 || len(out) > 20_000 {
		t.Errorf("%d sources in %d bytes", n, len(out))
	}
}

package tape_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func open(t testing.TB) *tape.Tape {
	t.Helper()
	s := tapetest.NewMemory(nil)
	t.Cleanup(func() { _ = s.Close() })
	tp, err := tape.Open(t.Context(), s, t.TempDir(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func put(t testing.TB, tp *tape.Tape, entries ...tape.Entry) {
	t.Helper()
	if _, err := tp.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
}

func raw(kind tape.Kind, payload string) tape.Entry {
	return tape.Entry{Kind: kind, Payload: json.RawMessage(payload)}
}

// view returns the messages as text, without the anchor that begins the tape.
func view(t testing.TB, tp *tape.Tape, sel tape.Selector) []string {
	t.Helper()
	v, err := tp.View(t.Context(), sel)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range v.Messages {
		if !strings.Contains(string(m.JSON), "session/start") {
			all = append(all, string(m.JSON))
		}
	}
	return all
}

func TestAViewStartsAtTheLastAnchorUnlessToldOtherwise(t *testing.T) { // TA-50
	tp := open(t)
	say := func(s string) tape.Entry { return tape.NewMessage("user", s) }
	handoff := func(name string, state any) {
		if _, err := tp.Handoff(t.Context(), name, state); err != nil {
			t.Fatal(err)
		}
	}
	put(t, tp, say("a"))
	handoff("one", nil)
	put(t, tp, say("b"), say("hidden").With(tape.Meta{ContextHidden: true}))
	handoff("two", map[string]any{"天": "<&>"})
	put(t, tp, say("c"), say("hidden").With(tape.Meta{ContextHidden: true}))

	one := `{"role":"assistant","content":"[Anchor created: one]: null"}`
	two := `{"role":"assistant","content":"[Anchor created: two]: {\"天\":\"<&>\"}"}`
	message := func(s string) string { return `{"role":"user","content":"` + s + `"}` }
	for name, row := range map[string]struct {
		sel  tape.Selector
		want []string
	}{
		"the last anchor, that one included": {nil, []string{two, message("c")}},
		"a named anchor":                     {tape.Selection{From: tape.Start{Anchor: "one"}}, []string{one, message("b"), two, message("c")}},
		"the whole tape":                     {tape.Selection{From: tape.Start{Whole: true}}, []string{message("a"), one, message("b"), two, message("c")}},
	} {
		if diff := cmp.Diff(row.want, view(t, tp, row.sel)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	v, err := tp.View(t.Context(), nil)
	if err != nil || v.First != 6 || v.Last != 7 {
		t.Errorf("the view is made of entries %d–%d, %v, want 6–7", v.First, v.Last, err)
	}
	if _, err := tp.View(t.Context(), tape.Selection{From: tape.Start{Anchor: "never"}}); !errors.Is(err, tape.ErrAnchorNotFound) {
		t.Errorf("a view from an anchor that is not there: %v", err)
	}

	// A tape without an anchor is taken whole.
	if err := tape.Import(t.Context(), tp.Store(), t.TempDir(), "none", strings.NewReader(`{"kind":"message","payload":{"role":"user","content":"x"}}`)); err != nil {
		t.Fatal(err)
	}
	for info, err := range tp.Store().Sessions(t.Context(), tape.SessionQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Session == "none" {
			none, err := tape.Lookup(t.Context(), tp.Store(), info.Workspace, "none")
			if err != nil {
				t.Fatal(err)
			}
			if got := view(t, none, nil); !slices.Equal(got, []string{message("x")}) {
				t.Errorf("the view of a tape without an anchor is %q", got)
			}
		}
	}
}

func TestEntriesBecomeMessages(t *testing.T) { // TA-51, TA-52, TA-53
	const (
		call     = `{"content":"so","calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`
		asked    = `{"role":"assistant","content":"so","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`
		lost     = `"content":"{\"error\":{\"kind\":\"interrupted\"}}"}`
		user     = `{"role":"user","content":"u"}`
		aSays1   = `{"role":"tool","tool_call_id":"a","name":"f","content":"1"}`
		bSays2   = `{"role":"tool","tool_call_id":"b","name":"g","content":"2"}`
		aIsLost  = `{"role":"tool","tool_call_id":"a","name":"f",` + lost
		bIsLost  = `{"role":"tool","tool_call_id":"b","name":"g",` + lost
		anchored = `{"role":"assistant","content":"[Anchor created: x]: null"}`
	)
	calls := raw("tool_call", call)
	result := func(payload string) tape.Entry { return raw("tool_result", payload) }
	for _, row := range []struct {
		name    string
		entries []tape.Entry
		want    []string
	}{
		{"a message goes byte for byte", []tape.Entry{raw("message", `{ "role" : "user", "content":"\u5929", "x":[1.0] }`)}, []string{`{ "role" : "user", "content":"\u5929", "x":[1.0] }`}},
		{"a message without a role is skipped", []tape.Entry{raw("message", `{"content":"x"}`), raw("message", `{"role":7}`)}, nil},
		{"other kinds are nothing", []tape.Entry{tape.NewSystem("s"), tape.NewEvent("e", 1), tape.NewError("k", "m"), tape.NewReasoning("r"), raw("alien", user)}, nil},
		{"results by id, in their own order", []tape.Entry{calls, result(`{"ids":["b","a"],"results":["2","1"]}`)}, []string{asked, bSays2, aSays1}},
		{"results by position", []tape.Entry{calls, result(`{"results":["1","2"]}`)}, []string{asked, aSays1, bSays2}},
		{"results in two entries", []tape.Entry{calls, result(`{"ids":["b"],"results":["2"]}`), tape.NewEvent("x", nil), result(`{"results":["1"]}`)}, []string{asked, bSays2, aSays1}},
		{"a result without an id takes the call that those with one leave", []tape.Entry{calls, result(`{"ids":[null,"a"],"results":["2","1"]}`)}, []string{asked, bSays2, aSays1}},
		{"ids that are fewer than results", []tape.Entry{calls, result(`{"ids":["b"],"results":["2","1"]}`)}, []string{asked, bSays2, aSays1}},
		{"what is no string is its JSON", []tape.Entry{calls, result(`{"ids":["a","b"],"results":[{"k": "天\"\n"},null]}`)}, []string{
			asked, `{"role":"tool","tool_call_id":"a","name":"f","content":"{\"k\": \"天\\\"\\n\"}"}`, `{"role":"tool","tool_call_id":"b","name":"g","content":"null"}`,
		}},
		{"a call left open gets a result after the others", []tape.Entry{calls, result(`{"ids":["b"],"results":["2"]}`), raw("message", user)}, []string{asked, bSays2, aIsLost, user}},
		{"two calls left open at the end", []tape.Entry{calls}, []string{asked, aIsLost, bIsLost}},
		{"the next call closes the ones before", []tape.Entry{calls, calls, result(`{"results":["1","2","3"]}`)}, []string{asked, aIsLost, bIsLost, asked, aSays1, bSays2}},
		{"a message closes them", []tape.Entry{calls, raw("message", user), result(`{"ids":["a"],"results":["1"]}`)}, []string{asked, aIsLost, bIsLost, user}},
		{"a result without a call is dropped", []tape.Entry{result(`{"ids":["a"],"results":["1"]}`), result(`{"results":["1"]}`), raw("message", user)}, []string{user}},
		{"a result of another call is dropped", []tape.Entry{calls, result(`{"ids":["z","a","a","b"],"results":["0","1","0","2"]}`)}, []string{asked, aSays1, bSays2}},
		{"results that are no list are none", []tape.Entry{calls, result(`{"results":"1"}`), result(`{}`)}, []string{asked, aIsLost, bIsLost}},
		{"an anchor amid the results follows them", []tape.Entry{calls, result(`{"results":["1"]}`), tape.NewAnchor("x", nil), result(`{"results":["2"]}`)}, []string{asked, aSays1, bSays2, anchored}},
		{"items that are no objects are dropped", []tape.Entry{raw("tool_call", `{"content":null,"calls":[1,"x",{"id":"a","function":{"name":"f"}},null]}`), result(`{"results":["1"]}`)}, []string{
			`{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]}`, aSays1,
		}},
		{"no item, no message", []tape.Entry{raw("tool_call", `{"content":"x","calls":[1]}`), raw("tool_call", `{}`), raw("tool_call", `{"calls":{}}`)}, nil},
		{"calls without an id, or with another's, get one", []tape.Entry{raw("tool_call", `{"calls":[{"function":{"name":"f"}},{"id":"a"},{"id":"a"}]}`), result(`{"results":["1"]}`), result(`{"ids":["a","a"],"results":["2","3"]}`)}, []string{
			`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"},"id":"call_1"},{"id":"a"},{"id":"call_3"}]}`,
			`{"role":"tool","tool_call_id":"call_1","name":"f","content":"1"}`, `{"role":"tool","tool_call_id":"a","content":"2"}`, `{"role":"tool","tool_call_id":"call_3","content":"3"}`,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			messages, err := tape.Default.Select(t.Context(), func(yield func(tape.Entry, error) bool) {
				for _, e := range row.entries {
					if !yield(e, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range tape.Repair(messages) {
				got = append(got, string(m.JSON))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if err := acceptable(tape.Repair(messages)); err != nil {
				t.Error(err)
			}
		})
	}
}

// acceptable says what a provider would refuse.
func acceptable(messages []tape.Message) error {
	open := map[string]bool{}
	for i, m := range messages {
		var p struct {
			Role       string `json:"role"`
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(m.JSON, &p); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if p.Role != m.Role || p.Role == "" {
			return fmt.Errorf("message %d has the role %q, and says %q", i, p.Role, m.Role)
		}
		if p.Role == "tool" {
			if !open[p.ToolCallID] {
				return fmt.Errorf("message %d answers %q, which is no open call", i, p.ToolCallID)
			}
			delete(open, p.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("before message %d, calls have no result: %v", i, open)
		}
		for _, c := range p.ToolCalls {
			if c.ID == "" || open[c.ID] {
				return fmt.Errorf("message %d has a call with id %q, which is empty or taken", i, c.ID)
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("at the end, calls have no result: %v", open)
	}
	return nil
}

func drawEntries(r *rapid.T) []tape.Entry {
	id := func() string {
		return rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `""`, `null`, `7`}).Draw(r, "id")
	}
	list := func(label string, most int, item func() string) string {
		items := make([]string, rapid.IntRange(0, most).Draw(r, label))
		for i := range items {
			items[i] = item()
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	call := func() string {
		return rapid.SampledFrom([]string{
			`{"id":` + id() + `,"function":{"name":"f"}}`, `{"function":{}}`, `{"id":` + id() + `,"function":7}`, `"x"`, `{}`,
		}).Draw(r, "call")
	}
	entries := make([]tape.Entry, rapid.IntRange(0, 12).Draw(r, "entries"))
	for i := range entries {
		switch rapid.IntRange(0, 6).Draw(r, "kind") {
		case 0:
			entries[i] = tape.NewMessage(rapid.SampledFrom([]string{"user", "assistant", "tool", ""}).Draw(r, "role"), "x")
		case 1, 2:
			entries[i] = raw("tool_call", `{"content":"x","calls":`+list("calls", 3, call)+`}`)
		case 3, 4:
			entries[i] = raw("tool_result", `{"ids":`+list("ids", 3, id)+`,"results":`+list("results", 4, func() string { return `"r"` })+`}`)
		case 5:
			entries[i] = raw("message", `{"role":"assistant","content":"","tool_calls":`+list("calls", 3, call)+`}`)
		default:
			entries[i] = tape.NewEvent("e", nil)
		}
		if rapid.IntRange(0, 9).Draw(r, "hidden") == 0 {
			entries[i] = entries[i].With(tape.Meta{ContextHidden: true})
		}
	}
	return entries
}

func TestAViewIsAlwaysOneThatAProviderAccepts(t *testing.T) { // TA-53, TA-54
	rapid.Check(t, func(r *rapid.T) {
		tp := open(t)
		entries := drawEntries(r)
		cut := rapid.IntRange(0, len(entries)).Draw(r, "anchor at")
		if cut > 0 {
			put(t, tp, entries[:cut]...)
		}
		if _, err := tp.Handoff(t.Context(), "x", nil); err != nil {
			r.Fatal(err)
		}
		if cut < len(entries) {
			put(t, tp, entries[cut:]...)
		}
		for name, sel := range map[string]tape.Selector{"default": nil, "whole": tape.Selection{From: tape.Start{Whole: true}}, "careless": careless{}} {
			v, err := tp.View(t.Context(), sel)
			if err != nil {
				r.Fatal(err)
			}
			if err := acceptable(v.Messages); err != nil {
				r.Fatalf("%s: %v\n%v", name, err, v.Messages)
			}
			again, err := tp.View(t.Context(), sel)
			if diff := cmp.Diff(v, again); err != nil || diff != "" {
				r.Fatalf("%s, once more: %v\n%s", name, err, diff)
			}
		}
	})
}

// careless is a selector that takes every second entry's payload for a message.
type careless struct{}

func (careless) Select(_ context.Context, entries iter.Seq2[tape.Entry, error]) ([]tape.Message, error) {
	var out []tape.Message
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		var p struct{ Role string }
		_ = json.Unmarshal(e.Payload, &p)
		switch e.Kind {
		case tape.KindToolCall:
			out = append(out, tape.Message{Role: "assistant", JSON: json.RawMessage(`{"role":"assistant","tool_calls":` + string(e.Payload[len(`{"content":"x","calls":`):]))})
		case tape.KindToolResult:
			out = append(out, tape.Message{Role: "tool", JSON: json.RawMessage(`{"role":"tool","tool_call_id":"a","content":"r"}`)})
		case tape.KindMessage:
			out = append(out, tape.Message{Role: p.Role, JSON: e.Payload})
		default:
			out = append(out, tape.Message{Role: "user", JSON: json.RawMessage(`{"role":"user"`)}) // no JSON
		}
	}
	return out, nil
}

// TA-54: the selector is replaced and nothing else: where it starts, what it is not given, and the repair stay.
func TestASelectorGetsTheVisibleEntriesFromTheLastAnchorOn(t *testing.T) {
	tp := open(t)
	put(t, tp, tape.NewMessage("user", "before"))
	if _, err := tp.Handoff(t.Context(), "x", nil); err != nil {
		t.Fatal(err)
	}
	put(t, tp, tape.NewMessage("user", "hidden").With(tape.Meta{ContextHidden: true}), tape.NewEvent("e", nil))
	var got []int64
	sel := selectFunc(func(entries iter.Seq2[tape.Entry, error]) ([]tape.Message, error) {
		for e, err := range entries {
			if err != nil {
				return nil, err
			}
			got = append(got, e.ID)
		}
		return []tape.Message{{Role: "tool", JSON: json.RawMessage(`{"role":"tool","tool_call_id":"z"}`)}}, nil
	})
	v, err := tp.View(t.Context(), sel)
	if err != nil || len(v.Messages) != 0 {
		t.Errorf("the view is %v, %v, want no message: a result without its call", v, err)
	}
	if !slices.Equal(got, []int64{3, 5}) {
		t.Errorf("the selector got %v, want the anchor 3 and the event 5", got)
	}
	bang := errors.New("bang")
	if _, err := tp.View(t.Context(), selectFunc(func(iter.Seq2[tape.Entry, error]) ([]tape.Message, error) { return nil, bang })); !errors.Is(err, bang) {
		t.Errorf("a selector that fails: %v", err)
	}
}

type selectFunc func(iter.Seq2[tape.Entry, error]) ([]tape.Message, error)

func (f selectFunc) Select(_ context.Context, entries iter.Seq2[tape.Entry, error]) ([]tape.Message, error) {
	return f(entries)
}

func BenchmarkView50(b *testing.B) {
	for _, before := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("tape=%d", before), func(b *testing.B) {
			tp := open(b)
			batch := make([]tape.Entry, 100)
			for i := range batch {
				batch[i] = tape.NewMessage("user", "an old message of some length, as they are")
			}
			for range before / len(batch) {
				put(b, tp, batch...)
			}
			if _, err := tp.Handoff(b.Context(), "x", nil); err != nil {
				b.Fatal(err)
			}
			put(b, tp, batch[:49]...)
			b.ReportAllocs()
			for b.Loop() {
				if v, err := tp.View(b.Context(), nil); err != nil || len(v.Messages) != 50 {
					b.Fatal(len(v.Messages), err)
				}
			}
		})
	}
}

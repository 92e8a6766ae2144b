package run

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

const turnID = "t-resumed"

// model answers by what stands in the conversation.
type scriptedModel struct{}

func (scriptedModel) Model(string) (adapter.Model, error) { return scriptedModel{}, nil }

func (scriptedModel) Stream(_ context.Context, r adapter.Request) iter.Seq2[adapter.Chunk, error] {
	call := func(i int, id, name, text string) adapter.Chunk {
		return adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: id, Name: name, Arguments: `{"text":"` + text + `"}`}}
	}
	list := []adapter.Chunk{
		{Reasoning: "Hm"},
		{Reasoning: "."},
		{Text: "Let me "},
		{Text: "see."},
		{Citation: &adapter.Citation{URL: "https://a.example"}},
		call(0, "c1", "echo", "one"), call(1, "c2", "fail", "two"),
		{Finish: adapter.FinishToolCalls},
	}
	switch n := len(r.Messages); {
	case n > 6:
		list = []adapter.Chunk{{Text: "\n"}, {Text: "\nIt is done."}, {Citation: &adapter.Citation{URL: "https://b.example"}}, {Finish: adapter.FinishStop}}
	case n > 2:
		list = []adapter.Chunk{{Text: "Once more:\n"}, {Reasoning: "Hm?"}, call(0, "c1", "echo", "three"), {Finish: adapter.FinishToolCalls}}
	}
	return func(yield func(adapter.Chunk, error) bool) {
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// store notes how long the tube was at each append.
type countingTapes struct {
	*tapetest.Memory
	tube    *tube.Tube
	lengths []appended
}

type appended struct{ entries, events int }

func (s *countingTapes) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	before := 0
	if len(s.lengths) > 0 {
		before = s.lengths[len(s.lengths)-1].entries
	}
	s.lengths = append(s.lengths, appended{before + len(b.Entries), int(s.tube.Len())})
	return s.Memory.Append(ctx, name, b)
}

// process is one that runs the turn.
type process struct {
	dir   string
	store *countingTapes
	m     *ling.Manager
}

func newProcess(t *testing.T, dir string) *process {
	m := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: scriptedModel{}})
	t.Cleanup(func() { m.Cancel(nil) })
	return &process{dir, &countingTapes{Memory: tapetest.NewMemory(nil), tube: m.Tube()}, m}
}

// run runs the turn, or goes on with it.
func (p *process) run(t *testing.T, told *agent.Told) {
	t.Helper()
	type in struct {
		Text string `json:"text"`
	}
	tools, err := tool.NewSet(
		tool.Must(tool.New("echo", "", func(_ context.Context, i in) (string, error) { return i.Text, nil }, tool.WithIdempotent())),
		tool.Must(tool.New("fail", "", func(context.Context, in) (string, error) { return "", fmt.Errorf("no") }, tool.WithIdempotent())))
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Options{Models: scriptedModel{}, Store: p.store, Tools: tools, Bare: true, Instructions: "x"})
	if err != nil {
		t.Fatal(err)
	}
	f := turn.New(turn.Options{Workspace: p.dir})
	if err := f.Register(agent.Name, a); err != nil {
		t.Fatal(err)
	}
	w := &transcript{manager: p.m, agent: "a", maxBytes: 1 << 20, tooLarge: func() { t.Error("too large") }}
	if told != nil {
		w.resume(told)
	}
	e := &turn.Envelope{SessionID: "s", Content: "go", Resumed: true}
	if _, err := f.Process(t.Context(), e, turn.WithID(turnID), turn.WithSink(func(e turn.Event, err error) {
		if err == nil {
			w.write(e)
		}
	})); err != nil {
		t.Fatal(err)
	}
}

func (p *process) tape(t *testing.T) *tape.Tape {
	t.Helper()
	found, err := tape.Lookup(t.Context(), p.store, p.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Wherever a process dies, the document at the end is that of a turn that nothing has disturbed.
func TestDocumentOfAResumedTurnIsThatOfAnUndisturbedOne(t *testing.T) {
	first := newProcess(t, t.TempDir())
	first.run(t, nil)
	document, reserved := first.m.Tube().Snapshot(true)
	if want := `"Let me see.\n\nOnce more:\n\n\nIt is done."`; string(document) != want {
		t.Fatalf("%s, want %s", document, want)
	}
	var entries []tape.Entry
	for e, err := range first.tape(t).Read(t.Context(), tape.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	events := slices.Collect(first.m.Tube().NewReader(0).Waiting())
	all := append(slices.Clone(first.store.lengths), appended{len(entries), len(events)})
	for i, at := range all[:len(all)-1] {
		for n := max(1, at.events); n <= all[i+1].events; n++ {
			t.Run(fmt.Sprintf("%d entries and %d events", at.entries, n), func(t *testing.T) {
				next := newProcess(t, first.dir)
				if _, err := next.store.Memory.Append(t.Context(), first.tape(t).Name(),
					tape.Batch{Create: true, Session: "s", Workspace: first.dir, Entries: entries[:at.entries]}); err != nil {
					t.Fatal(err)
				}
				for _, e := range events[1:n] {
					if _, err := next.m.Tube().Send(e); err != nil {
						t.Fatal(err)
					}
				}
				told, err := agent.ReadTurn(t.Context(), next.tape(t), turnID)
				if err != nil {
					t.Fatal(err)
				}
				parts := correct(next.m.Tube(), told)
				if again := correct(next.m.Tube(), told); len(again) > 0 {
					t.Errorf("taken back once more: %q", again)
				}
				next.run(t, &told)
				gotDocument, gotReserved := next.m.Tube().Snapshot(true)
				if diff := cmp.Diff([]string{string(document), values(t, reserved)}, []string{string(gotDocument), values(t, gotReserved)}); diff != "" {
					t.Errorf("taken back: %q, told %+v\n%s", parts, told, diff)
				}
			})
		}
	}
}

// values writes what stands beside a document, with sorted names.
func values(t *testing.T, reserved []byte) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(reserved, &all); err != nil {
		t.Fatal(err)
	}
	text, _ := json.MarshalIndent(all, "", " ")
	return string(text)
}

func correct(t *tube.Tube, told agent.Told) []string {
	parts, send := correctDocument(t, told)
	send()
	return parts
}

func TestCorrectDocumentRemovesWhatTheTapeDoesNotHave(t *testing.T) {
	calls := []tool.Call{{ID: "c1", Name: "a", Arguments: json.RawMessage(`{}`)}, {ID: "c2", Name: "b", Arguments: json.RawMessage(`{"x":`)}}
	shown := [][2]string{
		{"", `"Hello wor"`},
		{"$reasoning_context", `"Hm."`},
		{"$tools/0", `{"id":"c1","name":"a","arguments":{}}`},
		{"$tools/1", `{"id":"c2","name":"b","arguments":"{\"x\":"}`},
		{"$tool_results/0", `"one"`},
		{"$citations/0", `{"url":"https://a.example"}`},
		{"$citations/1", `{"url":"https://b.example"}`},
		{"$media/0", `{"type":"image"}`},
	}
	for name, test := range map[string]struct {
		told     agent.Told
		parts    []string
		document string
		reserved string // of what changes
	}{
		"nothing": {
			agent.Told{Text: "Hello wor", Reasoning: "Hm.", Calls: calls, Results: map[int]json.RawMessage{0: json.RawMessage(`"one"`)}, Citations: 2, Media: 1},
			nil, `"Hello wor"`, "",
		},
		"all": {
			agent.Told{},
			[]string{"", "$citations/0", "$citations/1", "$media/0", "$reasoning_context", "$tool_results/0", "$tools/0", "$tools/1"},
			`{}`,
			`"$citations":{"0":null,"1":null},"$media":{"0":null},"$reasoning_context":null,"$tool_results":{"0":null},"$tools":{"0":null,"1":null}`,
		},
		"the end of the text": {
			agent.Told{Text: "Hello", Reasoning: "Hm.", Calls: calls[:1], Results: map[int]json.RawMessage{0: json.RawMessage(`"one"`)}, Citations: 1, Media: 1},
			[]string{"", "$citations/1", "$tools/1"},
			`"Hello"`, "",
		},
		"a result": {
			agent.Told{Text: "Hello wor", Reasoning: "Hm.", Calls: calls, Citations: 2, Media: 1},
			[]string{"$tool_results/0"},
			`"Hello wor"`, "",
		},
		"a call that a hook has replaced": {
			agent.Told{Text: "Hello wor", Reasoning: "Hm.", Calls: calls[1:], Results: map[int]json.RawMessage{0: json.RawMessage("null")}, Citations: 2, Media: 1},
			[]string{"$tool_results/0", "$tools/0", "$tools/1"},
			`"Hello wor"`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb := tube.New("r", &tube.Options{})
			for _, v := range shown {
				e := tube.Event{Kind: tube.Set, URI: []byte(v[0]), Value: []byte(v[1])}
				if _, err := tb.Send(e); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.parts, correct(tb, test.told)); diff != "" {
				t.Error(diff)
			}
			document, reserved := tb.Snapshot(true)
			if string(document) != test.document || test.reserved != "" && !sameJSON(t, string(reserved), "{"+test.reserved+"}") {
				t.Errorf("%s %s", document, reserved)
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	return values(t, []byte(a)) == values(t, []byte(b))
}

// What the process could not tell any more, because it died between the tape and the tube, is told by the next.
func TestCorrectDocumentAddsWhatTheTapeHasAndReadersHaveNot(t *testing.T) {
	tb := tube.New("r", &tube.Options{})
	told := agent.Told{
		Text: "Hello", Calls: []tool.Call{{ID: "c1", Name: "a", Arguments: json.RawMessage(`{}`)}, {ID: "c2", Name: "a", Arguments: json.RawMessage(`{}`)}},
		Results: map[int]json.RawMessage{0: json.RawMessage(`"one"`), 1: json.RawMessage("null")},
	}
	if parts := correct(tb, told); len(parts) > 0 {
		t.Errorf("%q", parts)
	}
	without := told
	without.Results = nil
	correctDocument(tb, without) // a process that ran the call again has died before readers saw the result
	correctDocument(tb, told)
	document, reserved := tb.Snapshot(true)
	if string(document) != `"Hello"` || !strings.Contains(string(reserved), `"$tool_results":{"0":"one","1":null}`) {
		t.Errorf("%s %s", document, reserved)
	}
}

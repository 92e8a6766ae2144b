package aisdk_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire/aisdk"
)

func TestATapeIsTheMessagesOfAChat(t *testing.T) {
	var entries []tape.Entry
	add := func(turn string, list ...tape.Entry) {
		for _, e := range list {
			e = e.With(tape.Meta{Turn: turn})
			e.ID = int64(len(entries) + 1)
			entries = append(entries, e)
		}
	}
	call := func(id, name, arguments string) tape.Call {
		return tape.Call{ID: id, Function: tape.FunctionCall{Name: name, Arguments: arguments}}
	}
	// What a client said of earlier comes with the first turn.
	add("run1", tape.NewMessage("user", "before"), tape.NewMessage("assistant", "and before"))
	add("run1", tape.NewEvent("turn.start", map[string]string{"model": "m"}), tape.NewMessage("user", "hello <you>"))
	add("run1", tape.NewReasoning("hm"), tape.NewToolCall("Let me see.", call("c", "weather", `{"a":1}`), call("d", "broken", "no json"), call("", "lost", "{}")))
	add("run1", tape.NewToolResult([]string{"d"}, map[string]any{"error": map[string]string{"kind": "failed", "message": "secret"}}), tape.NewToolResult([]string{"c"}, "clear"))
	add("run1", tape.NewToolCall("", call("c", "weather", "{}")), tape.NewToolResult([]string{"c"}, map[string]int{"sky": 1}))
	add("run1", tape.NewMessage("assistant", "It is clear."), tape.NewEvent("turn.end", nil))
	add("run2", tape.NewEvent("turn.start", map[string]string{"workflow": "w"}), tape.NewMessage("user", "again"), tape.NewMessage("assistant", `{"a/b":"text","list":[1.10]}`))
	add("run3", tape.NewEvent("turn.start", map[string]string{"workflow": "w"}), tape.NewMessage("user", "list"), tape.NewMessage("assistant", `[1]`))
	add("run4", tape.NewEvent("turn.start", map[string]string{"workflow": "w"}), tape.NewMessage("user", "text"), tape.NewMessage("assistant", "plain {"))
	add("run5", tape.NewEvent("turn.start", map[string]string{"model": "m"}), tape.NewMessage("user", []map[string]string{{"type": "text", "text": "in parts"}}))
	add("run5", tape.NewMessage("assistant", "half of"))

	text := func(m aisdk.Message) (lines []string) {
		for _, p := range m.Parts {
			line, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		return append([]string{m.ID + " " + m.Role}, lines...)
	}
	var got [][]string
	for _, m := range aisdk.Messages(entries, "run5") {
		got = append(got, text(m))
	}
	const step = `{"type":"step-start"}`
	if diff := cmp.Diff([][]string{
		{"entry-1 user", `{"type":"text","text":"before","state":"done"}`},
		{"entry-2 assistant", step, `{"type":"text","text":"and before","state":"done"}`},
		{"entry-4 user", `{"type":"text","text":"hello \u003cyou\u003e","state":"done"}`},
		{
			"run1 assistant", step, `{"type":"reasoning","text":"hm","state":"done"}`, `{"type":"text","text":"Let me see.","state":"done"}`,
			`{"type":"dynamic-tool","state":"output-available","toolName":"weather","toolCallId":"entry-6-0","input":{"a":1},"output":"clear","providerExecuted":true}`,
			`{"type":"dynamic-tool","state":"output-error","toolName":"broken","toolCallId":"entry-6-1","input":"no json","errorText":"the tool broken has failed","providerExecuted":true}`,
			`{"type":"dynamic-tool","state":"output-error","toolName":"lost","toolCallId":"entry-6-2","input":{},"errorText":"the answer ended before this was done","providerExecuted":true}`,
			step, `{"type":"dynamic-tool","state":"output-available","toolName":"weather","toolCallId":"entry-9-0","input":{},"output":{"sky":1},"providerExecuted":true}`,
			step, `{"type":"text","text":"It is clear.","state":"done"}`,
		},
		{"entry-14 user", `{"type":"text","text":"again","state":"done"}`},
		{"run2 assistant", step, `{"type":"text","text":"text","state":"done","providerMetadata":{"lingserve":{"uri":"a\\/b"}}}`, `{"type":"data-ling","id":"list","data":[1.10]}`},
		{"entry-17 user", `{"type":"text","text":"list","state":"done"}`},
		{"run3 assistant", step, `{"type":"data-ling","id":"","data":[1]}`},
		{"entry-20 user", `{"type":"text","text":"text","state":"done"}`},
		{"run4 assistant", step, `{"type":"text","text":"plain {","state":"done"}`},
		{"entry-23 user", `{"type":"text","text":"in parts","state":"done"}`},
	}, got); diff != "" {
		t.Error(diff)
	}
	all := aisdk.Messages(entries, "")
	if last := all[len(all)-1]; last.ID != "run5" || *last.Parts[1].Text != "half of" {
		t.Errorf("%+v", last)
	}
	add("run5", tape.NewEvent("turn.end", map[string]string{"status": "canceled"}))
	add("run6", tape.NewMessage("user", "x"), tape.NewMessage("assistant", "half"), tape.NewEvent("turn.end", map[string]string{"status": "error"}))
	add("run7", tape.NewMessage("user", "x"), tape.NewMessage("assistant", "all"), tape.NewEvent("turn.end", map[string]string{"status": "ok"}))
	got = nil
	for _, m := range aisdk.Messages(entries, "") {
		if of, is := m.Metadata.(aisdk.Metadata); is {
			got = append(got, []string{of.Run, of.Status})
		}
	}
	if diff := cmp.Diff([][]string{{"run1", ""}, {"run2", ""}, {"run3", ""}, {"run4", ""}, {"run5", "canceled"}, {"run6", "failed"}, {"run7", ""}}, got); diff != "" {
		t.Error(diff)
	}
	if text, _ := json.Marshal(aisdk.Messages(nil, "")); string(text) != "[]" {
		t.Errorf("%s", text)
	}
}

func TestEntriesThatSayNothingAreNoMessages(t *testing.T) {
	for _, payload := range []string{`{}`, `{"role":"system","content":"x"}`, `[]`, `{"role":7}`} {
		e := tape.Entry{ID: 1, Kind: tape.KindMessage, Payload: json.RawMessage(payload)}
		if list := aisdk.Messages([]tape.Entry{e}, ""); len(list) > 0 {
			t.Errorf("%s: %+v", payload, list)
		}
	}
	lost := tape.Entry{ID: 1, Kind: tape.KindToolResult, Payload: json.RawMessage(`{"ids":["c"],"results":[1]}`)}
	if list := aisdk.Messages([]tape.Entry{lost}, ""); len(list) > 0 {
		t.Errorf("%+v", list) // its call is older than what was read
	}
}

// DH-13: a message of the tape has its texts as their stream has shown them.
func TestATextOfATapeBeginsAsItsStreamDoes(t *testing.T) {
	entries := []tape.Entry{tape.NewMessage("user", "Is it?"), tape.NewMessage("assistant", "\n\nIt is.")}
	list := aisdk.Messages(entries, "")
	if last := list[len(list)-1]; *last.Parts[len(last.Parts)-1].Text != "It is." {
		t.Errorf("got %q", *last.Parts[len(last.Parts)-1].Text)
	}
}

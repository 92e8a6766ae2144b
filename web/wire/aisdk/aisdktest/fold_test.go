package aisdktest

import (
	"strings"
	"testing"
)

// WIRES: each of these ends the stream in one of the clients, or leaves something undone in it.
func TestWhatEndsAStreamInAClientIsAnError(t *testing.T) {
	const start, step, text = `{"type":"start","messageId":"r"}`, `{"type":"start-step"}`, `{"type":"text-start","id":"t"}`
	const call = `{"type":"tool-input-available","toolCallId":"c","toolName":"t","input":1,"providerExecuted":true,"dynamic":true}`
	for _, c := range []struct {
		name   string
		chunks []string
		good   bool
	}{
		{"a whole stream", []string{start, step, text, `{"type":"text-delta","id":"t","delta":"x"}`, `{"type":"text-end","id":"t"}`, call, `{"type":"tool-output-available","toolCallId":"c","output":null}`, `{"type":"finish-step"}`, `{"type":"finish","finishReason":"stop"}`, "[DONE]"}, true},
		{"no start", []string{step}, false},
		{"an unknown type", []string{start, `{"type":"text"}`}, false},
		{"a type of version 6", []string{start, step, call, `{"type":"tool-approval-request","approvalId":"c","toolCallId":"c"}`}, false},
		{"null where a member may be left out", []string{`{"type":"start","messageId":null}`}, false},
		{"no member where one must be", []string{start, step, `{"type":"text-start"}`}, false},
		{"a number for a text", []string{start, step, text, `{"type":"text-delta","id":"t","delta":7}`}, false},
		{"a member that there is not", []string{start, `{"type":"start-step","id":"x"}`}, false},
		{"text without its start", []string{start, step, `{"type":"text-delta","id":"t","delta":"x"}`}, false},
		{"text behind its end", []string{start, step, text, `{"type":"text-end","id":"t"}`, `{"type":"text-delta","id":"t","delta":"x"}`}, false},
		{"text that is open when its step ends", []string{start, step, text, `{"type":"finish-step"}`}, false},
		{"text outside of a step", []string{start, text}, false},
		{"a step in a step", []string{start, step, step}, false},
		{"an output without an input", []string{start, step, `{"type":"tool-output-available","toolCallId":"c","output":1}`}, false},
		{"a tool for the client", []string{start, step, `{"type":"tool-input-available","toolCallId":"c","toolName":"t","input":1}`}, false},
		{"data that stays and has no id", []string{start, `{"type":"data-ling","data":1}`}, false},
		{"a finish reason of version 7", []string{start, `{"type":"finish","finishReason":"interrupted"}`}, false},
		{"a finish with a step open", []string{start, step, `{"type":"finish"}`}, false},
		{"something behind an error", []string{start, `{"type":"error","errorText":"no"}`, step}, false},
		{"something behind the end", []string{start, "[DONE]", step}, false},
		{"no JSON", []string{start, `{`}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Message{Version: 5}
			err := m.Write([]byte("data: " + strings.Join(c.chunks, "\n\ndata: ") + "\n\n"))
			if (err == nil) != c.good {
				t.Error(err)
			}
		})
	}
	for name, stream := range map[string]string{
		"carriage returns": "data: " + start + "\r\n\r\n", "two lines of data": "data: {\ndata: }\n\n", "a name": "event: x\ndata: " + start + "\n\n",
		"a comment with an empty line": "data: " + start + "\n\n:\n\n:\n\nid: 7\n\n",
	} {
		if err := new(Message).Write([]byte(stream)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	m := &Message{Version: 5}
	if err := m.Write([]byte(":\n:\ndata: " + start + "\n\n:\n")); err != nil {
		t.Error(err)
	}
}

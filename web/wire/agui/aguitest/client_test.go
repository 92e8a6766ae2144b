package aguitest_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire/agui/aguitest"
)

// What the protocol's own client stops at, the client of the tests stops at, too: so whatever the tests let it read is free of that.
func TestTheClientStopsWhereTheRealOneDoes(t *testing.T) {
	const (
		start = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
		ends  = `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}`
		state = `{"type":"STATE_SNAPSHOT","snapshot":{"a":[1],"constructor":{}}}`
	)
	text := func(kind, more string) string {
		return `{"type":"TEXT_MESSAGE_` + kind + `","messageId":"m"` + more + `}`
	}
	delta := func(ops string) string { return `{"type":"STATE_DELTA","delta":[` + ops + `]}` }
	for _, c := range []struct {
		name   string
		events []string
		why    string // "" where it goes on
	}{
		{"a run", []string{start, state, text("START", ""), text("CONTENT", `,"delta":"x"`), text("END", ""), ends}, ""},
		{"the first event is another", []string{state}, "it is the first event"},
		{"an event behind an error", []string{start, `{"type":"RUN_ERROR","message":"m"}`, state}, "the run has ended"},
		{"an event behind the end", []string{start, ends, state}, "the run has ended"},
		{"another run behind the end", []string{start, ends, start, ends}, ""},
		{"an end while a message is open", []string{start, text("START", ""), ends}, "still open"},
		{"an end while a step is open", []string{start, `{"type":"STEP_STARTED","stepName":"s"}`, ends}, "still open"},
		{"an end while a call is open", []string{start, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`, ends}, "still open"},
		{"an end while it thinks", []string{start, `{"type":"REASONING_START","messageId":"m"}`, ends}, "still open"},
		{"the end of OpenAI's streams", []string{start, "[DONE]"}, "invalid character"},
		{"a time that is no whole number", []string{start, `{"type":"CUSTOM","name":"n","value":1,"timestamp":1.5}`}, "what is timestamp"},
		{"a text message of a tool", []string{start, text("START", `,"role":"tool"`)}, "a role that is none"},
		{"an optional member that is null", []string{start, `{"type":"RUN_ERROR","message":"m","code":null}`}, "code is null"},
		{"usage that is an object", []string{start, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"},"usage":{}}`}, "cannot unmarshal"},
		{"an interrupt that asks nothing", []string{start, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}`}, "what kind of end"},
		{"a path that is a uri", []string{start, state, delta(`{"op":"add","path":"b","value":1}`)}, "a path without a slash"},
		{"a tilde that escapes nothing", []string{start, state, delta(`{"op":"add","path":"/~2","value":1}`)}, "a tilde"},
		{"a parent that is not there", []string{start, state, delta(`{"op":"add","path":"/x/y","value":1}`)}, `there is no "x"`},
		{"something to replace that is not there", []string{start, state, delta(`{"op":"replace","path":"/x","value":1}`)}, "nothing to replace"},
		{"an element behind the end", []string{start, state, delta(`{"op":"add","path":"/a/2","value":1}`)}, "there is no element 2"},
		{"an element at the end", []string{start, state, delta(`{"op":"add","path":"/a/1","value":1}`)}, ""},
		{"the prototype of all objects", []string{start, state, delta(`{"op":"add","path":"/__proto__","value":1}`)}, "the client refuses"},
		{"the prototype of a class", []string{start, state, delta(`{"op":"add","path":"/constructor/prototype","value":1}`)}, "the client refuses"},
		{"more of a message that is not open", []string{start, text("CONTENT", `,"delta":"x"`)}, "it is not open"},
		{"an event that is too large", []string{start, `{"type":"CUSTOM","name":"n","value":"` + strings.Repeat("x", 11<<20) + `"}`}, "not one line of data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var client aguitest.Client
			client.Read([]byte("data: " + strings.Join(c.events, "\n\ndata: ") + "\n\n"))
			switch {
			case c.why == "" && client.Err != nil:
				t.Errorf("%.300s", client.Err)
			case c.why != "" && (client.Err == nil || !strings.Contains(client.Err.Error(), c.why)):
				t.Errorf("%.300v, want %s", client.Err, c.why)
			}
		})
	}
	t.Run("lines that end like those of another system", func(t *testing.T) {
		var client aguitest.Client
		client.Read([]byte("data: " + start + "\r\n\r\n"))
		if client.Err == nil {
			t.Error("it goes on")
		}
	})
}

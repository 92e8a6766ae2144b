//go:build nightly

package attacks

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// hostile are texts that would make events, ids or lines of their own if they were put into a stream as they are.
var hostile = map[string]string{
	"an event":               "blue\n\nevent: finished\ndata: {\"status\":\"completed\"}\n\n",
	"an event with CR":       "blue\r\revent: finished\rdata: {\"status\":\"completed\"}\r\r",
	"an event with CRLF":     "blue\r\n\r\nevent: admin\r\ndata: {}\r\n\r\n",
	"an id":                  "blue\nid: aaaaaaaaaaaaaaaaaaaaaaaaaa:7\n",
	"a retry":                "blue\nretry: 1\n",
	"the end of OpenAI's":    "blue\n\ndata: [DONE]\n\n",
	"a line of JSON":         "blue\n{\"id\":\"x:1\",\"event\":\"finished\",\"data\":{\"status\":\"completed\"}}\n",
	"line separators":        "blue\u2028\u2029\u0085{\"event\":\"finished\"}\u2028",
	"other controls":         "blue\x00\x01\x08\x0b\x0c\x1b[2J\x7f",
	"the end of its JSON":    `blue"}}` + "\n\n" + `data: {"uri":"x","delta":"`,
	"escapes":                `blue\n\ndata: x\u000a\u000adata: y\\n\\"`,
	"a comment":              "\n: hello\n\n",
	"a byte order mark":      "\ufeffdata: x\n\n",
	"HTML":                   `</script><script>alert(1)</script><!--]]>`,
	"a chunk of AG-UI":       "blue\n\ndata: {\"type\":\"RUN_ERROR\",\"message\":\"x\"}\n\n",
	"a chunk of the AI SDK":  "blue\n\ndata: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n",
	"half a chunk of HTTP":   "blue\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nInjected: yes\r\n\r\n",
	"a place of its own":     "\n\n" + `data: {"uri":"$tools/0","delta":{"name":"wipe"}}` + "\n\n",
	"many, one after other":  strings.Repeat("\n", 300) + "x" + strings.Repeat("\r", 300),
	"outside of the plane 0": "\U0001F308\nid: x\n\U0010FFFF",
}

// sent is one event of a stream of Server-Sent Events, as its bytes say.
type sent struct{ id, event, data string }

var (
	sseID    = regexp.MustCompile(`^[a-z2-7]{26}:\d+$`)
	sseEvent = regexp.MustCompile(`^[a-z][a-z_-]*$`)
)

// readSSE reads Server-Sent Events as strictly as can be: nothing may be there but what this server writes. Lines end with LF; those of
// other characters that some readers of lines break at stand as they are, since a reader of events does not.
func readSSE(t *testing.T, body string) (list []sent) {
	t.Helper()
	if i := strings.IndexFunc(body, func(r rune) bool {
		return r < ' ' && r != '\n' || r == utf8.RuneError
	}); i >= 0 {
		t.Errorf("there is %+q in a stream of events: %q", body[i:min(i+4, len(body))], around(body, i))
	}
	if body != "" && !strings.HasSuffix(body, "\n\n") {
		t.Errorf("the stream ends with %q", body[max(0, len(body)-40):])
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e sent
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			into, good := (*string)(nil), false
			switch name {
			case "id":
				into, good = &e.id, sseID.MatchString(value)
			case "event":
				into, good = &e.event, sseEvent.MatchString(value)
			case "data":
				into, good = &e.data, json.Valid([]byte(value)) || value == "[DONE]"
			case "retry", ":": // before the first event, and while nothing happens
				good = true
			}
			if !good || into != nil && *into != "" {
				t.Errorf("a line that we do not write: %q", line)
			}
			if into != nil {
				*into = value
			}
		}
		if e != (sent{}) {
			list = append(list, e)
		}
	}
	return list
}

// readJSONL reads JSON Lines into the same: a delta has its whole object as data.
func readJSONL(t *testing.T, body string) (list []sent) {
	t.Helper()
	if !strings.HasSuffix(body, "\n") {
		t.Errorf("the stream ends with %q", body[max(0, len(body)-40):])
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		var l struct {
			ID, Event string
			Data      json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x85 || r == 0x2028 || r == 0x2029 }) {
			t.Errorf("a line that is not one object: %q", line)
			continue
		}
		e := sent{l.ID, l.Event, string(l.Data)}
		if l.Event == "" {
			e.data = line
		}
		list = append(list, e)
	}
	return list
}

// spoken is what a stream comes to: the events beside the document, and the text.
type spoken struct {
	events []string
	text   string
}

// own reads our own events; the text is that of the only string.
func own(t *testing.T, list []sent) (s spoken) {
	t.Helper()
	last := ""
	for _, e := range list {
		if e.id == last || !sseID.MatchString(e.id) {
			t.Errorf("id %q behind %q", e.id, last)
		}
		last = e.id
		if e.event != "" {
			s.events = append(s.events, e.event)
			continue
		}
		var d struct{ URI, Delta string }
		if json.Unmarshal([]byte(e.data), &d) == nil && d.URI == "answer" {
			s.text += d.Delta
		} else if d.URI != "" && d.URI != "answer" {
			t.Errorf("a place that nobody wrote at: %q", e.data)
		}
	}
	return s
}

// typed reads chunks that say in a member what they are.
func typed(t *testing.T, list []sent, member string) (s spoken) {
	t.Helper()
	for _, e := range list {
		if e.event != "" || e.id != "" {
			t.Errorf("an event with a name: %+v", e)
		}
		if e.data == "[DONE]" {
			s.events = append(s.events, e.data)
			continue
		}
		var d struct{ Type, Delta, ErrorText string }
		if err := json.Unmarshal([]byte(e.data), &d); err != nil && !strings.Contains(e.data, `"STATE_DELTA"`) {
			t.Errorf("%v: %q", err, e.data)
		}
		if d.Type == member {
			s.text += d.Delta
			continue
		}
		if d.Type != "STATE_DELTA" && !strings.HasPrefix(d.Type, "data-") {
			s.events = append(s.events, d.Type)
		}
	}
	return s
}

// doors are the ways to ask the workflow "text" something and to be told its text.
var doors = map[string]struct {
	path, accept string
	body         func(input string) string
	read         func(*testing.T, string) spoken
	events       []string // beside the text
}{
	"sse": {
		"/v1/runs", "text/event-stream", func(q string) string { return run("text", q) },
		func(t *testing.T, body string) spoken { return own(t, readSSE(t, body)) },
		[]string{"started", "usage", "finished"},
	},
	"jsonl": {
		"/v1/runs", "application/x-ndjson", func(q string) string { return run("text", q) },
		func(t *testing.T, body string) spoken { return own(t, readJSONL(t, body)) },
		[]string{"started", "usage", "finished"},
	},
	"json": {
		"/v1/runs", "application/json", func(q string) string { return run("text", q) },
		func(t *testing.T, body string) (s spoken) {
			var d struct {
				Status string
				Result struct{ Answer string }
			}
			if err := json.Unmarshal([]byte(body), &d); err != nil || strings.Count(body, "\n") > 1 {
				t.Errorf("%v: %q", err, body)
			}
			return spoken{[]string{d.Status}, d.Result.Answer}
		},
		[]string{"completed"},
	},
	"the AI SDK's": {
		"/v1/ui/text", "text/event-stream",
		func(q string) string {
			return `{"id":` + quoted("chat "+q[:8]) + `,"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":` + quoted(q) + `}]}]}`
		},
		func(t *testing.T, body string) spoken { return typed(t, readSSE(t, body), "text-delta") },
		[]string{"start", "start-step", "text-start", "text-end", "finish-step", "finish", "[DONE]"},
	},
	"AG-UI's": {
		"/v1/agui/text", "text/event-stream",
		func(q string) string {
			return `{"threadId":` + quoted("thread "+q[:8]) + `,"runId":` + quoted(q) + `,"messages":[{"id":"m","role":"user","content":` + quoted(q) + `}]}`
		},
		func(t *testing.T, body string) spoken { return typed(t, readSSE(t, body), "TEXT_MESSAGE_CONTENT") },
		[]string{"RUN_STARTED", "STATE_SNAPSHOT", "CUSTOM", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"},
	},
	"OpenAI's": {
		"/v1/chat/completions", "text/event-stream",
		func(q string) string {
			return `{"model":"workflow/text","stream":true,"messages":[{"role":"user","content":` + quoted(q) + `}]}`
		},
		func(t *testing.T, body string) (s spoken) {
			document := ""
			for _, e := range readSSE(t, body) {
				if e.data == "[DONE]" {
					s.events = append(s.events, e.data)
					continue
				}
				var d struct {
					Object  string
					Choices []struct {
						Delta        struct{ Content string }
						FinishReason string `json:"finish_reason"`
					}
				}
				if err := json.Unmarshal([]byte(e.data), &d); err != nil || d.Object != "chat.completion.chunk" || len(d.Choices) != 1 || e.event != "" || e.id != "" {
					t.Errorf("%v: %+v", err, e)
					continue
				}
				document += d.Choices[0].Delta.Content
				if reason := d.Choices[0].FinishReason; reason != "" {
					s.events = append(s.events, reason)
				}
			}
			var d struct{ Answer string }
			if err := json.Unmarshal([]byte(document), &d); err != nil {
				t.Errorf("%v: %q", err, document)
			}
			s.text = d.Answer
			return s
		},
		[]string{"stop", "[DONE]"},
	},
}

// SE-07, SE-08: whatever a model says, a strict reader of each framing sees the events that were sent and no other, and the text is
// what the model has said.
func TestWhatAModelSaysIsNeverAnEvent(t *testing.T) { // SE-07, SE-08
	v := server(t)
	for name, text := range hostile {
		var tokens []string // cut so that every line break begins a token, and ends one
		for _, r := range text {
			tokens = append(tokens, string(r))
		}
		for how, answer := range map[string]fakeproviders.Answer{"whole": {Tokens: []string{text}}, "in pieces": {Tokens: tokens}} {
			for door, d := range doors {
				t.Run(name+"/"+how+"/"+door, func(t *testing.T) {
					got := v.do(t, "POST", d.path, d.body(v.answer(answer)), "Accept: "+d.accept)
					if got.status != 200 || got.err != nil {
						t.Fatalf("%d %v: %s", got.status, got.err, got.body)
					}
					checkHeaders(t, got)
					s := d.read(t, got.body)
					if s.text != text {
						t.Errorf("the text is %q, want %q", s.text, text)
					}
					if !slices.Equal(s.events, d.events) {
						t.Errorf("the events are %q, want %q", s.events, d.events)
					}
				})
			}
		}
	}
}

// checkHeaders looks for headers that we do not send.
func checkHeaders(t *testing.T, r reply) {
	t.Helper()
	for name, values := range r.header {
		if strings.Contains(strings.ToLower(name), "inject") || len(values) > 1 && name != "Vary" {
			t.Errorf("header %s: %q", name, values)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("header %s: %q", name, value)
			}
		}
	}
}

// SE-07, SE-08: the same for what callers name: it is refused, or told back as the text that it is.
func TestWhatACallerNamesIsNeverAnEvent(t *testing.T) { // SE-07, SE-08
	v := server(t)
	for name, text := range hostile {
		for _, row := range []struct {
			field, path, body string
			header            string
		}{
			{field: "session", path: "/v1/runs", body: `{"agent":"assistant","input":"hello","session":` + quoted(text) + `}`},
			{field: "workflow", path: "/v1/runs", body: run(text, "hello")},
			{field: "agent", path: "/v1/runs", body: `{"agent":` + quoted(text) + `,"input":"hello"}`},
			{field: "model", path: "/v1/runs", body: `{"workflow":"text","input":"hello","model":` + quoted(text) + `}`},
			{field: "member", path: "/v1/runs", body: `{"workflow":"text","input":"hello",` + quoted(text) + `:1}`},
			{field: "property", path: "/v1/runs", body: `{"workflow":"text","input":{"q":"hello",` + quoted(text) + `:1}}`},
			{field: "filter", path: "/v1/runs", body: `{"workflow":"text","input":"hello","filter":{"exclude":[` + quoted(text) + `]}}`},
			{field: "inline workflow", path: "/v1/runs", body: `{"workflow":{"name":` + quoted(text) + `,"bots":{"writer":{"prompt":"Answer.","root":"answer","format":"text"}}}}`},
			{field: "bot", path: "/v1/runs", body: `{"workflow":{"name":"x","bots":{` + quoted(text) + `:{"prompt":"Answer.","root":"answer","format":"text"}}}}`},
			{field: "root", path: "/v1/runs", body: `{"workflow":{"name":"x","bots":{"writer":{"prompt":"Answer.","root":` + quoted(text) + `,"format":"text"}}}}`},
			{field: "thread", path: "/v1/agui/text", body: `{"threadId":` + quoted(text) + `,"runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`},
			{field: "run", path: "/v1/agui/text", body: `{"threadId":"t ` + name + `","runId":` + quoted(text) + `,"parentRunId":` + quoted(text) + `,"messages":[{"id":"m","role":"user","content":"hello"}]}`},
			{field: "chat", path: "/v1/ui/text", body: `{"id":` + quoted(text) + `,"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hello"}]}]}`},
			{field: "message", path: "/v1/ui/text", body: `{"id":"c ` + name + `","messageId":` + quoted(text) + `,"messages":[{"id":` + quoted(text) + `,"role":"user","parts":[{"type":"text","text":"hello"}]}]}`},
			{field: "user", path: "/v1/chat/completions", body: `{"model":"text","stream":true,"user":` + quoted(text) + `,"messages":[{"role":"user","content":"hello"}]}`},
			{field: "OpenAI's model", path: "/v1/chat/completions", body: `{"model":` + quoted(text) + `,"messages":[{"role":"user","content":"hello"}]}`},
			{field: "format of a query", path: "/v1/runs?format=" + escape(text), body: run("text", "hello")},
			{field: "name of a query", path: "/v1/runs?" + escape(text) + "=1", body: run("text", "hello")},
			{field: "id of a query", path: "/v1/runs?last_event_id=" + escape(text), body: run("text", "hello")},
			{field: "key of a query", path: "/v1/runs?workflow=text&input=hello&key=" + escape(text)},
			{field: "path", path: "/" + escape(text)},
			{field: "run of a path", path: "/v1/runs/" + escape(text) + "/events"},
			{field: "session of a path", path: "/v1/sessions/" + escape(text) + "/tape"},
			{field: "agent of a path", path: "/v1/agui/" + escape(text) + "/" + escape(text)},
			{field: "Last-Event-ID", path: "/v1/runs", body: run("text", "hello"), header: "Last-Event-ID: " + printable(text)},
			{field: "Idempotency-Key", path: "/v1/runs", body: run("text", "hello"), header: "Idempotency-Key: " + printable(text)},
			{field: "Prefer", path: "/v1/runs", body: run("text", "hello"), header: "Prefer: " + printable(text)},
			{field: "Content-Type", path: "/v1/runs", body: run("text", "hello"), header: "Content-Type: application/json; x=" + printable(text)},
		} {
			t.Run(name+"/"+row.field, func(t *testing.T) {
				method, header := "POST", []string{"Accept: text/event-stream"}
				if row.body == "" {
					method = "GET"
				}
				if row.header != "" {
					header = append(header, row.header)
				}
				if row.header == "" && strings.HasPrefix(row.path, "/v1/chat") {
					header = nil
				}
				got := v.do(t, method, row.path, row.body, header...)
				checkHeaders(t, got)
				media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
				switch {
				case got.err != nil || got.status >= 500 && got.status != 502:
					t.Errorf("%d, %v: %s", got.status, got.err, got.body)
				case media == "text/event-stream":
					ends := 0
					for _, e := range readSSE(t, got.body) {
						if e.event == "finished" || e.data == "[DONE]" || strings.Contains(e.data, `"type":"RUN_FINISHED"`) || strings.Contains(e.data, `"type":"RUN_ERROR"`) {
							ends++
						}
						if e.event == "admin" {
							t.Errorf("%+v", e)
						}
					}
					if ends > 1 {
						t.Errorf("it ends %d times: %q", ends, got.body)
					}
				case media == "text/plain": // the AI SDK's way to be refused
					if got.status < 400 || strings.ContainsAny(got.body, "\r\x00\x1b") {
						t.Errorf("%d: %q", got.status, got.body)
					}
				case got.status == 204:
				default: // one JSON text
					if !json.Valid([]byte(got.body)) || got.status < 400 && media != "application/json" {
						t.Errorf("%d %s: %q", got.status, media, got.body)
					}
				}
			})
		}
	}
}

// escape writes a text as a segment of a path, or a value of a query.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// printable leaves out what cannot be in a header: net/http refuses to send it, and to read it (SE-18).
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s))
}

// SE-07: what a model's server says of its failure, and what tools are called, is no event either.
func TestWhatAModelsServerSaysIsNeverAnEvent(t *testing.T) { // SE-07, SE-08
	v := server(t)
	for name, text := range hostile {
		for what, answer := range map[string]fakeproviders.Answer{
			"an error":        {Status: 400, Body: `{"error":{"message":` + quoted(text) + `,"type":` + quoted(text) + `,"code":` + quoted(text) + `}}`},
			"a failure":       {Status: 503, Body: text},
			"a thought":       {Reasoning: text, Text: "blue"},
			"an unknown tool": {Text: "blue", ToolCalls: []fakeproviders.ToolCall{{ID: text, Name: text, Arguments: text}}},
		} {
			for _, door := range []string{"sse", "AG-UI's", "the AI SDK's"} {
				t.Run(name+"/"+what+"/"+door, func(t *testing.T) {
					d := doors[door]
					got := v.do(t, "POST", d.path, d.body(v.answer(answer)), "Accept: "+d.accept)
					checkHeaders(t, got)
					if got.status == 200 {
						d := readSSE(t, got.body)
						if len(d) < 3 {
							t.Errorf("%q", got.body)
						}
					} else if strings.ContainsAny(got.body, "\r\x00\x1b") || got.status >= 500 && got.status != 502 && got.status != 503 {
						t.Errorf("%d: %q", got.status, got.body)
					}
				})
			}
		}
	}
}

package fakeproviders

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ollama is the format of Ollama's POST /api/chat: a JSON object on each line.
type ollama struct {
	model string
}

func (f *ollama) kind() string { return "application/x-ndjson" }

// open sends nothing: the first line has the first token.
func (f *ollama) open(*writer) {}

func (f *ollama) text(a *writer, token string) {
	f.begin(a)
	a.buf = append(a.buf, `"content":`...)
	a.buf = appendHTML(a.buf, token)
	a.buf = append(a.buf, "},\"done\":false}\n"...)
}

func (f *ollama) reasoning(a *writer, token string) {
	f.begin(a)
	a.buf = append(a.buf, `"content":"","thinking":`...)
	a.buf = appendHTML(a.buf, token)
	a.buf = append(a.buf, "},\"done\":false}\n"...)
}

// call sends a call in one line, when the time of its tokens is over: Ollama parses a call before it passes it on.
func (f *ollama) call(a *writer, i int, call ToolCall) bool {
	for range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		a.sent++
	}
	f.begin(a)
	a.buf = append(a.buf, `"content":"","tool_calls":[`...)
	f.appendCall(a, i, call)
	a.buf = append(a.buf, "]},\"done\":false}\n"...)
	return a.paced()
}

func (f *ollama) appendCall(a *writer, i int, call ToolCall) {
	a.buf = append(a.buf, '{')
	if call.ID != "" { // older versions have none
		a.buf = append(a.buf, `"id":`...)
		a.buf = appendHTML(a.buf, call.ID)
		a.buf = append(a.buf, ',')
	}
	a.buf = append(a.buf, `"function":{"index":`...)
	a.buf = strconv.AppendInt(a.buf, int64(i), 10)
	a.buf = append(a.buf, `,"name":`...)
	a.buf = appendHTML(a.buf, call.Name)
	a.buf = append(a.buf, `,"arguments":`...)
	var arguments bytes.Buffer
	if json.Compact(&arguments, []byte(call.Arguments)) == nil {
		a.buf = append(a.buf, arguments.Bytes()...)
	} else { // a script may ask for what is no JSON
		a.buf = appendHTML(a.buf, call.Arguments)
	}
	a.buf = append(a.buf, `}}`...)
}

func (f *ollama) close(a *writer) {
	f.begin(a)
	a.buf = append(a.buf, `"content":""}`...)
	f.end(a)
	a.buf = append(a.buf, '\n')
}

// whole appends the answer as one object.
func (f *ollama) whole(a *writer) {
	f.begin(a)
	a.buf = append(a.buf, `"content":`...)
	a.buf = appendHTML(a.buf, a.text())
	if a.answer.Reasoning != "" {
		a.buf = append(a.buf, `,"thinking":`...)
		a.buf = appendHTML(a.buf, a.answer.Reasoning)
	}
	for i, call := range a.answer.ToolCalls {
		a.buf = append(a.buf, map[bool]string{true: `,"tool_calls":[`, false: ","}[i == 0]...)
		f.appendCall(a, i, call)
	}
	if len(a.answer.ToolCalls) > 0 {
		a.buf = append(a.buf, ']')
	}
	a.buf = append(a.buf, '}')
	if a.finish() == "-" {
		a.buf = append(a.buf, `,"done":false}`...)
		return
	}
	f.end(a)
}

// begin appends what every line begins with, into the message.
func (f *ollama) begin(a *writer) {
	a.buf = append(a.buf, `{"model":`...)
	a.buf = appendHTML(a.buf, f.model)
	a.buf = append(a.buf, `,"created_at":"`...)
	a.buf = time.Now().UTC().AppendFormat(a.buf, time.RFC3339Nano)
	a.buf = append(a.buf, `","message":{"role":"assistant",`...)
}

// end appends what the last line ends with: the reason and the counts. Durations are in nanoseconds; as with Ollama, what is
// zero is left out.
func (f *ollama) end(a *writer) {
	reason := a.finish()
	if reason == "tool_calls" {
		reason = "stop" // Ollama has no reason of its own for it
	}
	a.buf = append(a.buf, `,"done":true,"done_reason":`...)
	a.buf = appendHTML(a.buf, reason)
	var eval time.Duration
	if !a.start.IsZero() {
		eval = time.Since(a.start)
	}
	prompt, completion := a.used()
	for _, count := range []struct {
		name string
		n    int64
	}{
		{"total_duration", int64(a.answer.Delay + eval)},
		{"load_duration", int64(a.answer.Delay)},
		{"prompt_eval_count", int64(prompt)},
		{"eval_count", int64(completion)},
		{"eval_duration", int64(eval)},
	} {
		if count.n != 0 {
			a.buf = append(a.buf, `,"`...)
			a.buf = append(a.buf, count.name...)
			a.buf = append(a.buf, `":`...)
			a.buf = strconv.AppendInt(a.buf, count.n, 10)
		}
	}
	a.buf = append(a.buf, '}')
}

// refuse answers with {"error":"…"}.
func (f *ollama) refuse(w http.ResponseWriter, status int, body string) {
	switch {
	case body != "":
	case status == http.StatusNotFound && f.model != "":
		body = fmt.Sprintf("model %q not found, try pulling it first", f.model)
	default:
		body = strings.ToLower(http.StatusText(status))
	}
	writeError(w, status, body, func(message string) any { return map[string]string{"error": message} })
}

// read takes what a script may want to know from a request's body.
func (f *ollama) read(_ *http.Request, body []byte) (Request, error) {
	var in struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string   `json:"role"`
			Content string   `json:"content"`
			Images  [][]byte `json:"images"` // base64 only, as with Ollama
			Calls   []struct {
				Function struct {
					Arguments map[string]any `json:"arguments"` // an object only
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Stream *bool           `json:"stream"`
		Format json.RawMessage `json:"format"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	f.model = in.Model
	req := Request{Model: in.Model, Stream: in.Stream == nil || *in.Stream, Usage: true}
	switch format := string(in.Format); {
	case format == "" || format == "null" || format == `""`:
	case format == `"json"`:
		req.JSON = true
	case format[0] == '{':
		req.JSON, req.Schema = true, in.Format
	default:
		return Request{}, fmt.Errorf("invalid format: %s; expected \"json\" or a valid JSON Schema object", format)
	}
	for _, m := range in.Messages {
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: m.Content})
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	return req, nil
}

func ollamaModel(name string) any {
	return map[string]any{
		"name": name, "model": name, "modified_at": time.Now().UTC(), "size": 1 << 30, "digest": strings.Repeat("0", 64),
		"details": map[string]any{
			"parent_model": "", "format": "gguf", "family": "script", "families": []string{"script"}, "parameter_size": "8B", "quantization_level": "Q4_K_M",
		},
	}
}

// appendHTML is appendString as Go's encoding/json does it, which Ollama uses: with the characters of HTML escaped too.
func appendHTML(b []byte, s string) []byte {
	if !strings.ContainsAny(s, "<>&\u2028\u2029") {
		return appendString(b, s)
	}
	escaped, _ := json.Marshal(s) // a string: cannot fail
	return append(b, escaped...)
}

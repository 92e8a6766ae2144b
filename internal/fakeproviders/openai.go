package fakeproviders

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// openai is the chat completions format. At the address of a deployment it is Azure's, which says in each event what its filter
// thinks of the text, and writes members in the order of their names.
type openai struct {
	azure bool
	head  string // of every frame, up to the choices
	delta string // of a choice, up to the members of its delta
	end   string // of a delta, up to the reason why the answer ends
	rest  string // of a choice
	tail  string // of every frame, from the end of the choices on
}

func (f *openai) kind() string { return "text/event-stream; charset=utf-8" }

// filtered is what Azure's filter thinks of harmless text.
const filtered = `{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},` +
	`"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}}`

func (f *openai) open(a *writer) {
	const object, fingerprint = `"object":"chat.completion.chunk"`, `"system_fingerprint":"fp_script"`
	id, created := `"id":"`+f.id(a)+`"`, `"created":`+strconv.FormatInt(time.Now().Unix(), 10)
	model := `"model":` + string(appendString(nil, a.req.Model))
	if f.azure {
		f.head = `data: {"choices":[`
		f.delta, f.end, f.rest = `{"content_filter_results":`+filtered+`,"delta":{`, `},"finish_reason":`, `,"index":0,"logprobs":null}`
		f.tail = "]," + created + "," + id + "," + model + "," + object + "," + fingerprint
		a.buf = append(a.buf, `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,`+
			`"content_filter_results":`+filtered+"}]}\n\n"...)
	} else {
		f.head = "data: {" + id + "," + object + "," + created + "," + model + "," + fingerprint + `,"choices":[`
		f.delta, f.end, f.rest = `{"index":0,"delta":{`, `},"logprobs":null,"finish_reason":`, "}"
		f.tail = "]"
	}
	f.choice(a, `"role":"assistant","content":""`, "null")
}

// over ends a frame, with usage where that was asked for.
func (f *openai) over(a *writer, usage string) {
	a.buf = append(a.buf, f.tail...)
	if a.req.Usage {
		a.buf = append(a.buf, `,"usage":`...)
		a.buf = append(a.buf, usage...)
	}
	a.buf = append(a.buf, "}\n\n"...)
}

func (f *openai) text(a *writer, token string)      { f.member(a, "content", token) }
func (f *openai) reasoning(a *writer, token string) { f.member(a, "reasoning_content", token) }

// member appends a frame with one member of text.
func (f *openai) member(a *writer, member, token string) {
	a.buf = append(a.buf, f.head...)
	a.buf = append(a.buf, f.delta...)
	a.buf = append(a.buf, '"')
	a.buf = append(a.buf, member...)
	a.buf = append(a.buf, `":`...)
	a.buf = appendString(a.buf, token)
	f.because(a, "null")
}

// choice appends a frame with the members of a delta, and the reason why the answer ends.
func (f *openai) choice(a *writer, members, reason string) {
	a.buf = append(a.buf, f.head...)
	a.buf = append(a.buf, f.delta...)
	a.buf = append(a.buf, members...)
	f.because(a, reason)
}

func (f *openai) because(a *writer, reason string) {
	a.buf = append(a.buf, f.end...)
	a.buf = append(a.buf, reason...)
	a.buf = append(a.buf, f.rest...)
	f.over(a, "null")
}

// call announces a tool call and sends its arguments token by token.
func (f *openai) call(a *writer, i int, call ToolCall) bool {
	index := `"tool_calls":[{"index":` + strconv.Itoa(i)
	f.choice(a, index+`,"id":`+string(appendString(nil, call.ID))+`,"type":"function","function":{"name":`+
		string(appendString(nil, call.Name))+`,"arguments":""}}]`, "null")
	for token := range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		f.choice(a, index+`,"function":{"arguments":`+string(appendString(nil, token))+`}}]`, "null")
		if !a.paced() {
			return false
		}
	}
	return true
}

func (f *openai) close(a *writer) {
	f.choice(a, "", string(appendString(nil, a.finish())))
	if a.req.Usage {
		a.buf = append(a.buf, f.head...)
		f.over(a, f.usage(a))
	}
	a.buf = append(a.buf, "data: [DONE]\n\n"...)
}

// whole appends a chat.completion object.
func (f *openai) whole(a *writer) {
	message := map[string]any{"role": "assistant", "refusal": nil, "content": a.text()}
	if a.answer.Reasoning != "" {
		message["reasoning_content"] = a.answer.Reasoning
	}
	var calls []any
	for _, c := range a.answer.ToolCalls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
		if a.text() == "" {
			message["content"] = nil
		}
	}
	choice := map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": a.finish()}
	if a.finish() == "-" {
		choice["finish_reason"] = nil
	}
	object, _ := json.Marshal(map[string]any{ // of strings: cannot fail
		"id": f.id(a), "object": "chat.completion", "created": time.Now().Unix(), "model": a.req.Model, "choices": []any{choice},
		"usage": json.RawMessage(f.usage(a)),
	})
	a.buf = append(a.buf, object...)
}

func (f *openai) id(a *writer) string { return "chatcmpl-" + strconv.Itoa(a.req.Attempt) }

func (f *openai) usage(a *writer) string {
	prompt, completion := a.used()
	return `{"prompt_tokens":` + strconv.Itoa(prompt) + `,"completion_tokens":` + strconv.Itoa(completion) +
		`,"total_tokens":` + strconv.Itoa(prompt+completion) + `}`
}

// refuse answers with an error object as OpenAI sends it.
func (f *openai) refuse(w http.ResponseWriter, status int, body string) {
	writeError(w, status, body, func(message string) any {
		if f.azure {
			return map[string]any{"error": map[string]any{"message": message, "code": strconv.Itoa(status)}}
		}
		return map[string]any{"error": map[string]any{"message": message, "type": errorType(status), "param": nil, "code": nil}}
	})
}

func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}

// read takes what a script may want to know from a request's body.
func (f *openai) read(r *http.Request, body []byte) (Request, error) {
	f.azure = strings.Contains(r.URL.Path, "/openai/deployments/")
	var in struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Stream        bool `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		ResponseFormat struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
		Tools []struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	req := Request{
		Model:  in.Model,
		Stream: in.Stream,
		Usage:  in.StreamOptions.IncludeUsage,
		JSON:   in.ResponseFormat.Type == "json_object" || in.ResponseFormat.Type == "json_schema",
		Schema: in.ResponseFormat.JSONSchema.Schema,
	}
	for _, m := range in.Messages {
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: joined(m.Content)})
	}
	for i, t := range in.Tools {
		if refused := checkParameters(t.Function.Name, t.Function.Parameters); refused != "" {
			return Request{}, said(fmt.Sprintf("tools[%d].function.parameters", i), "invalid_function_parameters", "%s", refused)
		}
		req.Tools = append(req.Tools, t.Function.Name)
	}
	return req, nil
}

// joined joins the text of a message's content, which is a string or a list of parts.
func joined(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

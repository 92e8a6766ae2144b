package upstream

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// openai is the chat completions format.
type openai struct {
	head string // of every frame, up to the choices
	tail string // of every frame, from the choices on
}

func (f *openai) kind() string { return "text/event-stream; charset=utf-8" }

func (f *openai) open(a *writer) {
	f.head = `data: {"id":"` + f.id(a) + `","object":"chat.completion.chunk","created":` +
		strconv.FormatInt(time.Now().Unix(), 10) + `,"model":` + string(appendString(nil, a.req.Model)) +
		`,"system_fingerprint":"fp_script","choices":[`
	f.tail = "]}\n\n"
	if a.req.Usage {
		f.tail = "],\"usage\":null}\n\n"
	}
	f.delta(a, `"role":"assistant","content":"","refusal":null`)
}

func (f *openai) text(a *writer, token string)      { f.member(a, "content", token) }
func (f *openai) reasoning(a *writer, token string) { f.member(a, "reasoning_content", token) }

// member appends a frame with one member of text.
func (f *openai) member(a *writer, member, token string) {
	a.buf = append(a.buf, f.head...)
	a.buf = append(a.buf, `{"index":0,"delta":{"`...)
	a.buf = append(a.buf, member...)
	a.buf = append(a.buf, `":`...)
	a.buf = appendString(a.buf, token)
	a.buf = append(a.buf, `},"logprobs":null,"finish_reason":null}`...)
	a.buf = append(a.buf, f.tail...)
}

// delta appends a frame with the members of a delta.
func (f *openai) delta(a *writer, members string) {
	a.buf = append(a.buf, f.head...)
	a.buf = append(a.buf, `{"index":0,"delta":{`...)
	a.buf = append(a.buf, members...)
	a.buf = append(a.buf, `},"logprobs":null,"finish_reason":null}`...)
	a.buf = append(a.buf, f.tail...)
}

// call announces a tool call and sends its arguments token by token.
func (f *openai) call(a *writer, i int, call ToolCall) bool {
	index := `"tool_calls":[{"index":` + strconv.Itoa(i)
	f.delta(a, index+`,"id":`+string(appendString(nil, call.ID))+`,"type":"function","function":{"name":`+
		string(appendString(nil, call.Name))+`,"arguments":""}}]`)
	for token := range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		f.delta(a, index+`,"function":{"arguments":`+string(appendString(nil, token))+`}}]`)
		if !a.paced() {
			return false
		}
	}
	return true
}

func (f *openai) close(a *writer) {
	a.buf = append(a.buf, f.head...)
	a.buf = append(a.buf, `{"index":0,"delta":{},"logprobs":null,"finish_reason":`...)
	a.buf = appendString(a.buf, a.finish())
	a.buf = append(a.buf, '}')
	a.buf = append(a.buf, f.tail...)
	if a.req.Usage {
		a.buf = append(a.buf, f.head...)
		a.buf = append(a.buf, `],"usage":`...)
		a.buf = append(a.buf, f.usage(a)...)
		a.buf = append(a.buf, "}\n\n"...)
	}
	a.buf = append(a.buf, "data: [DONE]\n\n"...)
}

// whole appends a chat.completion object.
func (f *openai) whole(a *writer) {
	b := append(a.buf, `{"id":"`...)
	b = append(b, f.id(a)...)
	b = append(b, `","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, time.Now().Unix(), 10)
	b = append(b, `,"model":`...)
	b = appendString(b, a.req.Model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","refusal":null,"content":`...)
	if text := a.text(); text != "" || len(a.answer.ToolCalls) == 0 {
		b = appendString(b, text)
	} else {
		b = append(b, `null`...)
	}
	if a.answer.Reasoning != "" {
		b = append(b, `,"reasoning_content":`...)
		b = appendString(b, a.answer.Reasoning)
	}
	for i, call := range a.answer.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, call.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendString(b, call.Name)
		b = append(b, `,"arguments":`...)
		b = appendString(b, call.Arguments)
		b = append(b, `}}`...)
	}
	if len(a.answer.ToolCalls) > 0 {
		b = append(b, ']')
	}
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if finish := a.finish(); finish == "-" {
		b = append(b, `null`...)
	} else {
		b = appendString(b, finish)
	}
	b = append(b, `}],"usage":`...)
	b = append(b, f.usage(a)...)
	a.buf = append(b, '}')
}

func (f *openai) id(a *writer) string { return "chatcmpl-" + strconv.Itoa(a.req.Attempt) }

func (f *openai) usage(a *writer) string {
	prompt, completion := a.used()
	return `{"prompt_tokens":` + strconv.Itoa(prompt) + `,"completion_tokens":` + strconv.Itoa(completion) +
		`,"total_tokens":` + strconv.Itoa(prompt+completion) + `}`
}

// refuse answers with an error object as OpenAI sends it, unless there is a body.
func (f *openai) refuse(w http.ResponseWriter, status int, body string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	var parsed any
	if body == "" || (json.Unmarshal([]byte(body), &parsed) != nil && w.Header().Get("Content-Type") == "application/json") {
		if body == "" {
			body = http.StatusText(status)
		}
		object, _ := json.Marshal(map[string]any{"error": map[string]any{ // of strings: cannot fail
			"message": body, "type": errorType(status), "param": nil, "code": nil,
		}})
		body = string(object)
	}
	w.WriteHeader(status)
	w.Write([]byte(body)) // a client that has gone away does not need it
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
func (f *openai) read(_ *http.Request, body []byte) (Request, error) {
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
				Name string `json:"name"`
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
	for _, t := range in.Tools {
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

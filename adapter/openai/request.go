package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/heavy"
	goopenai "github.com/sashabaranov/go-openai"
)

// request is a chat completion request. What go-openai's type has, it has from there, but for the members that its type cannot
// say: a temperature of zero, a message with an empty text.
type request struct {
	goopenai.ChatCompletionRequest
	Messages    []message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
}

type message struct {
	Role       string              `json:"role"`
	Content    any                 `json:"content"` // a string, parts, or null beside tool calls
	ToolCalls  []goopenai.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string              `json:"tool_call_id,omitempty"`
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	for {
		sent := m.request(req)
		var body []byte
		var err error
		heavy.Do(int(req.Size()), func() { body, err = json.Marshal(sent) })
		if err != nil {
			return nil, &adapter.Error{
				Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema is not JSON",
				Cause: adapter.RedactError(err, m.p.Key()),
			}
		}
		res, refusal, err := m.p.Post(ctx, m.url, m.p.header(), body)
		if refusal == nil {
			return res, err
		}
		if !m.giveIn(sent, refusal) {
			return nil, m.p.refused(refusal)
		}
	}
}

func (p *provider) header() http.Header {
	h := http.Header{"Accept": {"text/event-stream"}}
	p.Authorize(h, p.Key())
	return h
}

// request says in OpenAI's words what is asked.
func (m *model) request(req adapter.Request) *request {
	r := &request{
		ChatCompletionRequest: goopenai.ChatCompletionRequest{Model: m.name, Stream: true, Stop: req.Stop, Seed: req.Seed},
		Messages:              make([]message, len(req.Messages)),
		Temperature:           req.Temperature,
		TopP:                  req.TopP,
	}
	if !m.p.noUsage.Load() {
		r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}
	if req.MaxTokens != nil {
		if _, known := m.p.newLimit.Load(m.name); known || reasons(m.name) {
			r.MaxCompletionTokens = *req.MaxTokens
		} else {
			//lint:ignore SA1019 the only one that most compatible servers know
			r.MaxTokens = *req.MaxTokens
		}
	}
	for i, msg := range req.Messages {
		r.Messages[i] = toMessage(msg)
	}
	for _, t := range req.Tools {
		f := &goopenai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if len(t.Parameters) == 0 {
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		r.Tools = append(r.Tools, goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: f})
	}
	if req.Format.JSON {
		r.ResponseFormat = &goopenai.ChatCompletionResponseFormat{Type: goopenai.ChatCompletionResponseFormatTypeJSONObject}
		if _, refused := m.p.noSchema.Load(m.name); len(req.Format.Schema) > 0 && !refused {
			r.ResponseFormat.Type = goopenai.ChatCompletionResponseFormatTypeJSONSchema
			// Not strict: OpenAI's strict mode refuses most schemas that are not written for it. The output is checked anyway.
			r.ResponseFormat.JSONSchema = &goopenai.ChatCompletionResponseFormatJSONSchema{
				Name: schemaName(req.Format.Name), Schema: req.Format.Schema,
			}
		}
	}
	return r
}

func toMessage(m adapter.Message) message {
	out := message{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
	if len(m.Parts) > 0 {
		parts := make([]goopenai.ChatMessagePart, 0, len(m.Parts))
		for _, p := range m.Parts {
			switch {
			case p.Image != "":
				parts = append(parts, goopenai.ChatMessagePart{
					Type: goopenai.ChatMessagePartTypeImageURL, ImageURL: &goopenai.ChatMessageImageURL{URL: p.Image},
				})
			case p.Text != "":
				parts = append(parts, goopenai.ChatMessagePart{Type: goopenai.ChatMessagePartTypeText, Text: p.Text})
			}
		}
		out.Content = parts
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, goopenai.ToolCall{
			ID: c.ID, Type: goopenai.ToolTypeFunction, Function: goopenai.FunctionCall{Name: c.Name, Arguments: c.Arguments},
		})
	}
	if len(out.ToolCalls) > 0 && out.Content == "" {
		out.Content = nil
	}
	return out
}

// reasons says whether a model is of a family that takes max_completion_tokens instead of max_tokens.
func reasons(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:] // routers put the maker in front: openai/o3
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if rest, ok := strings.CutPrefix(name, family); ok && (rest == "" || strings.ContainsAny(rest[:1], "-.")) {
			return true
		}
	}
	return false
}

// schemaName makes a name that the API accepts: 1 to 64 letters, digits, _ and -.
func schemaName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "answer"
	}
	return name[:min(len(name), 64)]
}

// giveIn leaves out what a compatible server has refused to understand, and remembers it; false where nothing is left to
// give in.
func (m *model) giveIn(sent *request, r *wire.Refusal) bool {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return false
	}
	names := func(what string) bool { return bytes.Contains(r.Body, []byte(what)) }
	switch {
	case sent.StreamOptions != nil && names("stream_options"):
		m.p.noUsage.Store(true)
	//lint:ignore SA1019 see above
	case sent.MaxTokens != 0 && names("max_completion_tokens"):
		m.p.newLimit.Store(m.name, true)
	case sent.ResponseFormat != nil && sent.ResponseFormat.JSONSchema != nil &&
		(names("response_format") || names("json_schema")):
		m.p.noSchema.Store(m.name, true)
	default:
		return false
	}
	return true
}

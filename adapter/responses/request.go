package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// errKind is the cause of the error about a file that cannot be sent.
var errKind = errors.New("a file of a kind that the API does not take")

// request is what is sent.
type request struct {
	Model             string     `json:"model"`
	Instructions      string     `json:"instructions,omitempty"`
	Tools             []tool     `json:"tools,omitempty"`
	ToolChoice        any        `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool      `json:"parallel_tool_calls,omitempty"`
	Text              *textForm  `json:"text,omitempty"`
	Reasoning         *reasoning `json:"reasoning,omitempty"`
	Include           []string   `json:"include,omitempty"`
	MaxOutputTokens   int        `json:"max_output_tokens,omitempty"`
	Temperature       *float64   `json:"temperature,omitempty"`
	TopP              *float64   `json:"top_p,omitempty"`
	ServiceTier       string     `json:"service_tier,omitempty"`
	PromptCacheKey    string     `json:"prompt_cache_key,omitempty"`
	Store             *bool      `json:"store,omitempty"`
	Stream            bool       `json:"stream"`
	Input             []any      `json:"input"`

	history history
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // where it is missing, the API takes it for true
}

type textForm struct {
	Format    *format `json:"format,omitempty"`
	Verbosity string  `json:"verbosity,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// asking is a request on its way, and what its model has taught.
type asking struct {
	*model
	wire.Asking
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	a := &asking{m, wire.Asking{Lessons: &m.p.learned, Model: m.name}}
	var sent *request
	write := func() (body []byte, err error) {
		if sent, err = a.request(&req); err == nil {
			body, err = wire.Body(sent, req.ExtraBody)
		}
		return body, err
	}
	send := func(body []byte) (*http.Response, *wire.Refusal, error) {
		return m.p.Post(ctx, m.p.Responses(), m.p.header("text/event-stream"), body)
	}
	return m.p.Ask(ctx, &a.Asking, req.Size(), write, send, func(r *wire.Refusal) (string, bool) { return a.giveIn(sent, r), false }, m.p.refused)
}

// request says in the API's words what is asked.
func (a *asking) request(req *adapter.Request) (*request, error) {
	r := &request{
		Model: a.name, Stream: !a.Knows("stream"),
		Temperature: unless(a, "temperature", req.Temperature), TopP: unless(a, "top_p", req.TopP),
		ServiceTier: unless(a, "service_tier", req.ServiceTier), PromptCacheKey: unless(a, "prompt_cache_key", callID(req.CacheKey)),
		Store:   unless(a, "store", new(bool)),
		history: history{p: a.p, full: a.Knows("full items"), bare: a.Knows("bare items"), without: a.Knows("no items"), sealed: a.Knows("sealed reasoning")},
	}
	messages := req.Messages
	if !a.Knows("instructions") {
		for len(messages) > 0 && messages[0].Role == adapter.System && len(messages[0].Parts) == 0 {
			r.Instructions = strings.TrimPrefix(r.Instructions+"\n\n"+messages[0].Content, "\n\n")
			messages = messages[1:]
		}
	}
	r.history.items = make([]any, 0, len(messages))
	for i := range messages {
		if err := r.history.add(&messages[i]); err != nil {
			return nil, err
		}
	}
	r.Input = r.history.items
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: wire.Parameters(t.Parameters)})
	}
	if len(r.Tools) > 0 { // without tools the API refuses both
		r.ParallelToolCalls = unless(a, "parallel_tool_calls", req.ParallelToolCalls)
		switch choice := unless(a, "tool_choice", req.ToolChoice); choice {
		case "":
		case "auto", "none", "required":
			r.ToolChoice = choice
		default:
			r.ToolChoice = map[string]string{"type": "function", "name": choice}
		}
	}
	if req.MaxTokens != nil {
		r.MaxOutputTokens = unless(a, "max_output_tokens", max(*req.MaxTokens, leastOutput))
	}
	if form := (textForm{Verbosity: unless(a, "text.verbosity", req.Verbosity), Format: a.format(req)}); form != (textForm{}) {
		r.Text = &form
	}
	a.think(r, req.Reasoning)
	return r, nil
}

// unless returns a member's value; nothing where the model has refused the member.
func unless[T any](a *asking, member string, value T) (none T) {
	if a.Knows(member) {
		return none
	}
	return value
}

// leastOutput is the least that the API takes for max_output_tokens.
const leastOutput = 16

// think says how the model is to think, and asks for its reasoning in a form that can be given back.
func (a *asking) think(r *request, o adapter.Reasoning) {
	if !thinks(a.name) || a.Knows("reasoning") {
		return
	}
	r.Include = unless(a, "include", []string{"reasoning.encrypted_content"})
	if o.Effort == "" && o.Budget != nil {
		o.Effort = wire.Effort(*o.Budget)
	}
	t := reasoning{Effort: unless(a, "reasoning.effort", o.Effort)}
	for nearest[t.Effort] != "" && a.Knows("effort "+t.Effort) {
		t.Effort = nearest[t.Effort]
	}
	if o.Show == nil || *o.Show {
		t.Summary = unless(a, "reasoning.summary", "auto")
	}
	if t != (reasoning{}) {
		r.Reasoning = &t
	}
}

// nearest is what is asked for where a model does not know an effort.
var nearest = map[string]string{"none": "minimal", "minimal": "low", "xhigh": "high", "max": "xhigh"}

// thinks says whether a model may reason. OpenAI's older ones do not, and refuse to be asked for it; what others do is learned.
func thinks(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:] // routers put the maker in front
	return !slices.ContainsFunc([]string{"gpt-3", "gpt-4", "chatgpt-"}, func(family string) bool { return strings.HasPrefix(name, family) })
}

// format is the form that an answer is to have. Of the forms that there are, the strictest is asked for that the model is not known to refuse.
func (a *asking) format(req *adapter.Request) *format {
	switch {
	case !req.Format.JSON:
	case len(req.Format.Schema) > 0 && !a.Knows("schema"):
		strict := wire.StrictSchema(req.Format.Schema) && !a.Knows("strict")
		return &format{Type: "json_schema", Name: wire.SchemaName(req.Format.Name), Schema: req.Format.Schema, Strict: &strict}
	case !a.Knows("format") && saysJSON(req.Messages): // which the API wants for this form
		return &format{Type: "json_object"}
	}
	return nil
}

func saysJSON(messages []adapter.Message) bool {
	says := func(s string) bool { return strings.Contains(strings.ToLower(s), "json") }
	return slices.ContainsFunc(messages, func(m adapter.Message) bool {
		return says(m.Content) || slices.ContainsFunc(m.Parts, func(p adapter.Part) bool { return says(p.Text) })
	})
}

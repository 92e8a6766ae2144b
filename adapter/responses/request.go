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
	"github.com/lingserve/lingserve/internal/heavy"
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

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	for {
		sent, err := m.request(&req)
		if err != nil {
			return nil, err
		}
		var body []byte
		heavy.Do(int(req.Size()), func() { body, err = wire.Body(sent, req.ExtraBody) })
		if err != nil {
			return nil, &adapter.Error{
				Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema is not JSON",
				Cause: adapter.RedactError(err, m.p.Key()),
			}
		}
		res, refusal, err := m.p.Post(ctx, m.p.Responses(), m.p.header("text/event-stream"), body)
		if refusal == nil {
			return res, err
		}
		if !m.giveIn(sent, refusal) {
			return nil, m.p.refused(refusal)
		}
		adapter.Learned(ctx, m.p.Redact(refusal.Body))
	}
}

// request says in the API's words what is asked.
func (m *model) request(req *adapter.Request) (*request, error) {
	r := &request{
		Model: m.name, Stream: !m.knows("stream"), ServiceTier: m.unless("service_tier", req.ServiceTier),
		history: history{p: m.p, full: m.knows("full items"), bare: m.knows("bare items"), without: m.knows("no items"), sealed: m.knows("sealed reasoning")},
	}
	messages := req.Messages
	if !m.knows("instructions") {
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
	if !m.knows("store") {
		r.Store = new(bool)
	}
	for _, t := range req.Tools {
		parameters := t.Parameters
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		r.Tools = append(r.Tools, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: parameters})
	}
	if len(r.Tools) > 0 { // without tools the API refuses both
		if !m.knows("parallel_tool_calls") {
			r.ParallelToolCalls = req.ParallelToolCalls
		}
		if !m.knows("tool_choice") {
			switch choice := req.ToolChoice; choice {
			case "":
			case "auto", "none", "required":
				r.ToolChoice = choice
			default:
				r.ToolChoice = map[string]string{"type": "function", "name": choice}
			}
		}
	}
	if !m.knows("temperature") {
		r.Temperature = req.Temperature
	}
	if !m.knows("top_p") {
		r.TopP = req.TopP
	}
	if req.MaxTokens != nil && !m.knows("max_output_tokens") {
		r.MaxOutputTokens = max(*req.MaxTokens, leastOutput)
	}
	if len(req.CacheKey) <= maxCallID { // the API's limit for both
		r.PromptCacheKey = m.unless("prompt_cache_key", req.CacheKey)
	} else {
		r.PromptCacheKey = m.unless("prompt_cache_key", callID(req.CacheKey))
	}
	form := textForm{Verbosity: m.unless("text.verbosity", req.Verbosity), Format: m.format(req)}
	if form != (textForm{}) {
		r.Text = &form
	}
	m.think(r, req.Reasoning)
	return r, nil
}

// leastOutput is the least that the API takes for max_output_tokens.
const leastOutput = 16

func (m *model) unless(known, value string) string {
	if m.knows(known) {
		return ""
	}
	return value
}

// think says how the model is to think, and asks for its reasoning in a form that can be given back.
func (m *model) think(r *request, o adapter.Reasoning) {
	if !thinks(m.name) || m.knows("reasoning") {
		return
	}
	if !m.knows("include") {
		r.Include = []string{"reasoning.encrypted_content"}
	}
	var t reasoning
	if o.Effort == "" && o.Budget != nil {
		o.Effort = wire.Effort(*o.Budget)
	}
	if t.Effort = m.unless("reasoning.effort", o.Effort); t.Effort != "" {
		for m.knows("effort "+t.Effort) && nearest[t.Effort] != "" {
			t.Effort = nearest[t.Effort]
		}
	}
	if o.Show == nil || *o.Show {
		t.Summary = m.unless("reasoning.summary", "auto")
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
func (m *model) format(req *adapter.Request) *format {
	switch {
	case !req.Format.JSON:
	case len(req.Format.Schema) > 0 && !m.knows("schema"):
		strict := wire.StrictSchema(req.Format.Schema) && !m.knows("strict")
		return &format{Type: "json_schema", Name: wire.SchemaName(req.Format.Name), Schema: req.Format.Schema, Strict: &strict}
	case !m.knows("format") && saysJSON(req.Messages): // which the API wants for this form
		return &format{Type: "json_object"}
	}
	return nil
}

func saysJSON(messages []adapter.Message) bool {
	return slices.ContainsFunc(messages, func(m adapter.Message) bool {
		return hasJSON(m.Content) || slices.ContainsFunc(m.Parts, func(p adapter.Part) bool { return hasJSON(p.Text) })
	})
}

func hasJSON(s string) bool {
	return strings.Contains(s, "JSON") || strings.Contains(strings.ToLower(s), "json")
}

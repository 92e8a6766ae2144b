package anthropic

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// request is a request for a message.
type request struct {
	Model         string         `json:"model"`
	MaxTokens     int            `json:"max_tokens"`
	Tools         []tool         `json:"tools,omitempty"`
	System        []any          `json:"system,omitempty"`
	Messages      []wire.Turn    `json:"messages"`
	ToolChoice    *toolChoice    `json:"tool_choice,omitempty"`
	Thinking      *wire.Thinking `json:"thinking,omitempty"`
	Output        *outputConfig  `json:"output_config,omitempty"`
	Temperature   *float64       `json:"temperature,omitempty"`
	TopP          *float64       `json:"top_p,omitempty"`
	StopSequences []string       `json:"stop_sequences,omitempty"`
	ServiceTier   string         `json:"service_tier,omitempty"`
	Stream        bool           `json:"stream"`

	interleaved bool // ask for thinking between calls, too
	cached      bool // send breakpoints
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *breakpoint     `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type       string `json:"type"`
	Name       string `json:"name,omitempty"`
	NoParallel bool   `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// breakpoint tells the provider to cache the request up to here.
type breakpoint struct {
	Type string `json:"type"`
}

var ephemeral = &breakpoint{"ephemeral"}

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	req   *adapter.Request
	sent  *request
	limit int // for max_tokens, as the server has named it; 0 is none
}

// Write writes the request.
func (a *asking) Write() (_ []byte, err error) {
	if a.sent, err = a.request(a.req); err != nil {
		return nil, err
	}
	if a.Header = nil; a.sent.interleaved {
		a.Header = http.Header{betaHeader: {interleaved}}
	}
	return wire.Body(a.sent, a.req.ExtraBody)
}

// request says in Anthropic's words what is asked.
func (a *asking) request(req *adapter.Request) (*request, error) {
	turns, err := a.history(req.Messages)
	if err != nil {
		return nil, err
	}
	r := &request{Model: a.name, Stream: true, ServiceTier: req.ServiceTier, System: turns.System, Messages: turns.List}
	for _, s := range req.Stop {
		if strings.TrimSpace(s) != "" { // others are refused
			r.StopSequences = append(r.StopSequences, s)
		}
	}
	a.tools(r, req, turns.Called)
	a.sample(r, req)
	a.think(r, req, turns.Unthought)
	a.fit(r)
	if schema, ok := wire.Closed(req.Format.Schema, "oneOf"); ok && req.Format.JSON && (a.version == 0 || a.version >= 41) && !a.Uses(noFormat) {
		r.output().Format = &format{"json_schema", schema}
	}
	if r.cached = !a.Uses(noCache); r.cached {
		r.breakpoints()
	}
	return r, nil
}

func (r *request) output() *outputConfig {
	if r.Output == nil {
		r.Output = &outputConfig{}
	}
	return r.Output
}

// tools adds the tools and the choice among them.
func (a *asking) tools(r *request, req *adapter.Request, called []string) {
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{Name: t.Name, Description: t.Description, Schema: wire.Parameters(t.Parameters)})
	}
	if len(r.Tools) == 0 {
		// A history with calls needs definitions of the tools that it names. The model must not call them again.
		for _, name := range called {
			r.Tools = append(r.Tools, tool{Name: name, Schema: wire.Parameters(nil)})
			r.ToolChoice = &toolChoice{Type: "none"}
		}
		return
	}
	c := toolChoice{NoParallel: req.ParallelToolCalls != nil && !*req.ParallelToolCalls}
	switch req.ToolChoice {
	case "", "auto":
		if c.Type = "auto"; req.ToolChoice == "" && !c.NoParallel {
			return
		}
	case "none":
		c = toolChoice{Type: "none"}
	case "required":
		c.Type = "any"
	default:
		c.Type, c.Name = "tool", req.ToolChoice
	}
	r.ToolChoice = &c
}

func (c *toolChoice) forces() bool { return c != nil && (c.Type == "any" || c.Type == "tool") }

// sample adds max_tokens, temperature and top_p. Since 4.1 Claude takes only one of the latter two, since 4.7 neither.
func (a *asking) sample(r *request, req *adapter.Request) {
	switch v := a.version; {
	case req.MaxTokens != nil:
		r.MaxTokens = *req.MaxTokens
	case v >= 37:
		r.MaxTokens = 32000 // that of Opus 4; others allow more
	case 0 < v && v < 35:
		r.MaxTokens = 4096
	default:
		r.MaxTokens = 8192
	}
	if a.version >= 47 {
		return
	}
	r.Temperature = req.Temperature
	if r.Temperature != nil && *r.Temperature > 1 && a.version > 0 {
		r.Temperature = new(1.0)
	}
	if req.Temperature == nil || a.version < 41 {
		r.TopP = req.TopP
	}
}

const (
	room        = 8192 // for an answer behind thinking whose budget is larger than the default limit
	interleaved = "interleaved-thinking-2025-05-14"
)

// think turns thinking on or off. Claude takes a budget up to 4.6, and adaptive thinking with an effort from 4.6 on.
// https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
func (a *asking) think(r *request, req *adapter.Request, unthought bool) {
	o := req.Reasoning
	asked, hidden := o.Effort != "" || o.Budget != nil, o.Show != nil && !*o.Show
	off := o.Effort == "none" || o.Budget != nil && *o.Budget <= 0
	switch {
	case a.Uses(wire.NoThinking):
		return
	case off || r.ToolChoice.forces() && (a.version >= 50 || asked):
		// Claude 5 thinks by default. What models of other makers do by default is not known.
		if a.version >= 50 || a.version == 0 && off {
			r.Thinking = &wire.Thinking{Type: "disabled"}
		}
		return
	case !asked && (o.Show == nil && a.version < 50 || hidden || a.version < 46):
		// Claude 5 thinks by default and hides it by default. It is asked to show it: otherwise a long thought looks like a stalled stream.
		return
	}
	if a.version >= 46 && (o.Budget == nil || a.version >= 47) {
		effort := wire.ThinkingEffort(o)
		if r.Thinking = a.Fallbacks.Thinking(o, 0); effort == "xhigh" && a.version == 46 {
			effort = "high"
		}
		if effort != "" {
			r.output().Effort = effort
		}
	} else {
		// The API refuses a budget if the assistant's current turn did not begin with thinking.
		if unthought {
			return
		}
		budget := wire.ThinkingBudget(o)
		if r.MaxTokens <= budget {
			if req.MaxTokens == nil {
				r.MaxTokens = room
			}
			r.MaxTokens += budget
		}
		r.Thinking = a.Fallbacks.Thinking(o, budget)
		r.interleaved = len(r.Tools) > 0 && a.version >= 40 && a.version < 46 && !a.Uses(noBeta)
	}
	r.Temperature, r.TopP = nil, nil // refused beside thinking
}

// fit keeps the request within the limit that the server has named.
func (a *asking) fit(r *request) {
	if a.limit == 0 || a.limit >= r.MaxTokens {
		return
	}
	r.MaxTokens = a.limit
	if t := r.Thinking; t != nil && t.Budget > a.limit-wire.MinBudget {
		if t.Budget = a.limit - wire.MinBudget; t.Budget < wire.MinBudget {
			r.Thinking = nil
		}
	}
}

// Fallbacks of requests that are refused.
const (
	noFormat = "without a schema"
	noCache  = "without cache points"
	noBeta   = "without interleaved thinking"
	lowered  = "with a lower max_tokens"
	fitted   = "with the max_tokens that the history leaves"
)

// In errors about a limit of tokens: "max_tokens: 64000 > 8192, …", and "… exceed context limit: 190000 + 32000 > 200000, …".
var (
	overMost = regexp.MustCompile(`max_tokens: \d+ > (\d{1,9})\b`)
	overRoom = regexp.MustCompile(`max_tokens.* (\d{1,9}) \+ \d{1,9} > (\d{1,9})\b`)
)

// Others returns the other ways to write a request. max_tokens has a default of ours, and the API counts it towards the context.
func (a *asking) Others(said string) []wire.Fallback {
	sent, reasoning := a.sent, a.req.Reasoning
	number := func(digits string) int { n, _ := strconv.Atoi(digits); return n }
	named := ""
	if found := overMost.FindStringSubmatch(said); found != nil {
		a.limit, named = number(found[1]), lowered
	} else if found := overRoom.FindStringSubmatch(said); found != nil {
		a.limit, named = number(found[2])-number(found[1]), fitted
	}
	asked := reasoning.Effort != "" || reasoning.Budget != nil
	return append([]wire.Fallback{
		{Name: lowered, Applies: named == lowered && a.limit > 0 && a.limit < sent.MaxTokens},
		{Name: fitted, Applies: named == fitted && a.limit >= wire.MinBudget && a.limit < sent.MaxTokens},
		{
			Name: noFormat, Applies: sent.Output != nil && sent.Output.Format != nil,
			Words: []string{"output_config", "output_format", "output format", "structured output", "json_schema", "grammar"},
		},
		{Name: noCache, Applies: sent.cached, Words: []string{"cache_control"}},
		{Name: noBeta, Applies: sent.interleaved, Words: []string{"anthropic-beta", "interleaved-thinking"}},
	}, append(wire.ThinkingFallbacks(sent.Thinking),
		wire.Fallback{Name: wire.NoThinking, Applies: sent.Thinking != nil && !asked, Words: []string{"thinking"}})...)
}

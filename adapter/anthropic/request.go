package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/buger/jsonparser"
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

// errFile is the cause of an error about a file.
var errFile = errors.New("a file of a kind that the API does not take")

// asking is one request to a model.
type asking struct {
	*model
	wire.Asking
	room int // tokens that the history leaves for the answer; 0 is not known
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	a := &asking{model: m, Asking: wire.Asking{Lessons: &m.p.lessons, Model: m.name}}
	var sent *request
	return m.p.Ask(ctx, &a.Asking, req.Size(), func() (_ []byte, err error) {
		if sent, err = a.request(req); err != nil {
			return nil, err
		}
		return wire.Body(sent, req.ExtraBody)
	}, func(body []byte) (*http.Response, *wire.Refusal, error) {
		h := m.p.header("text/event-stream")
		if sent.interleaved {
			h[betaHeader] = append(h[betaHeader], interleaved)
		}
		return m.p.Post(ctx, m.p.messages, h, body)
	}, func(r *wire.Refusal) (string, bool) { return a.giveIn(sent, r) }, m.p.Refused)
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
	if schema, ok := wire.Closed(req.Format.Schema, "oneOf"); ok && req.Format.JSON && (a.version == 0 || a.version >= 41) && !a.Knows(noFormat) {
		r.output().Format = &format{"json_schema", schema}
	}
	if r.cached = !a.Knows(noCache); r.cached {
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
		schema := wire.Parameters(t.Parameters)
		if _, _, _, err := jsonparser.Get(schema, "type"); err != nil && wire.IsObject(schema) { // it has to be one of an object
			schema, _ = jsonparser.Set(schema, []byte(`"object"`), "type")
		}
		r.Tools = append(r.Tools, tool{Name: t.Name, Description: t.Description, Schema: schema})
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
	if c.forces() && a.Knows(noForce) {
		c.Type, c.Name = "auto", ""
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
	if a.version >= 47 || a.Knows(noSampling) {
		return
	}
	r.Temperature = req.Temperature
	if r.Temperature != nil && *r.Temperature > 1 && a.version > 0 {
		r.Temperature = new(1.0)
	}
	if req.Temperature == nil || a.version < 41 && !a.Knows(oneSampling) {
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
	adaptive := (a.version >= 46 || a.Knows(wire.OnlyAdaptive)) && !a.Knows(wire.OnlyBudget)
	switch {
	case a.Knows(wire.NoThinking):
		return
	case off || r.ToolChoice.forces() && (a.version >= 50 || asked):
		// Claude 5 thinks by default. What models of other makers do by default is not known.
		if (a.version >= 50 || a.version == 0 && off) && !a.Knows(noDisabled) {
			r.Thinking = &wire.Thinking{Type: "disabled"}
		}
		return
	case !asked && (o.Show == nil && a.version < 50 || hidden || !adaptive):
		// Claude 5 thinks by default and hides it by default. It is asked to show it: otherwise a long thought looks like a stalled stream.
		return
	}
	if adaptive && (o.Budget == nil || a.version >= 47 || a.Knows(wire.OnlyAdaptive)) {
		var effort string
		if r.Thinking, effort = a.Adaptive(o); effort == "xhigh" && (a.version == 46 || a.Knows(noXHigh)) {
			effort = "high"
		}
		if effort != "" {
			r.output().Effort = effort
		}
	} else {
		// The API refuses a budget if the assistant's current turn did not begin with thinking.
		if unthought || a.Knows(wire.NoBudgetNow) {
			return
		}
		budget := wire.ThinkingBudget(o)
		if r.MaxTokens <= budget {
			if req.MaxTokens == nil {
				r.MaxTokens = room
			}
			r.MaxTokens += budget
		}
		r.Thinking = a.Budgeted(o, budget)
		r.interleaved = len(r.Tools) > 0 && a.version >= 40 && a.version < 46 && !a.Knows(noBeta)
	}
	r.Temperature, r.TopP = nil, nil // refused beside thinking
}

// fit keeps the request within the limits that the server has named.
func (a *asking) fit(r *request) {
	limit := r.MaxTokens
	if most, ok := a.p.most.Load(a.name); ok {
		limit = min(limit, most.(int))
	}
	if a.room > 0 {
		limit = min(limit, a.room)
	}
	if limit == r.MaxTokens {
		return
	}
	r.MaxTokens = limit
	if t := r.Thinking; t != nil && t.Budget > limit-wire.MinBudget {
		if t.Budget = limit - wire.MinBudget; t.Budget < wire.MinBudget {
			r.Thinking = nil
		}
	}
}

// Lessons that the refusals of a model can teach.
const (
	noDisabled  = "disabled"
	noXHigh     = "xhigh"
	noForce     = "tool_choice"
	noFormat    = "format"
	noSampling  = "temperature"
	oneSampling = "top_p"
	noCache     = "cache_control"
	noBeta      = "beta"
)

// In what is said of a limit of tokens: "max_tokens: 64000 > 8192, …", and "… exceed context limit: 190000 + 32000 > 200000, …".
var (
	overMost = regexp.MustCompile(`max_tokens: \d+ > (\d{1,9})\b`)
	overRoom = regexp.MustCompile(`max_tokens.* (\d{1,9}) \+ \d{1,9} > (\d{1,9})\b`)
)

// giveIn says what a refusal teaches of what the model does not take.
func (a *asking) giveIn(sent *request, refusal *wire.Refusal) (what string, once bool) {
	if refusal.Status != http.StatusBadRequest && refusal.Status != http.StatusUnprocessableEntity {
		return "", false
	}
	said := strings.ToLower(wire.ReadReport(refusal.Body).Message)
	if found := overMost.FindStringSubmatch(said); found != nil {
		most, _ := strconv.Atoi(found[1]) // digits
		if most < 1 || most >= sent.MaxTokens {
			return "", false
		}
		a.p.most.Store(a.name, most)
		return "max_tokens " + found[1], false
	}
	if found := overRoom.FindStringSubmatch(said); found != nil {
		history, _ := strconv.Atoi(found[1])
		context, _ := strconv.Atoi(found[2])
		if a.room = context - history; a.room < wire.MinBudget || a.room >= sent.MaxTokens {
			return "", false
		}
		return "room", true
	}
	var output outputConfig
	if sent.Output != nil {
		output = *sent.Output
	}
	sampled, limited := sent.Temperature != nil, sent.TopP != nil
	return wire.Taught(said, slices.Concat([]wire.Lesson{
		{What: noXHigh, Sent: output.Effort == "xhigh", Says: "effort"},
		{What: noDisabled, Sent: sent.Thinking != nil && sent.Thinking.Type == "disabled", Says: "disabled"},
		{What: noForce, Sent: sent.ToolChoice.forces(), Says: "tool_choice"},
	}, wire.ThinkingLessons(said, sent.Thinking, output.Effort), []wire.Lesson{
		{What: noFormat, Sent: output.Format != nil, Says: "output_config|output_format|output format|structured output|json_schema|grammar"},
		{What: oneSampling, Sent: sampled && limited, Says: "both"},
		{What: noSampling, Sent: sampled || limited, Says: "temperature|top_p"},
		{What: noCache, Sent: sent.cached, Says: "cache_control"},
		{What: noBeta, Sent: sent.interleaved, Says: "anthropic-beta|interleaved-thinking"},
	}))
}

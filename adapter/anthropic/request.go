package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/heavy"
)

// request is a request for a message.
type request struct {
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	Tools         []tool        `json:"tools,omitempty"`
	System        []*part       `json:"system,omitempty"`
	Messages      []turn        `json:"messages"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	Thinking      *thinking     `json:"thinking,omitempty"`
	Output        *outputConfig `json:"output_config,omitempty"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	ServiceTier   string        `json:"service_tier,omitempty"`
	Stream        bool          `json:"stream"`

	called      []string // tools that are called in the history, where none are given
	interleaved bool     // ask for thinking between calls, too
	cached      bool     // send breakpoints
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

type thinking struct {
	Type    string `json:"type"` // "enabled", "adaptive" or "disabled"
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
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

// attempt is what a refusal changes for one request only. What it changes for the model is a lesson.
type attempt struct {
	number     int
	unthinking bool // the history forbids thinking
	maxTokens  int  // that the history leaves room for
}

// maxAttempts bounds the lessons of one request: a server could refuse one thing and its opposite.
const maxAttempts = 8

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	for try := (attempt{}); ; try.number++ {
		sent, err := m.request(req, &try)
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
		h := m.p.header("text/event-stream")
		if sent.interleaved {
			h[betaHeader] = append(h[betaHeader], interleaved)
		}
		res, refusal, err := m.p.Post(ctx, m.p.messages, h, body)
		if refusal == nil {
			return res, err
		}
		if try.number == maxAttempts || !m.giveIn(sent, refusal, &try) {
			return nil, m.p.Refused(refusal)
		}
	}
}

// request says in Anthropic's words what is asked.
func (m *model) request(req *adapter.Request, try *attempt) (*request, error) {
	r := &request{Model: m.name, Stream: true, ServiceTier: req.ServiceTier, cached: !m.knows(noCache)}
	if err := m.history(r, req.Messages); err != nil {
		return nil, err
	}
	for _, s := range req.Stop {
		if strings.TrimSpace(s) != "" { // others are refused
			r.StopSequences = append(r.StopSequences, s)
		}
	}
	m.tools(r, req)
	m.sample(r, req)
	m.think(r, req, try)
	m.fit(r, try)
	if schema, ok := closed(req.Format.Schema); ok && req.Format.JSON && (m.version == 0 || m.version >= 41) && !m.knows(noFormat) {
		if r.Output == nil {
			r.Output = &outputConfig{}
		}
		r.Output.Format = &format{"json_schema", schema}
	}
	if r.cached {
		m.breakpoints(r)
	}
	return r, nil
}

// tools adds the tools and the choice among them.
func (m *model) tools(r *request, req *adapter.Request) {
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{Name: t.Name, Description: t.Description, Schema: inputSchema(t.Parameters)})
	}
	if len(r.Tools) == 0 {
		// A history with calls needs definitions of the tools that it names. The model must not call them again.
		for _, name := range r.called {
			r.Tools = append(r.Tools, tool{Name: name, Schema: inputSchema(nil)})
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
	if c.forces() && m.knows(noForce) {
		c.Type, c.Name = "auto", ""
	}
	r.ToolChoice = &c
}

func (c *toolChoice) forces() bool { return c != nil && (c.Type == "any" || c.Type == "tool") }

// inputSchema makes a schema one of an object, as every tool's has to be.
func inputSchema(schema json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(schema)) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if _, _, _, err := jsonparser.Get(schema, "type"); err != nil && isObject(schema) {
		return withMember(schema, "type", []byte(`"object"`))
	}
	return schema
}

// sample adds max_tokens, temperature and top_p. Since 4.1 Claude takes only one of the latter two, since 4.7 neither.
func (m *model) sample(r *request, req *adapter.Request) {
	switch v := m.version; {
	case req.MaxTokens != nil:
		r.MaxTokens = *req.MaxTokens
	case v >= 37:
		r.MaxTokens = 32000 // that of Opus 4; others allow more
	case 0 < v && v < 35:
		r.MaxTokens = 4096
	default:
		r.MaxTokens = 8192
	}
	if m.version >= 47 || m.knows(noSampling) {
		return
	}
	r.Temperature = req.Temperature
	if r.Temperature != nil && *r.Temperature > 1 && m.version > 0 {
		r.Temperature = new(1.0)
	}
	if req.Temperature == nil || m.version < 41 && !m.knows(oneSampling) {
		r.TopP = req.TopP
	}
}

// budgets are the tokens of thinking for each effort, for models that take no effort. They leave room for an answer below the default limit of 32000.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 6144, "high": 12288, "xhigh": 20480, "max": 24576}

const (
	minBudget   = 1024
	room        = 8192 // for an answer behind thinking whose budget is larger than the default limit
	interleaved = "interleaved-thinking-2025-05-14"
)

// think turns thinking on or off. Claude takes a budget up to 4.6, and adaptive thinking with an effort from 4.6 on.
// https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
func (m *model) think(r *request, req *adapter.Request, try *attempt) {
	o := req.Reasoning
	asked := o.Effort != "" || o.Budget != nil
	off := o.Effort == "none" || o.Budget != nil && *o.Budget <= 0
	adaptive := (m.version >= 46 || m.knows(onlyAdaptive)) && !m.knows(onlyBudget)
	switch {
	case m.knows(noThinking):
		return
	case off || r.ToolChoice.forces() && (m.version >= 50 || asked):
		// Claude 5 thinks by default. What models of other makers do by default is not known.
		if (m.version >= 50 || m.version == 0 && off) && !m.knows(noDisabled) {
			r.Thinking = &thinking{Type: "disabled"}
		}
		return
	case !asked && (o.Show == nil && m.version < 50 || o.Show != nil && !*o.Show || !adaptive):
		// Claude 5 thinks by default and hides it by default. It is asked to show it: otherwise a long thought looks like a stalled stream.
		return
	}
	t := &thinking{Type: "adaptive"}
	if o.Show != nil && !*o.Show {
		t.Display = "omitted"
	}
	if adaptive && (o.Budget == nil || m.version >= 47 || m.knows(onlyAdaptive)) {
		if t.Display == "" {
			t.Display = "summarized" // not the default since 4.7
		}
		if effort := m.effort(o); effort != "" {
			r.Output = &outputConfig{Effort: effort}
		}
	} else {
		// The API refuses a budget if the assistant's current turn did not begin with thinking.
		if try.unthinking || unthinking(r.Messages) {
			return
		}
		t.Type = "enabled"
		if t.Budget = budgets[o.Effort]; o.Budget != nil {
			t.Budget = *o.Budget
		} else if t.Budget == 0 {
			t.Budget = budgets["medium"]
		}
		t.Budget = max(t.Budget, minBudget)
		if r.MaxTokens <= t.Budget {
			if req.MaxTokens == nil {
				r.MaxTokens = room
			}
			r.MaxTokens += t.Budget
		}
		r.interleaved = len(r.Tools) > 0 && m.version >= 40 && m.version < 46 && !m.knows(noBeta)
	}
	if m.knows(noDisplay) {
		t.Display = ""
	}
	r.Thinking = t
	r.Temperature, r.TopP = nil, nil // refused beside thinking
}

// effort is how hard the model is to think, in Anthropic's words; "" is its default.
func (m *model) effort(o adapter.Reasoning) string {
	effort := o.Effort
	if o.Budget != nil {
		switch b := *o.Budget; {
		case b <= budgets["low"]:
			effort = "low"
		case b <= budgets["medium"]:
			effort = "medium"
		case b <= budgets["high"]:
			effort = "high"
		default:
			effort = "xhigh"
		}
	}
	switch {
	case m.knows(noEffort):
		return ""
	case effort == "minimal":
		return "low"
	case effort == "xhigh" && (m.version == 46 || m.knows(noXHigh)):
		return "high"
	}
	return effort
}

// fit keeps the request within the limits that the server has named.
func (m *model) fit(r *request, try *attempt) {
	limit := try.maxTokens
	if most, ok := m.p.learned.Load(lesson{m.name, maxTokens}); ok && (limit == 0 || most.(int) < limit) {
		limit = most.(int)
	}
	if limit == 0 || r.MaxTokens <= limit {
		return
	}
	r.MaxTokens = limit
	if t := r.Thinking; t != nil && t.Budget > limit-minBudget {
		if t.Budget = limit - minBudget; t.Budget < minBudget {
			r.Thinking = nil
		}
	}
}

// Lessons that the refusals of a model can teach.
const (
	onlyAdaptive = "adaptive"
	onlyBudget   = "budget"
	noThinking   = "thinking"
	noDisabled   = "disabled"
	noDisplay    = "display"
	noEffort     = "effort"
	noXHigh      = "xhigh"
	noForce      = "tool_choice"
	noFormat     = "format"
	noSampling   = "temperature"
	oneSampling  = "top_p"
	noCache      = "cache_control"
	noBeta       = "beta"
	maxTokens    = "max_tokens" // an int
)

// lesson is something that a model has refused before.
type lesson struct{ model, what string }

func (m *model) knows(what string) bool {
	_, known := m.p.learned.Load(lesson{m.name, what})
	return known
}

// In what is said of a limit of tokens: "max_tokens: 64000 > 8192, …", and "… exceed context limit: 190000 + 32000 > 200000, …".
var (
	overMost = regexp.MustCompile(`max_tokens: \d+ > (\d{1,9})\b`)
	overRoom = regexp.MustCompile(`(\d{1,9}) \+ \d{1,9} > (\d{1,9})\b`)
)

// giveIn learns from a refusal what the model does not take. It reports whether the request is worth another attempt.
func (m *model) giveIn(sent *request, refusal *wire.Refusal, try *attempt) bool {
	if refusal.Status != http.StatusBadRequest && refusal.Status != http.StatusUnprocessableEntity {
		return false
	}
	said := strings.ToLower(wire.ReadReport(refusal.Body).Message)
	names := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
	t := sent.Thinking
	is := func(kind string) bool { return t != nil && t.Type == kind }
	what, value := "", any(true)
	switch {
	case names("max_tokens") && overMost.MatchString(said):
		most, _ := strconv.Atoi(overMost.FindStringSubmatch(said)[1]) // digits
		if most < 1 || most >= sent.MaxTokens {
			return false
		}
		what, value = maxTokens, most
	case names("max_tokens") && overRoom.MatchString(said):
		found := overRoom.FindStringSubmatch(said)
		history, _ := strconv.Atoi(found[1])
		context, _ := strconv.Atoi(found[2])
		if context-history < minBudget || context-history >= sent.MaxTokens {
			return false
		}
		try.maxTokens = context - history
		return true
	case is("enabled") && names("expected `thinking`", "expected thinking"):
		try.unthinking = true
		return true
	case sent.Output != nil && sent.Output.Effort == "xhigh" && names("effort"):
		what = noXHigh
	case sent.Output != nil && sent.Output.Effort != "" && names("effort"):
		what = noEffort
	case t != nil && t.Display != "" && names("display"):
		what = noDisplay
	case is("enabled") && names("adaptive"):
		what = onlyAdaptive
	case is("adaptive") && names("adaptive"):
		what = onlyBudget
	case is("disabled") && names("disabled"):
		what = noDisabled
	case sent.ToolChoice.forces() && names("tool_choice"):
		what = noForce
	case t != nil && names("thinking") && names("not support", "not permitted", "unknown", "unrecognized"):
		what = noThinking
	case sent.Output != nil && sent.Output.Format != nil && names("output_config", "output_format", "output format", "structured output", "json_schema", "grammar"):
		what = noFormat
	case sent.Temperature != nil && sent.TopP != nil && names("both"):
		what = oneSampling
	case (sent.Temperature != nil || sent.TopP != nil) && names("temperature", "top_p"):
		what = noSampling
	case sent.cached && names("cache_control"):
		what = noCache
	case sent.interleaved && names("anthropic-beta", "interleaved-thinking"):
		what = noBeta
	default:
		return false
	}
	m.p.learned.Store(lesson{m.name, what}, value)
	return true
}

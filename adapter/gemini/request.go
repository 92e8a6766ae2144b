package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// request is a generateContent request.
type request struct {
	SystemInstruction *content    `json:"systemInstruction,omitempty"`
	Tools             []tool      `json:"tools,omitempty"`
	ToolConfig        *toolConfig `json:"toolConfig,omitempty"`
	Contents          []content   `json:"contents"`
	GenerationConfig  settings    `json:"generationConfig,omitzero"`
	ServiceTier       string      `json:"serviceTier,omitempty"`

	unsigned bool // there is a step whose first call no Gemini has signed
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part is one part of a content, by the names of its members.
type part map[string]any

type tool struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema,omitempty"`
	Parameters  any             `json:"parameters,omitempty"` // in place of JSONSchema
}

type toolConfig struct {
	FunctionCallingConfig struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitempty"`
	} `json:"functionCallingConfig"`
}

type settings struct {
	Temperature      *float64        `json:"temperature,omitempty"`
	TopP             *float64        `json:"topP,omitempty"`
	MaxOutputTokens  *int            `json:"maxOutputTokens,omitempty"`
	StopSequences    []string        `json:"stopSequences,omitempty"`
	Seed             *int            `json:"seed,omitempty"`
	PresencePenalty  *float64        `json:"presencePenalty,omitempty"`
	FrequencyPenalty *float64        `json:"frequencyPenalty,omitempty"`
	ResponseMIMEType string          `json:"responseMimeType,omitempty"`
	ResponseSchema   json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking         *thinking       `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	Budget          *int   `json:"thinkingBudget,omitempty"`
	Level           string `json:"thinkingLevel,omitempty"`
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
			body, err = joined(sent, req.ExtraBody)
		}
		return body, err
	}
	send := func(body []byte) (*http.Response, *wire.Refusal, error) {
		for renewed := false; ; renewed = true {
			header, err := m.p.header(ctx, "text/event-stream")
			if err != nil {
				return nil, nil, err
			}
			res, refusal, err := m.p.Post(ctx, m.url, header, body)
			if refusal == nil || refusal.Status != http.StatusUnauthorized || m.p.tokens == nil || renewed {
				return res, refusal, err
			}
			m.p.tokens.expire() // it may have been withdrawn
		}
	}
	giveIn := func(r *wire.Refusal) (string, bool) { return a.giveIn(sent, r), false }
	return m.p.Ask(ctx, &a.Asking, req.Size(), write, send, giveIn, m.p.refused)
}

// joined writes a request with extra members. Objects are joined, so that generationConfig keeps its other members; lists of tools are joined, too.
func joined(sent any, extra map[string]json.RawMessage) ([]byte, error) {
	body, err := wire.Marshal(sent)
	if err != nil || len(extra) == 0 {
		return body, err
	}
	all := members(body)
	for name, over := range extra {
		under, _ := all[name].(json.RawMessage)
		all[name] = over
		var object map[string]json.RawMessage
		var ours, more []json.RawMessage
		if json.Unmarshal(over, &object) == nil && object != nil && bytes.HasPrefix(under, []byte("{")) {
			if over, err = joined(under, object); err != nil {
				return nil, err
			}
			all[name] = json.RawMessage(over)
		} else if name == "tools" && json.Unmarshal(under, &ours) == nil && json.Unmarshal(over, &more) == nil {
			all[name] = append(ours, more...)
		}
	}
	return wire.Marshal(all)
}

// request says in Google's words what is asked.
func (a *asking) request(req *adapter.Request) (*request, error) {
	r := &request{
		GenerationConfig: settings{
			Temperature: req.Temperature, TopP: req.TopP, MaxOutputTokens: req.MaxTokens, StopSequences: req.Stop, Seed: req.Seed,
			Thinking: a.thinking(req.Reasoning),
		},
		ServiceTier: map[string]string{"flex": "flex", "priority": "priority", "default": "standard"}[req.ServiceTier],
	}
	g := &r.GenerationConfig
	if !a.Knows(noPenalties) {
		g.PresencePenalty, g.FrequencyPenalty = req.PresencePenalty, req.FrequencyPenalty
	}
	if req.Format.JSON && !(len(req.Tools) > 0 && a.Knows(noJSONWithTools)) {
		g.ResponseMIMEType = "application/json"
		if !a.Knows(noSchema) {
			g.ResponseSchema = req.Format.Schema
		}
	}
	var declared []declaration
	for _, t := range req.Tools {
		d := declaration{Name: t.Name, Description: t.Description, JSONSchema: t.Parameters}
		if a.Knows(plainParameters) {
			d.JSONSchema, d.Parameters = nil, plain(t.Parameters)
		}
		declared = append(declared, d)
	}
	if declared != nil {
		r.Tools = []tool{{declared}}
		if req.ToolChoice != "" {
			r.ToolConfig = new(toolConfig)
			c := &r.ToolConfig.FunctionCallingConfig
			if c.Mode = modes[req.ToolChoice]; c.Mode == "" {
				c.Mode, c.Allowed = "ANY", []string{req.ToolChoice}
			}
		}
	}
	h := history{m: a.model, signs: a.signs(), calls: map[string]part{}}
	if err := h.take(req.Messages); err != nil {
		return nil, err
	}
	r.Contents = h.contents
	r.unsigned = h.unsigned
	if len(h.system) > 0 {
		r.SystemInstruction = &content{Parts: h.system}
	}
	return r, nil
}

// modes are the words for choices of tools; any other is the name of one.
var modes = map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}

// thinking says how the model is to think; nil leaves it to the model. Gemini 3 has levels, those before have a budget of tokens.
func (a *asking) thinking(r adapter.Reasoning) *thinking {
	m := a.model
	thinks := m.generation >= 25 && !m.says("image") && !m.says("tts") && !m.says("audio") && !m.says("live")
	if a.Knows(noThinking) || !thinks && r.Effort == "" && r.Budget == nil {
		return nil
	}
	t := &thinking{IncludeThoughts: r.Show == nil || *r.Show, Budget: r.Budget}
	switch levels := m.generation >= 30 && !a.Knows(noLevels); {
	case r.Budget != nil || r.Effort == "":
	case levels:
		if t.Level = cmp.Or(levelOf[r.Effort], r.Effort); t.Level == "minimal" && !m.says("flash") { // Pro models cannot think as little
			t.Level = "low"
		}
	case r.Effort == "none" && m.says("pro"):
		t.Budget = new(128) // the least that Gemini 2.5 Pro takes
	default:
		if budget, ok := budgets[r.Effort]; ok {
			t.Budget = &budget
		}
	}
	// Thoughts can only be asked for where there are any. Flash-Lite of Gemini 2.5 does not think by itself.
	if t.Budget != nil && *t.Budget == 0 || t.Budget == nil && t.Level == "" && m.generation == 25 && m.says("lite") {
		t.IncludeThoughts = false
	}
	if *t == (thinking{}) {
		return nil
	}
	return t
}

// levelOf has the levels of efforts that are called otherwise.
var levelOf = map[string]string{"none": "minimal", "xhigh": "high"}

// budgets are the tokens for thinking of models that have no levels, as Google's own chat completions translate them.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}

// history makes contents of messages.
type history struct {
	m        *model
	signs    bool // the first call of each step needs a signature
	unsigned bool // there is one without
	system   []part
	contents []content
	calls    map[string]part // that were sent, by id
}

// add adds parts to the last content where that is of the same role, and else as a content of its own.
func (h *history) add(role string, parts []part) {
	switch n := len(h.contents); {
	case len(parts) == 0:
	case n > 0 && h.contents[n-1].Role == role:
		h.contents[n-1].Parts = append(h.contents[n-1].Parts, parts...)
	default:
		h.contents = append(h.contents, content{role, parts})
	}
}

func (h *history) take(messages []adapter.Message) error {
	var beside []part // what stands behind a row of results
	for i := range messages {
		msg := &messages[i]
		if msg.Role == adapter.Assistant {
			h.add("model", h.answer(msg))
			continue
		}
		parts, err := h.m.parts(msg)
		if err != nil {
			return err
		}
		switch msg.Role {
		case adapter.System:
			h.system = append(h.system, parts...)
		case adapter.ToolRole:
			result, more := h.result(msg.ToolCallID, parts)
			h.add("user", result)
			if beside = append(beside, more...); i+1 == len(messages) || messages[i+1].Role != adapter.ToolRole {
				h.add("user", beside)
				beside = nil
			}
		default:
			h.add("user", parts)
		}
	}
	return nil
}

const (
	signature = "thoughtSignature"
	// skipValidator is what Google's documents give as the signature of a call that no Gemini has made
	// (ai.google.dev/gemini-api/docs/thought-signatures, the questions at its end).
	skipValidator = "skip_thought_signature_validator"
)

// answer returns the parts of a message of the model.
func (h *history) answer(msg *adapter.Message) (parts []part) {
	called := false
	for made, c := range wire.Parts(msg) {
		p := members(made.Data)
		signed := p[signature] != nil
		switch made.Type {
		case adapter.PartText:
			if p["text"] = made.Text; made.Text == "" && !signed {
				continue
			}
		case adapter.PartReasoning:
			// Google wants signed parts back. A summary of thoughts without a signature would only cost tokens.
			if p["text"], p["thought"] = made.Text, true; !signed {
				continue
			}
		case adapter.PartCall:
			if c == nil {
				continue
			}
			f := part{"name": c.Name, "args": wire.Arguments(strings.ToValidUTF8(c.Arguments, "\uFFFD"))}
			if id := p["id"]; id != nil {
				f["id"] = id
			}
			delete(p, "id")
			p["functionCall"], h.calls[c.ID] = f, f
			if !called && !signed {
				if h.unsigned = true; h.signs {
					p[signature] = skipValidator
				}
			}
			called = true
		}
		if len(p) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// members reads an object; an empty one where there is none.
func members(object json.RawMessage) part {
	var raw map[string]json.RawMessage
	json.Unmarshal(object, &raw) // nil is empty
	p := make(part, len(raw)+2)
	for name, value := range raw {
		p[name] = value
	}
	return p
}

// result returns the result of a tool, and what does not fit into it: files where the model takes none there, and all where its call is not known.
func (h *history) result(id string, said []part) (result, beside []part) {
	c := h.calls[id]
	if c == nil {
		return nil, said
	}
	text := ""
	for _, p := range said {
		if t, ok := p["text"].(string); ok {
			text += t
		} else {
			beside = append(beside, p)
		}
	}
	r := maps.Clone(c) // the name, and the id where there is one
	delete(r, "args")
	r["response"] = part{"output": output(text)}
	if h.m.generation >= 30 && len(beside) > 0 {
		r["parts"], beside = beside, nil
	}
	return []part{{"functionResponse": r}}, beside
}

// output returns what a tool has answered: JSON as it is, anything else as a string.
func output(text string) any {
	if text = strings.ToValidUTF8(text, "\uFFFD"); json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
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

// attempt is a request on its way. What it learns from refusals is kept for its model when an answer has shown that it helps.
type attempt struct {
	*model
	lessons []string
}

func (a *attempt) knows(what string) bool {
	return slices.Contains(a.lessons, what) || a.p.learned.Knows(a.name, what)
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	a := &attempt{model: m}
	var said []string
	for renewed := false; ; {
		sent, err := a.request(&req)
		if err != nil {
			return nil, err
		}
		body, err := m.p.Write(&req, sent, joined)
		if err != nil {
			return nil, err
		}
		header, err := m.p.header(ctx, "text/event-stream")
		if err != nil {
			return nil, err
		}
		res, refusal, err := m.p.Post(ctx, m.url, header, body)
		switch {
		case err != nil:
			return nil, err
		case refusal == nil:
			for i, lesson := range a.lessons {
				m.p.learned.Learn(m.name, lesson)
				adapter.Learned(ctx, said[i])
			}
			return res, nil
		case refusal.Status == http.StatusUnauthorized && m.p.tokens != nil && !renewed:
			m.p.tokens.expire() // it may have been withdrawn
			renewed = true
			continue
		}
		lesson := a.giveIn(sent, refusal)
		if lesson == "" || a.knows(lesson) {
			return nil, m.p.refused(refusal)
		}
		a.lessons, said = append(a.lessons, lesson), append(said, m.p.Redact(refusal.Body))
	}
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
func (a *attempt) request(req *adapter.Request) (*request, error) {
	r := &request{
		GenerationConfig: settings{
			Temperature: req.Temperature, TopP: req.TopP, MaxOutputTokens: req.MaxTokens, StopSequences: req.Stop, Seed: req.Seed,
			Thinking: a.thinking(req.Reasoning),
		},
		ServiceTier: map[string]string{"flex": "flex", "priority": "priority", "default": "standard"}[req.ServiceTier],
	}
	g := &r.GenerationConfig
	if !a.knows(noPenalties) {
		g.PresencePenalty, g.FrequencyPenalty = req.PresencePenalty, req.FrequencyPenalty
	}
	if req.Format.JSON && !(len(req.Tools) > 0 && a.knows(noJSONWithTools)) {
		g.ResponseMIMEType = "application/json"
		if !a.knows(noSchema) {
			g.ResponseSchema = req.Format.Schema
		}
	}
	var declared []declaration
	for _, t := range req.Tools {
		d := declaration{Name: t.Name, Description: t.Description, JSONSchema: t.Parameters}
		if a.knows(plainParameters) {
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
	h := history{m: a.model, signs: a.signs(), calls: map[string]sentCall{}}
	if err := h.take(req.Messages); err != nil {
		return nil, err
	}
	r.Contents = h.contents
	if len(h.system) > 0 {
		r.SystemInstruction = &content{Parts: h.system}
	}
	return r, nil
}

// modes are the words for choices of tools; any other is the name of one.
var modes = map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}

// thinking says how the model is to think; nil leaves it to the model. Gemini 3 has levels, those before have a budget of tokens.
func (a *attempt) thinking(r adapter.Reasoning) *thinking {
	m := a.model
	thinks := m.generation >= 25 && !m.says("image") && !m.says("tts") && !m.says("audio") && !m.says("live")
	if a.knows(noThinking) || !thinks && r.Effort == "" && r.Budget == nil {
		return nil
	}
	t := &thinking{IncludeThoughts: r.Show == nil || *r.Show, Budget: r.Budget}
	switch levels := m.generation >= 30 && !a.knows(noLevels); {
	case r.Budget != nil || r.Effort == "":
	case levels:
		t.Level = r.Effort
		switch r.Effort {
		case "none", "minimal":
			if t.Level = "minimal"; !m.says("flash") { // Pro models cannot think as little
				t.Level = "low"
			}
		case "xhigh":
			t.Level = "high"
		}
	default:
		if budget, ok := budgets[r.Effort]; ok {
			t.Budget = &budget
		}
		if r.Effort == "none" && m.says("pro") {
			t.Budget = new(128) // the least that Gemini 2.5 Pro takes
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

// budgets are the tokens for thinking of models that have no levels, as Google's own chat completions translate them.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}

// history makes contents of messages.
type history struct {
	m        *model
	signs    bool // the first call of each step needs a signature
	system   []part
	contents []content
	calls    map[string]sentCall // by id
}

// sentCall is a call that was sent, for its result.
type sentCall struct {
	name string
	id   any // on the wire; nil where it had none
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
	sent := map[string]bool{}
	call := func(c *adapter.ToolCall, beside json.RawMessage) {
		p, f := members(beside), part{"name": c.Name, "args": arguments(c.Arguments)}
		id := p["id"]
		if delete(p, "id"); id != nil {
			f["id"] = id
		}
		p["functionCall"] = f
		parts = append(parts, p)
		h.calls[c.ID] = sentCall{c.Name, id}
		sent[c.ID] = true
	}
	if msg.Made == nil {
		if msg.Content != "" {
			parts = append(parts, part{"text": msg.Content})
		}
	} else {
		for _, made := range msg.Made.Parts {
			switch p := members(made.Data); made.Type {
			case adapter.PartText:
				if p["text"] = made.Text; made.Text != "" || p[signature] != nil {
					parts = append(parts, p)
				}
			case adapter.PartReasoning:
				// Google wants signed parts back. A summary of thoughts without a signature would only cost tokens.
				if p["text"], p["thought"] = made.Text, true; p[signature] != nil {
					parts = append(parts, p)
				}
			case adapter.PartCall:
				for i := range msg.ToolCalls {
					if c := &msg.ToolCalls[i]; c.ID == made.Call && !sent[c.ID] {
						call(c, made.Data)
					}
				}
			case adapter.PartOther:
				if len(p) > 0 {
					parts = append(parts, p)
				}
			}
		}
	}
	for i := range msg.ToolCalls {
		if c := &msg.ToolCalls[i]; !sent[c.ID] {
			call(c, nil)
		}
	}
	for _, p := range parts {
		if p["functionCall"] != nil {
			if h.signs && p[signature] == nil {
				p[signature] = skipValidator
			}
			break
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

// arguments returns the arguments of a call, which have to be an object.
func arguments(text string) any {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var object map[string]json.RawMessage
	switch {
	case json.Unmarshal([]byte(text), &object) == nil && object != nil:
		return json.RawMessage(text)
	case text == "":
		return part{}
	default:
		return part{"arguments": text}
	}
}

// result returns the result of a tool, and what does not fit into it: files where the model takes none there, and all where its call is not known.
func (h *history) result(id string, said []part) (result, beside []part) {
	c, known := h.calls[id]
	if !known {
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
	r := part{"name": c.name, "response": part{"output": output(text)}}
	if c.id != nil {
		r["id"] = c.id
	}
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

package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/heavy"
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

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	known := m.known()
	var lessons []string
	for now, renewed := known, false; ; {
		sent, body, err := m.body(req, now)
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
			if now != known {
				m.p.learned.Store(m.name, now)
			}
			for _, said := range lessons {
				adapter.Learned(ctx, said)
			}
			return res, nil
		case refusal.Status == http.StatusUnauthorized && m.p.tokens != nil && !renewed:
			m.p.tokens.expire() // it may have been withdrawn
			renewed = true
			continue
		}
		next := m.giveIn(now, known, sent, refusal)
		if next == now {
			return nil, m.p.refused(refusal)
		}
		now, lessons = next, append(lessons, m.p.Redact(refusal.Body))
	}
}

// body writes a request.
func (m *model) body(req adapter.Request, known learned) (*request, []byte, error) {
	sent, err := m.request(&req, known)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	heavy.Do(int(req.Size()), func() {
		if body, err = wire.Marshal(sent); err == nil {
			body, err = lay(body, req.ExtraBody)
		}
	})
	if err != nil {
		return nil, nil, &adapter.Error{
			Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema or a member of extra_body is not JSON",
			Cause: adapter.RedactError(err, m.p.Key()),
		}
	}
	return sent, body, nil
}

// lay lays members over those of a body. Objects are joined, so that generationConfig keeps its other members; lists of tools are joined, too.
func lay(body []byte, extra map[string]json.RawMessage) ([]byte, error) {
	if len(extra) == 0 {
		return body, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	for name, over := range extra {
		var object map[string]json.RawMessage
		var ours, more []json.RawMessage
		switch under := members[name]; {
		case under == nil:
		case json.Unmarshal(over, &object) == nil && object != nil && under[0] == '{':
			joined, err := lay(under, object)
			if err != nil {
				return nil, err
			}
			over = joined
		case name == "tools" && json.Unmarshal(under, &ours) == nil && json.Unmarshal(over, &more) == nil:
			over, _ = wire.Marshal(append(ours, more...)) // of JSON: cannot fail
		}
		members[name] = over
	}
	return wire.Marshal(members)
}

// request says in Google's words what is asked.
func (m *model) request(req *adapter.Request, known learned) (*request, error) {
	r := &request{
		GenerationConfig: settings{
			Temperature: req.Temperature, TopP: req.TopP, MaxOutputTokens: req.MaxTokens, StopSequences: req.Stop, Seed: req.Seed,
			Thinking: m.thinking(req.Reasoning, known),
		},
		ServiceTier: map[string]string{"flex": "flex", "priority": "priority", "default": "standard"}[req.ServiceTier],
	}
	g := &r.GenerationConfig
	if !known.NoPenalties {
		g.PresencePenalty, g.FrequencyPenalty = req.PresencePenalty, req.FrequencyPenalty
	}
	if req.Format.JSON && !(known.NoJSONWithTools && len(req.Tools) > 0) {
		g.ResponseMIMEType = "application/json"
		if !known.NoSchema {
			g.ResponseSchema = req.Format.Schema
		}
	}
	var declared []declaration
	for _, t := range req.Tools {
		d := declaration{Name: t.Name, Description: t.Description, JSONSchema: t.Parameters}
		if known.PlainParameters {
			d.JSONSchema, d.Parameters = nil, plain(t.Parameters)
		}
		declared = append(declared, d)
	}
	if declared != nil {
		r.Tools = []tool{{declared}}
		if req.ToolChoice != "" {
			r.ToolConfig = new(toolConfig)
			c := &r.ToolConfig.FunctionCallingConfig
			switch req.ToolChoice {
			case "auto":
				c.Mode = "AUTO"
			case "none":
				c.Mode = "NONE"
			case "required":
				c.Mode = "ANY"
			default:
				c.Mode, c.Allowed = "ANY", []string{req.ToolChoice}
			}
		}
	}
	h := history{m: m, signs: m.signs(known), calls: map[string]sentCall{}}
	if err := h.take(req.Messages); err != nil {
		return nil, err
	}
	r.Contents = h.contents
	if len(h.system) > 0 {
		r.SystemInstruction = &content{Parts: h.system}
	}
	return r, nil
}

// thinking says how the model is to think; nil leaves it to the model. Gemini 3 has levels, those before have a budget of tokens.
func (m *model) thinking(r adapter.Reasoning, known learned) *thinking {
	thinks := m.generation >= 25 && !m.says("image") && !m.says("tts") && !m.says("audio") && !m.says("live")
	if known.NoThinking || !thinks && r.Effort == "" && r.Budget == nil {
		return nil
	}
	t := &thinking{IncludeThoughts: r.Show == nil || *r.Show, Budget: r.Budget}
	switch levels := m.generation >= 30 && !known.NoLevels; {
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
	sent     int                 // calls
}

// sentCall is a call that was sent, for its result.
type sentCall struct {
	name  string
	id    any // on the wire; nil where it had none
	order int
}

// add adds parts to the last content where that is of the same role, and else as a content of its own.
func (h *history) add(role string, parts []part) {
	if len(parts) == 0 {
		return
	}
	if n := len(h.contents); n > 0 && h.contents[n-1].Role == role {
		h.contents[n-1].Parts = append(h.contents[n-1].Parts, parts...)
		return
	}
	h.contents = append(h.contents, content{role, parts})
}

func (h *history) take(messages []adapter.Message) error {
	for len(messages) > 0 {
		msg := &messages[0]
		n := 1
		switch msg.Role {
		case adapter.System:
			parts, err := h.m.parts(msg)
			if err != nil {
				return err
			}
			h.system = append(h.system, parts...)
		case adapter.Assistant:
			h.add("model", h.answer(msg))
		case adapter.ToolRole:
			for n < len(messages) && messages[n].Role == adapter.ToolRole {
				n++
			}
			parts, err := h.results(messages[:n])
			if err != nil {
				return err
			}
			h.add("user", parts)
		default:
			parts, err := h.m.parts(msg)
			if err != nil {
				return err
			}
			h.add("user", parts)
		}
		messages = messages[n:]
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
		h.calls[c.ID] = sentCall{c.Name, id, h.sent}
		h.sent++
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

// results returns the parts of a row of results, in the order of their calls.
func (h *history) results(messages []adapter.Message) (parts []part, err error) {
	var files []part
	type result struct {
		order int
		part  part
	}
	var rows []result
	for i := range messages {
		msg := &messages[i]
		said, err := h.m.parts(msg)
		if err != nil {
			return nil, err
		}
		text, media := "", []part(nil)
		for _, p := range said {
			if t, ok := p["text"].(string); ok {
				text += t
			} else {
				media = append(media, p)
			}
		}
		c, known := h.calls[msg.ToolCallID]
		if !known { // its call is not in the history
			if text != "" {
				files = append(files, part{"text": text})
			}
			files = append(files, media...)
			continue
		}
		r := part{"name": c.name, "response": part{"output": output(text)}}
		if c.id != nil {
			r["id"] = c.id
		}
		if h.m.generation >= 30 && len(media) > 0 {
			r["parts"] = media
		} else {
			files = append(files, media...)
		}
		rows = append(rows, result{c.order, part{"functionResponse": r}})
	}
	slices.SortStableFunc(rows, func(a, b result) int { return cmp.Compare(a.order, b.order) })
	for _, r := range rows {
		parts = append(parts, r.part)
	}
	return append(parts, files...), nil
}

// output returns what a tool has answered: JSON as it is, anything else as a string.
func output(text string) any {
	if text = strings.ToValidUTF8(text, "\uFFFD"); json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// learned is what a model has refused before: it is not sent again.
type learned struct {
	NoThinking, NoLevels, NoSchema, NoJSONWithTools, PlainParameters, NoPenalties bool
	Signs                                                                         signing
}

// signing says whether a call without a signature gets the one that skips the check.
type signing int

const (
	byGeneration signing = iota // Gemini 3 and later insist
	signed
	unsigned
)

func (m *model) known() learned {
	known, _ := m.p.learned.Load(m.name)
	l, _ := known.(learned)
	return l
}

func (m *model) signs(known learned) bool {
	if known.Signs == byGeneration {
		return m.generation >= 30
	}
	return known.Signs == signed
}

package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// put adds a member that has a value.
func put[T any](o object, name string, value *T) {
	if value != nil {
		o[name] = *value
	}
}

// Lessons that the refusals of a model can teach.
const (
	noThinking      = "no thinking"
	noLevels        = "no levels of thinking"
	noSchema        = "no schema"
	noJSONWithTools = "no JSON beside tools"
	plainParameters = "no JSON Schema of parameters"
	noPenalties     = "no penalties"
	newToken        = "new token"
	// The first call of a step without a signature gets the one that skips the check; Gemini 3 and later insist on it.
	signatures   = "signatures"
	noSignatures = "no signatures"
)

// asking is one request to a model.
type asking struct {
	*model
	wire.Asking
	unsigned bool // there is a step whose first call no Gemini has signed
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	a := &asking{model: m, Asking: wire.Asking{Lessons: &m.p.learned, Model: m.name}}
	var sent object
	return m.p.Ask(ctx, &a.Asking, req.Size(), func() (_ []byte, err error) {
		if sent, err = a.request(req); err != nil {
			return nil, err
		}
		return rawjson.Marshal(sent)
	}, func(body []byte) (*http.Response, *wire.Refusal, error) {
		return m.p.Post(ctx, m.url, m.p.header("text/event-stream"), body)
	}, func(r *wire.Refusal) (string, bool) { return a.giveIn(sent, r) }, m.p.refused)
}

// request says in Google's words what is asked.
func (a *asking) request(req *adapter.Request) (object, error) {
	contents, system, err := a.history(req.Messages)
	if err != nil {
		return nil, err
	}
	config := object{}
	body := object{"contents": contents, "generationConfig": config}
	if len(system) > 0 {
		body["systemInstruction"] = object{"parts": system}
	}
	put(config, "temperature", req.Temperature)
	put(config, "topP", req.TopP)
	put(config, "maxOutputTokens", req.MaxTokens)
	put(config, "seed", req.Seed)
	if !a.Knows(noPenalties) {
		put(config, "presencePenalty", req.PresencePenalty)
		put(config, "frequencyPenalty", req.FrequencyPenalty)
	}
	if len(req.Stop) > 0 {
		config["stopSequences"] = req.Stop
	}
	if t := a.thinking(req.Reasoning); len(t) > 0 {
		config["thinkingConfig"] = t
	}
	if req.Format.JSON && !(len(req.Tools) > 0 && a.Knows(noJSONWithTools)) {
		config["responseMimeType"] = "application/json"
		if len(req.Format.Schema) > 0 && !a.Knows(noSchema) {
			config["responseJsonSchema"] = req.Format.Schema
		}
	}
	if tier := tiers[req.ServiceTier]; tier != "" {
		body["serviceTier"] = tier
	}
	if len(req.Tools) > 0 {
		a.tools(body, req)
	}
	overlay(body, req.ExtraBody)
	delete(config, "candidateCount") // one answer is read
	return body, nil
}

// tiers and modes are Google's words for tiers of service, and for choices of tools.
var (
	tiers = map[string]string{"flex": "flex", "priority": "priority", "default": "standard"}
	modes = map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}
)

// tools adds the tools and the choice among them.
func (a *asking) tools(body object, req *adapter.Request) {
	declared := make([]object, len(req.Tools))
	for i, t := range req.Tools {
		d := object{"name": t.Name}
		if t.Description != "" {
			d["description"] = t.Description
		}
		if !a.Knows(plainParameters) && len(t.Parameters) > 0 {
			d["parametersJsonSchema"] = t.Parameters
		} else if schema := wire.GoogleSchema(t.Parameters); schema != nil {
			d["parameters"] = schema
		}
		declared[i] = d
	}
	body["tools"] = []any{object{"functionDeclarations": declared}}
	if choice := req.ToolChoice; modes[choice] != "" {
		body["toolConfig"] = object{"functionCallingConfig": object{"mode": modes[choice]}}
	} else if choice != "" {
		body["toolConfig"] = object{"functionCallingConfig": object{"mode": "ANY", "allowedFunctionNames": []string{choice}}}
	}
}

// overlay lays the members of an extra body over a request: those of objects one by one, and its tools behind the others.
func overlay(body object, over map[string]json.RawMessage) {
	for name, value := range over {
		under, _ := body[name].(object)
		tools, _ := body[name].([]any)
		var inner map[string]json.RawMessage
		var more []any
		switch {
		case under != nil && json.Unmarshal(value, &inner) == nil && inner != nil:
			overlay(under, inner)
		case tools != nil && json.Unmarshal(value, &more) == nil:
			body[name] = append(tools, more...)
		default:
			body[name] = value
		}
	}
}

// thinking says how the model is to think; without members it leaves that to the model. Gemini 3 has levels, those before have a budget of
// tokens.
func (a *asking) thinking(r adapter.Reasoning) object {
	thinks := a.generation >= 25 && !a.says("image") && !a.says("tts") && !a.says("audio") && !a.says("live")
	if a.Knows(noThinking) || !thinks && r.Effort == "" && r.Budget == nil {
		return nil
	}
	t := object{}
	budget, known := budgets[r.Effort]
	switch {
	case r.Budget != nil:
		t["thinkingBudget"] = *r.Budget
	case r.Effort == "":
	case a.generation >= 30 && !a.Knows(noLevels):
		level := cmp.Or(levels[r.Effort], r.Effort)
		if level == "minimal" && !a.says("flash") { // Pro models cannot think as little
			level = "low"
		}
		t["thinkingLevel"] = level
	case r.Effort == "none" && a.says("pro"):
		t["thinkingBudget"] = 128 // the least that Gemini 2.5 Pro takes
	case known:
		t["thinkingBudget"] = budget
	}
	// Thoughts can only be asked for where there are any. Flash-Lite of Gemini 2.5 does not think by itself.
	silent := t["thinkingBudget"] == 0 || len(t) == 0 && a.generation == 25 && a.says("lite")
	if !silent && (r.Show == nil || *r.Show) {
		t["includeThoughts"] = true
	}
	return t
}

// levels are those of efforts that are called otherwise.
var levels = map[string]string{"none": "minimal", "xhigh": "high"}

// budgets are the tokens for thinking of models that have no levels, as Google's own chat completions translate them.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}

// giveIn says what a refusal teaches: what to leave out of the next request, or to put in; "" where it teaches nothing.
func (a *asking) giveIn(sent object, r *wire.Refusal) (what string, once bool) {
	if r.Status == http.StatusUnauthorized && a.p.tokens != nil {
		a.p.tokens.expire() // it may have been withdrawn
		return newToken, true
	}
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return "", false
	}
	// Google writes the name of a member in camel case, in snake case, or as words.
	said := strings.NewReplacer("_", "", " ", "").Replace(strings.ToLower(string(r.Body)))
	config := sent["generationConfig"].(object)
	thinking, _ := config["thinkingConfig"].(object)
	schema, tools := config["responseJsonSchema"] != nil, sent["tools"] != nil
	parameters := tools && !a.Knows(plainParameters)
	return wire.Taught(said, []wire.Lesson{
		{What: "", Sent: !a.unsigned, Says: "thoughtsignature"}, // it is the model's own, and package adapter asks without it
		{What: noSignatures, Sent: a.signs(), Says: "thoughtsignature"},
		{What: signatures, Sent: true, Says: "thoughtsignature"},
		{What: noLevels, Sent: thinking["thinkingLevel"] != nil, Says: "thinkinglevel"},
		{What: noThinking, Sent: thinking != nil, Says: "thinking|includethoughts"},
		{What: noSchema, Sent: schema, Says: "responsejsonschema|responseschema"},
		{What: noJSONWithTools, Sent: tools && config["responseMimeType"] != nil, Says: "mimetype"},
		{What: plainParameters, Sent: parameters, Says: "functiondeclarations|parameters"},
		{What: noSchema, Sent: schema, Says: "schema"},
		{What: plainParameters, Sent: parameters, Says: "schema"},
		{What: noPenalties, Sent: config["presencePenalty"] != nil || config["frequencyPenalty"] != nil, Says: "penalty"},
	})
}

// signs says whether calls that no Gemini has signed get the signature that skips the check. What a model insists on it is not taken back.
func (a *asking) signs() bool {
	return a.Knows(signatures) || a.generation >= 30 && !a.Knows(noSignatures)
}

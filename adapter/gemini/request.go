package gemini

import (
	"cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// Fallbacks of requests that are refused.
const (
	noThoughts = "without asking for thoughts"
	noSchema   = "without a schema"
	noJSON     = "without asking for JSON"
	// Gemini 3 and later insist on a signature of the first call of a step. A call that no Gemini has signed gets one that skips the check.
	signed   = "with a signature for calls of others"
	unsigned = "without a signature for calls of others"
)

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	req     *adapter.Request
	sent    object
	foreign bool // there is a step whose first call no Gemini has signed
}

// Write writes the request.
func (a *asking) Write() (_ []byte, err error) {
	if a.sent, err = a.request(a.req); err != nil {
		return nil, err
	}
	return rawjson.Marshal(a.sent)
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
	wire.Put(config, "temperature", req.Temperature)
	wire.Put(config, "topP", req.TopP)
	wire.Put(config, "maxOutputTokens", req.MaxTokens)
	wire.Put(config, "seed", req.Seed)
	wire.Put(config, "presencePenalty", req.PresencePenalty)
	wire.Put(config, "frequencyPenalty", req.FrequencyPenalty)
	if len(req.Stop) > 0 {
		config["stopSequences"] = req.Stop
	}
	if t := a.thinking(req.Reasoning); len(t) > 0 {
		config["thinkingConfig"] = t
	}
	older := a.generation > 0 && !a.gemini3() // takes no JSON beside tools
	if req.Format.JSON && !(older && len(req.Tools) > 0) && !a.Uses(noJSON) {
		config["responseMimeType"] = "application/json"
		if len(req.Format.Schema) > 0 && !a.Uses(noSchema) {
			config["responseJsonSchema"] = req.Format.Schema
		}
	}
	if tier := tiers[req.ServiceTier]; tier != "" {
		body["serviceTier"] = tier
	}
	if len(req.Tools) > 0 {
		a.tools(body, req)
	}
	wire.Overlay(body, req.ExtraBody)
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
		if len(t.Parameters) > 0 {
			d["parametersJsonSchema"] = t.Parameters
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

// thinking says how the model is to think; without members it leaves that to the model. Gemini 3 has levels, those before have a budget of
// tokens.
func (a *asking) thinking(r adapter.Reasoning) object {
	thinks := a.generation >= 25 && !a.nameHas("image") && !a.nameHas("tts") && !a.nameHas("audio") && !a.nameHas("live")
	if !thinks && r.Effort == "" && r.Budget == nil {
		return nil
	}
	t := object{}
	budget, known := budgets[r.Effort]
	switch {
	case r.Budget != nil:
		t["thinkingBudget"] = *r.Budget
	case r.Effort == "":
	case a.generation >= 30:
		level := cmp.Or(levels[r.Effort], r.Effort)
		if level == "minimal" && !a.nameHas("flash") { // Pro models cannot think as little
			level = "low"
		}
		t["thinkingLevel"] = level
	case r.Effort == "none" && a.nameHas("pro"):
		t["thinkingBudget"] = 128 // the least that Gemini 2.5 Pro takes
	case known:
		t["thinkingBudget"] = budget
	}
	// Thoughts can only be asked for where there are any. Flash-Lite of Gemini 2.5 does not think by itself.
	silent := t["thinkingBudget"] == 0 || len(t) == 0 && a.generation == 25 && a.nameHas("lite")
	if !silent && (r.Show == nil || *r.Show) && !a.Uses(noThoughts) {
		t["includeThoughts"] = true
	}
	return t
}

// levels are those of efforts that are called otherwise.
var levels = map[string]string{"none": "minimal", "xhigh": "high"}

// budgets are the tokens for thinking of models that have no levels, as Google's own chat completions translate them.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}

// Others returns the other ways to write a request. Google writes the name of a member in camel case, in snake case, or as words.
func (a *asking) Others(string) []wire.Fallback {
	config := a.sent["generationConfig"].(object)
	thinking, _ := config["thinkingConfig"].(object)
	aboutSignature := []string{"thoughtsignature", "thought_signature", "thought signature"}
	return []wire.Fallback{
		{Name: unsigned, Applies: a.foreign && a.gemini3(), Words: aboutSignature},
		{Name: signed, Applies: a.foreign && !a.gemini3(), Words: aboutSignature},
		{Name: noThoughts, Applies: thinking["includeThoughts"] != nil, Words: []string{"thinking", "includethoughts", "include_thoughts"}},
		{Name: noJSON, Applies: config["responseMimeType"] != nil, Words: []string{"responsemimetype", "response_mime_type", "response mime type"}},
		{Name: noSchema, Applies: config["responseJsonSchema"] != nil, Words: []string{"schema"}},
	}
}

// signs reports whether calls that no Gemini has signed get the signature that skips the check.
func (a *asking) signs() bool { return a.Uses(signed) || a.gemini3() && !a.Uses(unsigned) }

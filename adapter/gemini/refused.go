package gemini

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// What a model can teach by a refusal.
const (
	noThinking      = "no thinking"
	noLevels        = "no levels of thinking"
	noSchema        = "no schema"
	noJSONWithTools = "no JSON beside tools"
	plainParameters = "no JSON Schema of parameters"
	noPenalties     = "no penalties"
	// The first call of a step without a signature gets the one that skips the check; Gemini 3 and later insist on it.
	signatures   = "signatures"
	noSignatures = "no signatures"
)

// giveIn returns what a refusal teaches: what to leave out of the next request, or to put in; "" where it teaches nothing.
func (a *asking) giveIn(sent *request, r *wire.Refusal) string {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return ""
	}
	// Google writes the name of a member in camel case, in snake case, or as words.
	said := strings.NewReplacer("_", "", " ", "").Replace(strings.ToLower(string(r.Body)))
	if strings.Contains(said, "thoughtsignature") {
		switch {
		case !sent.unsigned: // it is the model's own, and package adapter asks without it
			return ""
		case a.signs():
			return noSignatures
		}
		return signatures
	}
	g := &sent.GenerationConfig
	schema, parameters := g.ResponseSchema != nil, sent.Tools != nil && !a.Knows(plainParameters)
	for _, row := range []struct {
		lesson string
		sent   bool
		words  []string
	}{
		{noLevels, g.Thinking != nil && g.Thinking.Level != "", []string{"thinkinglevel"}},
		{noThinking, g.Thinking != nil, []string{"thinking", "includethoughts"}},
		{noSchema, schema, []string{"responsejsonschema", "responseschema"}},
		{noJSONWithTools, g.ResponseMIMEType != "" && sent.Tools != nil, []string{"mimetype"}},
		{plainParameters, parameters, []string{"functiondeclarations", "parameters"}},
		{noSchema, schema, []string{"schema"}},
		{plainParameters, parameters, []string{"schema"}},
		{noPenalties, g.PresencePenalty != nil || g.FrequencyPenalty != nil, []string{"penalty"}},
	} {
		if row.sent && slices.ContainsFunc(row.words, func(w string) bool { return strings.Contains(said, w) }) {
			return row.lesson
		}
	}
	return ""
}

// signs says whether calls that no Gemini has signed get the signature that skips the check. What a model insists on it is not taken back.
func (a *asking) signs() bool {
	return a.Knows(signatures) || a.generation >= 30 && !a.Knows(noSignatures)
}

// refused makes the error of an answer with another status than 200.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	e := p.Refused(r)
	if e.Code == adapter.CodeAuth && p.tokens != nil && strings.Contains(e.Message, p.KeyName) {
		e.Message = p.Name() + " refused the credentials: check " + p.KeyName + ", the project, and that its account may use Vertex AI"
	}
	return e
}

package gemini

import (
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// giveIn leaves out what the server has refused. It returns now where there is nothing left to give in.
func (m *model) giveIn(now, known learned, sent *request, r *wire.Refusal) learned {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return now
	}
	said := strings.ToLower(string(r.Body))
	names := func(words ...string) bool {
		for _, w := range words {
			// Google writes the name of a member in camel case, in snake case, or as words.
			if strings.Contains(said, w) || strings.Contains(said, strings.ReplaceAll(w, " ", "_")) || strings.Contains(said, strings.ReplaceAll(w, " ", "")) {
				return true
			}
		}
		return false
	}
	g := &sent.GenerationConfig
	schema, parameters := g.ResponseSchema != nil, sent.Tools != nil && !now.PlainParameters
	switch {
	case names("thought signature"):
		// If the model refuses its own signature, package adapter asks without it.
		missing, skipped := unsignedCalls(sent)
		switch {
		case now.Signs != known.Signs:
		case m.signs(now) && skipped:
			now.Signs = unsigned
		case !m.signs(now) && missing:
			now.Signs = signed
		}
	case g.Thinking != nil && g.Thinking.Level != "" && names("thinking level"):
		now.NoLevels = true
	case g.Thinking != nil && names("thinking", "include thoughts"):
		now.NoThinking = true
	case schema && names("response json schema", "response schema"):
		now.NoSchema = true
	case g.ResponseMIMEType != "" && sent.Tools != nil && names("mime type"):
		now.NoJSONWithTools = true
	case parameters && names("function declarations", "parameters"):
		now.PlainParameters = true
	case schema && names("schema"):
		now.NoSchema = true
	case parameters && names("schema"):
		now.PlainParameters = true
	case (g.PresencePenalty != nil || g.FrequencyPenalty != nil) && names("penalty"):
		now.NoPenalties = true
	}
	return now
}

// unsignedCalls reports whether the first call of a step has no signature, and whether one has that which skips the check.
func unsignedCalls(sent *request) (missing, skipped bool) {
	for _, c := range sent.Contents {
		for _, p := range c.Parts {
			if p["functionCall"] != nil {
				missing = missing || p[signature] == nil
				skipped = skipped || p[signature] == skipValidator
				break
			}
		}
	}
	return missing, skipped
}

// refused makes the error of an answer with another status than 200.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	e := p.Refused(r)
	if e.Code == adapter.CodeAuth && p.tokens != nil && strings.Contains(e.Message, p.KeyName) {
		e.Message = p.Name() + " refused the credentials: check " + p.KeyName + ", the project, and that its account may use Vertex AI"
	}
	return e
}

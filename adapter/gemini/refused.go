package gemini

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

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
			// Google writes a member's name as it is in a message, in snake case, or as words.
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
		// A signature of the model's own that it does not take any more is not ours to replace: package adapter asks without what was made.
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
func (p *provider) refused(r *wire.Refusal) *adapter.Error { return p.explain(p.Refused(r), r.Body) }

// failed makes the error of an event that reports one.
func (p *provider) failed(data []byte) *adapter.Error { return p.explain(p.Failed(data), data) }

// explain adds what Google says in the details of an error.
func (p *provider) explain(e *adapter.Error, body []byte) *adapter.Error {
	type report struct {
		Error struct {
			Details []struct {
				Reason     string `json:"reason"`
				RetryDelay string `json:"retryDelay"`
				Violations []struct {
					QuotaID string `json:"quotaId"`
				} `json:"violations"`
			} `json:"details"`
		} `json:"error"`
	}
	var list []report // so without alt=sse
	if json.Unmarshal(body, &list) != nil {
		list = make([]report, 1)
		json.Unmarshal(body, &list[0]) // whatever cannot be read has no details
	}
	for _, r := range list {
		for _, d := range r.Error.Details {
			if strings.HasPrefix(d.Reason, "API_KEY_") && e.Code != adapter.CodeRateLimited { // some come with status 400
				e.Code, e.Retryable = adapter.CodeAuth, false
				e.Message = p.Name() + " refused the key: check " + p.KeyName
			}
			if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 && e.RetryAfter == 0 {
				e.RetryAfter = min(wait, 24*time.Hour)
			}
			for _, v := range d.Violations {
				if strings.Contains(v.QuotaID, "PerDay") && e.Code == adapter.CodeRateLimited {
					e.Retryable = false
					e.Message = p.Name() + " says that the quota of the day is used up"
				}
			}
		}
	}
	if e.Code == adapter.CodeAuth && p.tokens != nil {
		e.Message = p.Name() + " refused the credentials: check " + p.KeyName + ", the project, and that its account may use Vertex AI"
	}
	return e
}

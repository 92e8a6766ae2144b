package openai

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/adapter/wire"
)

// asking is a request on its way, and what its model has taught: what it takes in a history, and what it refuses without.
type asking struct {
	*model
	wire.Asking
}

func (m *model) asking() *asking {
	return &asking{m, wire.Asking{Lessons: &m.p.learned, Model: m.name}}
}

// needs says whether the model insists on a member.
func (a *asking) needs(name string) bool { return a.Knows(name) }

// refuses says whether it refuses one. What it insists on is not taken back.
func (a *asking) refuses(name string) bool { return a.Knows("no "+name) && !a.needs(name) }

// giveInHistory returns what a refusal teaches that names a member of an answer in the history.
func (a *asking) giveInHistory(sent *request, r *wire.Refusal) string {
	missing := missingWords(r.Body)
	switch {
	case names(r.Body, "thought_signature") && missing:
		return "extra_content"
	case names(r.Body, "reasoning_content") && missing:
		return "reasoning_content"
	case missing:
		return ""
	}
	for _, row := range []struct {
		name  string
		sends func(*message) bool
	}{
		{"reasoning_content", func(m *message) bool { return m.ReasoningContent != nil }},
		{"reasoning", func(m *message) bool { return m.Reasoning != "" }},
		{"thinking", func(m *message) bool { return m.Thinking != "" || isList(m.Content) && m.Role == "assistant" }},
		{"reasoning_details", func(m *message) bool { return m.Details != nil }},
		{"thinking_blocks", func(m *message) bool { return m.Blocks != nil }},
		{"extra_content", func(m *message) bool { return len(m.ToolCalls) > 0 }},
	} {
		if names(r.Body, row.name) && !a.needs(row.name) && !a.Knows("no "+row.name) &&
			slices.ContainsFunc(sent.Messages, func(m message) bool { return row.sends(&m) }) {
			return "no " + row.name
		}
	}
	return ""
}

func isList(content any) bool {
	_, ok := content.([]any)
	return ok
}

// missingWords says whether a refusal says that something is not there.
func missingWords(body []byte) bool {
	body = bytes.ToLower(body)
	for _, words := range []string{"missing", "must be passed", "must be provided", "must provide", "is required", "required field", "field required", "not provided", "need to be", "needs to be", "must include", "must contain", "expected"} {
		if bytes.Contains(body, []byte(words)) {
			return true
		}
	}
	return false
}

// names says whether a body has a member's name as a word of its own.
func names(body []byte, name string) bool {
	part := func(c byte) bool {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(name))
		if i < 0 {
			return false
		}
		at += i
		end := at + len(name)
		if (at == 0 || !part(body[at-1])) && (end == len(body) || !part(body[end])) {
			return true
		}
		at = end
	}
}

// giveIn returns what a refusal teaches: what a compatible server does not understand, or insists on; "" where it teaches nothing new.
func (a *asking) giveIn(sent *request, r *wire.Refusal) string {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return ""
	}
	says := func(what string) bool { return bytes.Contains(r.Body, []byte(what)) }
	switch {
	case sent.StreamOptions != nil && says("stream_options"):
		return "no stream_options"
	//lint:ignore SA1019 see above
	case sent.MaxTokens != 0 && says("max_completion_tokens"):
		return "max_completion_tokens"
	case sent.ResponseFormat != nil && sent.ResponseFormat.JSONSchema != nil && (says("response_format") || says("json_schema")):
		if sent.ResponseFormat.JSONSchema.Strict {
			return "no strict schema"
		}
		return "no schema"
	case sent.CacheKey != "" && says("prompt_cache_key"):
		return "no prompt_cache_key"
	}
	return a.giveInHistory(sent, r)
}

package openai

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/lingserve/lingserve/adapter/wire"
)

// learned is what is known of what the models of a server take in a history, and what they refuse without. It is learned from refusals.
type learned struct {
	mu    sync.Mutex
	known map[string]fields // by model
}

// fields are names of members: true is one that the model insists on, false one that it refuses.
type fields map[string]bool

func (f fields) needs(name string) bool { return f[name] }

func (f fields) refused(name string) bool {
	needs, known := f[name]
	return known && !needs
}

// history is what is known of a model. It is not to be changed.
func (p *provider) history(model string) fields {
	p.learned.mu.Lock()
	defer p.learned.mu.Unlock()
	return p.learned.known[model]
}

// learn takes down what a refusal says of a member; false where that is known already.
func (p *provider) learn(model, name string, needs bool) bool {
	l := &p.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, known := l.known[model][name]; known && (old == needs || !needs) { // what it insists on is not taken back
		return false
	}
	next := fields{name: needs}
	for k, v := range l.known[model] {
		if k != name {
			next[k] = v
		}
	}
	if l.known == nil {
		l.known = map[string]fields{}
	}
	l.known[model] = next
	return true
}

// giveInHistory learns from a refusal that names a member of an answer in the history; false where it names none.
func (m *model) giveInHistory(sent *request, r *wire.Refusal) bool {
	missing := missingWords(r.Body)
	switch {
	case names(r.Body, "thought_signature") && missing:
		return m.p.learn(m.name, "extra_content", true)
	case names(r.Body, "reasoning_content") && missing:
		return m.p.learn(m.name, "reasoning_content", true)
	case missing:
		return false
	}
	given := false
	for name, sends := range map[string]func(*message) bool{
		"reasoning_content": func(m *message) bool { return m.ReasoningContent != nil },
		"reasoning":         func(m *message) bool { return m.Reasoning != "" },
		"thinking":          func(m *message) bool { return m.Thinking != "" || isList(m.Content) && m.Role == "assistant" },
		"reasoning_details": func(m *message) bool { return m.Details != nil },
		"thinking_blocks":   func(m *message) bool { return m.Blocks != nil },
		"extra_content":     func(m *message) bool { return len(m.ToolCalls) > 0 },
	} {
		if !names(r.Body, name) {
			continue
		}
		for i := range sent.Messages {
			if sends(&sent.Messages[i]) {
				given = m.p.learn(m.name, name, false) || given
				break
			}
		}
	}
	return given
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

// giveIn leaves out what a compatible server has refused to understand, or puts in what it insists on, and remembers it; false where nothing is
// left to give in.
func (m *model) giveIn(sent *request, r *wire.Refusal) bool {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return false
	}
	says := func(what string) bool { return bytes.Contains(r.Body, []byte(what)) }
	switch {
	case sent.StreamOptions != nil && says("stream_options"):
		m.p.noUsage.Store(true)
	//lint:ignore SA1019 see above
	case sent.MaxTokens != 0 && says("max_completion_tokens"):
		m.p.newLimit.Store(m.name, true)
	case sent.ResponseFormat != nil && sent.ResponseFormat.JSONSchema != nil && (says("response_format") || says("json_schema")):
		if sent.ResponseFormat.JSONSchema.Strict {
			return m.p.learn(m.name, strictSchema, false)
		}
		m.p.noSchema.Store(m.name, true)
	case sent.CacheKey != "" && says("prompt_cache_key"):
		return m.p.learn(m.name, "prompt_cache_key", false)
	default:
		return m.giveInHistory(sent, r)
	}
	return true
}

// strictSchema is the name under which it is known that a model refuses strict schemas.
const strictSchema = "strict"

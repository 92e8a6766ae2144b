package openai

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// asking is a request on its way, and what its model has taught: what it takes in a history, and what it refuses without.
type asking struct {
	*model
	wire.Asking
	sent *request
	form endpoint.Form
}

// needs says whether the model insists on a member.
func (a *asking) needs(name string) bool { return a.Knows(name) }

// refuses says whether it refuses one. What it insists on is not taken back.
func (a *asking) refuses(name string) bool { return a.Knows("no "+name) && !a.needs(name) }

// missing are the words of a refusal because of something that is not there.
var missing = regexp.MustCompile("missing|must be passed|must be provided|must provide|is required|required field|" +
	"field required|not provided|needs? to be|must include|must contain|expected")

// givenBack are the members that an answer of the history may have beside its text.
var givenBack = []struct {
	name string
	sent func(*message) bool
}{
	{"reasoning_content", func(m *message) bool { return m.ReasoningContent != nil }},
	{"reasoning", func(m *message) bool { return m.Reasoning != "" }},
	{"thinking", func(m *message) bool { return m.Thinking != "" || isList(m.Content) && m.Role == "assistant" }},
	{"reasoning_details", func(m *message) bool { return m.Details != nil }},
	{"thinking_blocks", func(m *message) bool { return m.Blocks != nil }},
	{"extra_content", func(m *message) bool { return len(m.ToolCalls) > 0 }},
}

func isList(content any) bool {
	_, ok := content.([]any)
	return ok
}

// giveIn returns what a refusal teaches: what a compatible server does not understand, or insists on; "" where it teaches nothing new.
func (a *asking) giveIn(r *wire.Refusal) string {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return ""
	}
	sent, said := a.sent, strings.ToLower(string(r.Body))
	lessons := []wire.Lesson{
		{What: "no stream_options", Sent: sent.StreamOptions != nil, Says: "stream_options"},
		//lint:ignore SA1019 see request
		{What: "max_completion_tokens", Sent: sent.MaxTokens != 0, Says: "max_completion_tokens"},
		{What: "no prompt_cache_key", Sent: sent.CacheKey != "", Says: "prompt_cache_key"},
	}
	lessons = append(lessons, a.form.Lessons("response_format|json_schema|json_object")...)
	if missing.MatchString(said) {
		lessons = append(lessons, wire.Lesson{What: "extra_content", Sent: true, Says: `\bthought_signature\b`},
			wire.Lesson{What: "reasoning_content", Sent: true, Says: `\breasoning_content\b`})
	} else {
		for _, b := range givenBack {
			goesBack := slices.ContainsFunc(sent.Messages, func(m message) bool { return b.sent(&m) })
			news := !a.needs(b.name) && !a.Knows("no "+b.name)
			lessons = append(lessons, wire.Lesson{What: "no " + b.name, Sent: goesBack && news, Says: `\b` + b.name + `\b`})
		}
	}
	what, _ := wire.Taught(said, lessons)
	return what
}

package responses

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// optional are the members that are left out for a model once its server has refused them, the narrower ones first.
var optional = []struct {
	name  string
	words string // that name it in a refusal without a param
	sent  func(*request) bool
}{
	{"reasoning.summary", "summar", func(r *request) bool { return r.Reasoning != nil && r.Reasoning.Summary != "" }},
	{"reasoning.effort", "effort", func(r *request) bool { return r.Reasoning != nil && r.Reasoning.Effort != "" }},
	{"include", `encrypted "include" 'include'`, func(r *request) bool { return r.Include != nil }},
	{"reasoning", "reasoning", func(r *request) bool { return r.Reasoning != nil }},
	{"text.verbosity", "verbosity", func(r *request) bool { return r.Text != nil && r.Text.Verbosity != "" }},
	{"temperature", "temperature", func(r *request) bool { return r.Temperature != nil }},
	{"top_p", "top_p", func(r *request) bool { return r.TopP != nil }},
	{"max_output_tokens", "max_output_tokens", func(r *request) bool { return r.MaxOutputTokens != 0 }},
	{"parallel_tool_calls", "parallel_tool_calls", func(r *request) bool { return r.ParallelToolCalls != nil }},
	{"tool_choice", "tool_choice", func(r *request) bool { return r.ToolChoice != nil }},
	{"service_tier", "service_tier", func(r *request) bool { return r.ServiceTier != "" }},
	{"prompt_cache_key", "prompt_cache_key", func(r *request) bool { return r.PromptCacheKey != "" }},
	{"store", `"store" 'store'`, func(r *request) bool { return r.Store != nil }},
	{"stream", "stream", func(r *request) bool { return r.Stream }}, // an organisation that is not verified
	{"instructions", "instructions", func(r *request) bool { return r.Instructions != "" }},
}

// unsupported are the words by which a server says that it does not take a member at all, or not this value of it. A value that is wrong for every
// model is not left out.
var unsupported = regexp.MustCompile(`support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra inputs|must be verified|unavailable`)

// values are the words by which it says that it takes the member, but with other values.
var values = regexp.MustCompile(`unsupported[ _]value|supported values|invalid[ _]value|expected one of`)

// noID are the words of servers that want an id in each item: of OpenRouter, which says little more than that, of OpenAI, and of those that tell
// the path of what is missing.
var noID = regexp.MustCompile(`invalid responses api request|missing required parameter: 'input\[\d+\]\.(id|status)'|` +
	`(path|loc)["']: ?[\[(][^\])]*input[^\])]*["'](id|status)["'][\])]`)

// place is how a refusal names an item.
var place = regexp.MustCompile(`input\[(\d+)\]`)

// giveIn returns what a refusal teaches: what the model does not take, or insists on; "" where it teaches nothing new.
func (a *asking) giveIn(sent *request, r *wire.Refusal) string {
	said := strings.ToLower(string(r.Body))
	param := strings.ToLower(word(object(object(r.Body)["error"])["param"]))
	h := &sent.history
	switch {
	case r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity && r.Status != http.StatusNotFound:
		return ""
	case strings.Contains(said, "item with id") && strings.Contains(said, "not found"):
		switch {
		case h.others == 0:
			return ""
		case h.bare:
			return "no items"
		}
		return "bare items"
	case r.Status == http.StatusNotFound:
		return ""
	case h.answered && !h.bare && !h.full && noID.MatchString(said):
		return "full items"
	}
	if at := place.FindStringSubmatch(said); at != nil {
		if what := h.refused(at[1]); what != "" {
			return what
		}
	}
	if f := sent.Text; f != nil && f.Format != nil && param != "text.verbosity" && (strings.HasPrefix(param, "text") || param == "response_format" ||
		param == "" && (strings.Contains(said, "text.format") || strings.Contains(said, "json_schema") || strings.Contains(said, "json_object"))) {
		switch {
		case f.Format.Schema == nil:
			return "format"
		case *f.Format.Strict:
			return "strict"
		}
		return "schema"
	}
	if !unsupported.MatchString(said) {
		return ""
	}
	for _, o := range optional {
		named := param == o.name
		if param == "" {
			named = slices.ContainsFunc(strings.Fields(o.words), func(w string) bool { return strings.Contains(said, w) })
		}
		switch {
		case !named || !o.sent(sent):
		case o.name == "reasoning.effort" && values.MatchString(said) && nearest[sent.Reasoning.Effort] != "":
			return "effort " + sent.Reasoning.Effort
		default:
			return o.name
		}
	}
	return ""
}

// refused makes the error of an answer with another status than 200.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	e := p.Refused(r)
	if r.Status == http.StatusNotFound {
		e.Message = p.Name() + " does not know this model or address: check the model's name, the base URL (most end in /v1), and that the server has the Responses API"
		if p.Azure() {
			e.Message = p.Name() + " does not know this deployment or address: models are asked by the names of their deployments, and each resource has an endpoint of its own"
		}
	}
	return e
}

package responses

import (
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/lingserve/lingserve/adapter/wire"
)

// optional is a member that is left out for a model once its server has refused it.
type optional struct {
	name  string
	says  string // a regular expression that finds it in a refusal without a param
	value any    // a pointer to it
}

func (o *optional) field() reflect.Value { return reflect.ValueOf(o.value).Elem() }

// optional returns the members that a model may refuse, the narrower ones first.
func (r *request) optional() []optional {
	return []optional{
		{"reasoning.summary", "summar", &r.Reasoning.Summary},
		{"reasoning.effort", "effort", &r.Reasoning.Effort},
		{"include", `encrypted|["']include["']`, &r.Include},
		{"reasoning", "reasoning", &r.Reasoning},
		{"text.verbosity", "verbosity", &r.Text.Verbosity},
		{"temperature", "temperature", &r.Temperature},
		{"top_p", "top_p", &r.TopP},
		{"max_output_tokens", "max_output_tokens", &r.MaxOutputTokens},
		{"parallel_tool_calls", "parallel_tool_calls", &r.ParallelToolCalls},
		{"tool_choice", "tool_choice", &r.ToolChoice},
		{"service_tier", "service_tier", &r.ServiceTier},
		{"prompt_cache_key", "prompt_cache_key", &r.PromptCacheKey},
		{"store", `["']store["']`, &r.Store},
		{"stream", "stream", &r.Stream}, // an organisation that is not verified
		{"instructions", "instructions", &r.Instructions},
	}
}

var (
	// unsupported are the words by which a server says that it does not take a member at all, or not this value of it. A value that is
	// wrong for every model is not left out.
	unsupported = regexp.MustCompile(`support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|` +
		`extra inputs|must be verified|unavailable`)
	// place is how a refusal names an item.
	place = regexp.MustCompile(`input\[(\d+)\]`)
)

const (
	// otherValues are the words by which a server says that it takes a member, but with other values.
	otherValues = `unsupported[ _]value|supported values|invalid[ _]value|expected one of`
	// noID are the words of servers that want an id in each item: of OpenRouter, which says little more than that, of OpenAI, and of
	// those that tell the path of what is missing.
	noID = `invalid responses api request|missing required parameter: 'input\[\d+\]\.(id|status)'|` +
		`(path|loc)["']: ?[\[(][^\])]*input[^\])]*["'](id|status)["'][\])]`
	// noForm are the words of a refusal of the form of an answer.
	noForm = `text\.format|json_schema|json_object`
)

// giveIn returns what a refusal teaches: what the model does not take, or insists on; "" where it teaches nothing new.
func (a *asking) giveIn(r *wire.Refusal) string {
	said, h := strings.ToLower(string(r.Body)), &a.history
	lessons := []wire.Lesson{
		{What: "bare items", Sent: h.others > 0 && !a.Knows("bare items"), Says: `(?s)item with id.*not found`},
		{What: "no items", Sent: h.others > 0, Says: `(?s)item with id.*not found`},
	}
	switch r.Status {
	case http.StatusNotFound:
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		lessons = append(lessons, a.lessons(said, strings.ToLower(wire.ReadObject(r.Body).Object("error").Text("param")))...)
	default:
		return ""
	}
	what, _ := wire.Taught(said, lessons)
	return what
}

// lessons are what a request can teach that was refused as it was written. param is the member that the refusal names.
func (a *asking) lessons(said, param string) []wire.Lesson {
	ids := a.history.answered && !a.Knows("bare items") && !a.Knows("full items")
	lessons := []wire.Lesson{{What: "full items", Sent: ids, Says: noID}}
	if at := place.FindStringSubmatch(said); at != nil {
		what := a.history.refused(at[1])
		lessons = append(lessons, wire.Lesson{What: what, Sent: what != ""})
	}
	switch form := &a.sent.Text.Form; {
	case param == "":
		lessons = append(lessons, form.Lessons(noForm)...)
	case param == "response_format", strings.HasPrefix(param, "text") && param != "text.verbosity":
		lessons = append(lessons, form.Lessons("")...)
	}
	if !unsupported.MatchString(said) {
		return lessons
	}
	for _, o := range a.sent.optional() {
		says, sent := o.says, !o.field().IsZero()
		if param != "" {
			says, sent = "", sent && param == o.name
		}
		if o.name == "reasoning.effort" && nearest[a.sent.Reasoning.Effort] != "" {
			ofEffort := sent && regexp.MustCompile(says).MatchString(said)
			lessons = append(lessons, wire.Lesson{What: "effort " + a.sent.Reasoning.Effort, Sent: ofEffort, Says: otherValues})
		}
		lessons = append(lessons, wire.Lesson{What: o.name, Sent: sent, Says: says})
	}
	return lessons
}

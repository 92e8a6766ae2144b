package responses

import (
	"net/http"

	"github.com/lingserve/lingserve/adapter/wire"
)

// Fallbacks of requests that are refused.
const (
	noSummary      = "without summaries of reasoning"
	noEncrypted    = "without encrypted reasoning"
	noCacheKey     = "without prompt_cache_key"
	noStore        = "without store"
	noStream       = "without streaming"
	noInstructions = "with the instructions as messages"
	fullItems      = "with ids of all items"
	noItems        = "without items of the provider's own tools"
)

// missingID are the words of servers that want an id in each item: of OpenRouter, which says little more than that, of OpenAI, and of
// those that tell the path of what is missing.
var missingID = []string{"invalid responses api request", "].id'", "].status'", `"id"]`, `"status"]`, "'id')", "'status')"}

// Others returns the other ways to write a request: without what the adapter adds by itself, and with what the server wants of items of
// the history (MO-04). Items that it does not want are left out by package adapter.
func (a *asking) Others(string) []wire.Fallback {
	sent, unknown := a.sent, []string{"item with id"}
	asked := sent.Reasoning.Effort != ""
	fallbacks := []wire.Fallback{
		{Name: noItems, Applies: a.history.others > 0, Words: unknown},
		{Name: noItems, Applies: a.history.others > 0, Words: unknown, Status: http.StatusNotFound},
		{Name: fullItems, Applies: a.history.answered && !a.Uses(noItems), Words: missingID},
	}
	fallbacks = append(fallbacks, sent.Text.Form.Fallbacks("text.format", "json_schema", "json_object", "response_format", "invalid_json_schema")...)
	return append(fallbacks, []wire.Fallback{
		{Name: noSummary, Applies: sent.Reasoning.Summary != "", Words: []string{"summar"}},
		{Name: noEncrypted, Applies: sent.Include != nil, Words: []string{"encrypted", "'include'", `"include"`}},
		{Name: noSummary, Applies: sent.Reasoning.Summary != "" && !asked, Words: []string{"reasoning"}},
		{Name: noCacheKey, Applies: sent.PromptCacheKey != "", Words: []string{"prompt_cache_key"}},
		{Name: noStore, Applies: sent.Store != nil, Words: []string{"'store'", `"store"`}},
		{Name: noStream, Applies: sent.Stream, Words: []string{"to stream", "'stream'", `"stream"`}}, // an organisation that is not verified
		{Name: noInstructions, Applies: sent.Instructions != "", Words: []string{"'instructions'", `"instructions"`}},
	}...)
}

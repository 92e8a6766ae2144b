// Package providerstest has the answers of a model for tests of checks.
package providerstest

import (
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// Able answers like a model that can do all that a check asks for; what it thought has to come back with the result of its call.
func Able(r fakeproviders.Request) fakeproviders.Answer {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case last.Role == adapter.ToolRole && !strings.Contains(string(r.Body), `"reasoning_content":"Hm"`):
		return fakeproviders.Answer{Status: http.StatusBadRequest, Body: "the reasoning_content must be passed back"}
	case last.Role == adapter.ToolRole:
		return fakeproviders.Answer{Reasoning: "So", Text: "It is " + last.Content + "."}
	case len(r.Tools) > 0:
		return fakeproviders.Answer{Reasoning: "Hm", ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: r.Tools[0], Arguments: `{"room":"Lotus"}`}}}
	case r.Schema != nil:
		return fakeproviders.Answer{Text: `{"month":"May","days":31}`}
	case strings.Contains(string(r.Body), "image_url"):
		return fakeproviders.Answer{Text: "Red"}
	case strings.Contains(string(r.Body), "Pelle"):
		return fakeproviders.Answer{Text: "Pelle"}
	}
	return fakeproviders.Answer{Text: "Yes"}
}

package agent

import (
	"errors"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// maxAutoHandoffRetries is how often a turn leaves its past behind because a model call did not fit. A second overflow is not
// helped by a second anchor: what is left then is the system prompt and the turn itself.
const maxAutoHandoffRetries = 1

// exceedsLimit reports whether a request of so many tokens is to be made behind an anchor, because it is larger than the agent's limit.
func (r *run) exceedsLimit(req *adapter.Request, tokens int) bool {
	limit := r.agent.options.MaxContext
	if limit <= 0 || tokens <= limit || r.overBase {
		return false
	}
	kept := 1 + len(r.asked) // the anchor, and what the turn is about
	if r.system != "" {
		kept++
	}
	r.overBase = len(req.Messages) <= kept
	return !r.overBase
}

// overflows reports whether a model call has failed because the context does not fit the model.
func overflows(err error) bool {
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case adapter.CodeRateLimited, adapter.CodeAuth, adapter.CodeTimeout:
		return false
	}
	return e.ContextLength || e.Status == http.StatusRequestEntityTooLarge
}

package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"

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

// tooLong are the words of servers whose errors have no type, with up to ten characters between them.
var tooLong = regexp.MustCompile(`(?is)context.{0,10}length|context.{0,10}window|maximum.{0,10}context|token.{0,10}limit|prompt.{0,10}too.{0,10}long`)

// notLength are the words of errors that speak of tokens and limits but mean how many requests there may be, or who may make them.
var notLength = regexp.MustCompile(`(?i)\brate\b|rate[_-]?limit|quota|too many requests|per[ _-]?(second|minute|hour|day)|\b[tr]pm\b|\b(401|403|429)\b`)

// overflows says whether a model call has failed because the context does not fit the model. An error with a type is believed;
// only the text of one without is looked at.
func overflows(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		other := e.Code == adapter.CodeRateLimited || e.Code == adapter.CodeAuth || e.Code == adapter.CodeTimeout
		return !other && (e.ContextLength || e.Status == http.StatusRequestEntityTooLarge)
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return false
	}
	text := err.Error()
	return tooLong.MatchString(text) && !notLength.MatchString(text)
}

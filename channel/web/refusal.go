package web

import (
	"time"

	"github.com/lingserve/lingserve/channel"
)

// Refusal is the response to a message that is not answered. It names no setting: the caller cannot change one.
type Refusal struct {
	Status     int    // of HTTP
	Code       string // of the problem document
	Detail     string
	RetryAfter time.Duration // 0 is nothing to wait for
}

// retry is how long a message waits that may come again, where nothing says how long it will take.
const retry = 2 * time.Second

// refusals are those of each status. Those of one status and one code have one text, so that no one learns by asking who may talk.
var refusals = map[int]Refusal{
	400: {400, "invalid_request", "this kind of message gets no answer", 0},
	413: {413, "too_large", "the message is too large", 0},
	403: {403, "forbidden", "you may not talk here; the operator of this server can change that", 0},
	404: {404, "not_found", "no agent answers here; the operator of this server can change that", 0},
	429: {429, "rate_limited", "too many messages in a short time; retry later", retry},
	409: {409, "conflict", "the session is busy with an earlier message", 0},
	503: {503, "overloaded", "too many messages are waiting here; retry later", retry},
}

// Refuse is what to answer a turn that has ended before there was a run; nil where nothing is refused.
func Refuse(r channel.Result) *Refusal {
	refusal, ok := refusals[r.Admission.Reason.HTTPStatus()]
	switch {
	case !ok:
		return nil
	case r.Admission.Reason == channel.ReasonCommandNotAllowed:
		refusal.Detail = "you may not use commands here; the operator of this server can change that"
	case r.Admission.Reason == channel.ReasonDraining:
		refusal.Code, refusal.Detail = "draining", "the server is shutting down and starts no new runs; retry on another server, or later"
	}
	if r.RetryAfter > 0 {
		refusal.RetryAfter = r.RetryAfter
	}
	return &refusal
}

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

// The refusals. Those of one status and one code have one text, so that no one learns by asking who may talk.
var (
	unfit    = Refusal{400, "invalid_request", "this kind of message gets no answer", 0}
	tooLarge = Refusal{413, "too_large", "the message is too large", 0}
	stranger = Refusal{403, "forbidden", "you may not talk here; the operator of this server can change that", 0}
	command  = Refusal{403, "forbidden", "you may not use commands here; the operator of this server can change that", 0}
	nowhere  = Refusal{404, "not_found", "no agent answers here; the operator of this server can change that", 0}
	tooFast  = Refusal{429, "rate_limited", "too many messages in a short time; retry later", retry}
	busy     = Refusal{409, "conflict", "the session is busy with an earlier message", 0}
	full     = Refusal{503, "overloaded", "too many messages are waiting here; retry later", retry}
	draining = Refusal{503, "draining", "the server is shutting down and starts no new runs; retry on another server, or later", retry}
)

// Refuse is what to answer a turn that has ended before there was a run; nil where nothing is refused.
func Refuse(r channel.Result) *Refusal {
	said := refusal(r.Admission.Reason)
	if said != nil && r.RetryAfter > 0 {
		later := *said
		later.RetryAfter = r.RetryAfter
		return &later
	}
	return said
}

func refusal(r channel.Reason) *Refusal {
	switch r {
	case channel.ReasonIngestNull, channel.ReasonUnsupported:
		return &unfit
	case channel.ReasonTooLarge:
		return &tooLarge
	case channel.ReasonCommandNotAllowed:
		return &command
	case channel.ReasonNoRoute:
		return &nowhere
	case channel.ReasonRateLimited:
		return &tooFast
	case channel.ReasonSessionBusy:
		return &busy
	case channel.ReasonOverloaded:
		return &full
	case channel.ReasonDraining:
		return &draining
	case "", channel.ReasonNotATurn, channel.ReasonHandledLocally, channel.ReasonMerged, channel.ReasonDedupe,
		channel.ReasonMissingMention, channel.ReasonObserver, channel.ReasonUnmentioned:
		return nil
	}
	return &stranger // every other reason, one that is new included: no one is let in by mistake
}

package turn

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/tape"
)

// Notices is the observer that notifies the sender that the turn has failed: by an envelope of kind "error" with a
// fixed sentence and a reference, which is the turn's id. What went wrong is in the log under that id, and nowhere else.
type Notices struct{}

// OnError implements [ErrorObserver]: one envelope for a turn that has failed. Errors that the turn goes on after are its
// stream's to tell.
func (Notices) OnError(ctx context.Context, stage Stage, err error, e *Envelope) {
	t := FromContext(ctx)
	if t == nil || e == nil || stage != StageTurn || t.noticed.Swap(true) {
		return
	}
	code := t.framework.Code(err)
	notice := e.Reply(SentenceOf(code, err) + " (reference " + t.ID() + ")")
	notice.Kind = KindError
	notice.Extra = map[string]any{"code": code, "reference": t.ID()}
	delivered, failure := t.Dispatch(ctx, notice)
	if failure != nil || !delivered {
		t.log(ctx, slog.LevelWarn, "cannot send the notice of a failed turn", slog.Any("error", failure))
	}
}

var sentences = map[string]string{
	CodeInvalid:             "This message is invalid.",
	CodeConflict:            "An earlier message is still being answered.",
	CodeOverloaded:          "The server is busy at the moment; please try again later.",
	CodeDraining:            "The server is restarting; please try again in a minute.",
	CodeTooLarge:            "This is too much text for the model.",
	CodeGone:                "This conversation has been erased.",
	"budget_exceeded":       "The cost limit for answers is reached.",
	CodeOutput:              "The model gave no usable answer.",
	"upstream_auth":         "The model's server refused this server's key.",
	adapter.CodeRateLimited: "The model's server is overloaded; please try again later.",
	"upstream_timeout":      "The model's server did not answer in time; please try again.",
	"upstream_unavailable":  "The model's server is unreachable; please try again later.",
}

// Sentence returns the fixed sentence that users read for a code.
func Sentence(code string) string {
	if s, ok := sentences[code]; ok {
		return s
	}
	if strings.HasPrefix(code, "upstream_") {
		return "The model's server gave no usable answer."
	}
	return "Something went wrong."
}

// SentenceOf is [Sentence] for an error whose code is known: there are a few that have one code with others, and a truer sentence.
func SentenceOf(code string, err error) string {
	switch {
	case errors.Is(err, ErrTimeout): // which has no code
		return "The answer took too long and was stopped."
	case errors.Is(err, tape.ErrNameCollision): // and not since it is busy
		return "This session id cannot be used; please choose another one."
	case noticeOf(err) != "":
		return noticeOf(err)
	case code == adapter.CodeRateLimited && Lasting(err):
		return "The account of this server with the model's provider has no credit left or has reached a limit; who operates this server can mend that."
	case code != CodeOverloaded: // something else came first
	case errors.Is(err, tape.ErrUnsure):
		return "The store of conversations disconnected during a write. " +
			"The last messages may or may not be stored; please check before you repeat them."
	case errors.Is(err, tape.ErrAway):
		return "The store of conversations is unreachable at the moment. " +
			"You may need to repeat the last message later."
	case disk.Failed(err):
		return "The server's disk cannot store anything at the moment. You may need to repeat the last message later."
	}
	return Sentence(code)
}

func noticeOf(err error) string {
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return e.Notice
	}
	return ""
}

// Lasting reports whether a turn would fail in the same way again, so that the sender is notified at once.
func Lasting(err error) bool {
	if errors.Is(err, ErrTimeout) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		Lasting() bool
	}](err); ok {
		return e.Lasting()
	}
	if e, ok := errors.AsType[Coded](err); ok {
		switch e.ErrorCode() {
		case CodeInvalid, CodeTooLarge, CodeGone, CodeOutput, CodeRefused:
			return true
		}
	}
	return false
}

// Retryable reports whether a retry can succeed, as the sentences say. It may repeat effects. It is false if a person has to check first.
func Retryable(code string, err error) bool {
	switch code {
	case CodeOverloaded:
		return !errors.Is(err, tape.ErrUnsure)
	case adapter.CodeRateLimited:
		return !Lasting(err)
	case CodeDraining, "upstream_timeout", "upstream_unavailable":
		return true
	}
	return false
}

package channel

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/lingserve/lingserve/turn"
)

// SlogObserver writes traces to a log. Warnings and errors have their own levels. Level info has canceled turns, turns whose error package
// turn logs, and denials, except those for a missing mention. All else is at level debug, and so are the previews of messages, if the settings
// allow them.
type SlogObserver struct{ log *slog.Logger }

// NewSlogObserver returns an observer that writes to a log.
func NewSlogObserver(log *slog.Logger) *SlogObserver { return &SlogObserver{log} }

// Observe implements [Observer].
func (o *SlogObserver) Observe(ctx context.Context, t Trace) {
	level, message := levelOf(ctx, &t)
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("turn", t.TurnID),
		slog.String("trace", t.TraceID),
		slog.String("stage", string(t.Stage)),
		slog.String("event", string(t.Phase)),
		slog.String("channel", t.Channel),
		slog.String("account", t.Account),
		slog.String("message", t.MessageID),
		slog.String("conversation", t.Conversation),
		slog.String("session", t.SessionKey),
		slog.String("sender", t.Sender),
		slog.String("admission", string(t.Admission.Kind)),
		slog.String("reason", string(t.Admission.Reason)),
		slog.String("detail", t.Admission.Detail),
		slog.String("setting", t.Setting),
		slog.String("outcome", string(t.Outcome)),
	}
	if level == slog.LevelDebug {
		attrs = append(attrs, slog.String("preview", t.Preview))
	}
	attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.String() == "" })
	if t.Phase != PhaseStart && t.Phase != PhaseWarning {
		attrs = append(attrs, slog.Duration("duration", t.Duration))
	}
	if t.Err != nil {
		attrs = append(attrs, slog.Any("error", t.Err))
	}
	o.log.LogAttrs(ctx, level, message, attrs...)
}

// levelOf returns the level and the message of a trace.
func levelOf(ctx context.Context, t *Trace) (slog.Level, string) {
	denied := t.Stage == StageAuthorize || t.Admission.Reason == ReasonNoRoute
	switch {
	case t.Phase == PhaseWarning:
		return slog.LevelWarn, t.Warning
	case t.Phase == PhaseError && t.Stage != StageFinalize && IsCanceled(ctx, t.Err):
		return slog.LevelInfo, "turn canceled"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isLoggedByTurn(t.Err):
		return slog.LevelInfo, "turn not answered"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isRefused(t.Err):
		return slog.LevelWarn, "turn refused"
	case t.Phase == PhaseError:
		return slog.LevelError, "turn stage failed"
	case t.Phase == PhaseDrop && denied && t.Admission.Reason != ReasonMissingMention:
		return slog.LevelInfo, "message denied"
	}
	return slog.LevelDebug, "turn"
}

// isLoggedByTurn reports whether package turn logs the error.
func isLoggedByTurn(err error) bool {
	_, stage := errors.AsType[*turn.StageError](err)
	return stage || errors.Is(err, turn.ErrTimeout) || errors.Is(err, turn.ErrLeaseLost)
}

// isRefused reports whether the lane of the session is full or not available.
func isRefused(err error) bool {
	coded, ok := errors.AsType[turn.Coded](err)
	return errors.Is(err, turn.ErrBusy) || ok && coded.ErrorCode() == turn.CodeOverloaded
}

// Observers calls several observers in order. After a panic of one, the rest do not get this trace.
type Observers []Observer

// Observe implements [Observer].
func (list Observers) Observe(ctx context.Context, t Trace) {
	for _, o := range list {
		if o != nil {
			o.Observe(ctx, t)
		}
	}
}

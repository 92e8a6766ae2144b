package channel

import (
	"context"
	"errors"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/turn"
)

const (
	denialEvery = time.Hour // between two lines at level info about the same denial
	maxDenials  = 10_000    // that are remembered
)

// SlogObserver writes traces to a log. Warnings and errors have their own levels. Level info has canceled turns, turns whose error package
// turn logs, and denials, once an hour for each conversation and reason. All else is at level debug, and so are the previews of messages, if
// the settings allow them.
type SlogObserver struct {
	log     *slog.Logger
	denials *lru.Cache[denial, time.Time] // when it was last logged at level info
}

type denial struct {
	channel, account, conversation string
	reason                         Reason
}

// NewSlogObserver returns an observer that writes to a log.
func NewSlogObserver(log *slog.Logger) *SlogObserver {
	denials, _ := lru.New[denial, time.Time](maxDenials) // it fails only for a size below 1
	return &SlogObserver{log, denials}
}

// Observe implements [Observer].
func (o *SlogObserver) Observe(ctx context.Context, t Trace) {
	level, what := slog.LevelDebug, "turn"
	switch {
	case t.Phase == PhaseWarning:
		level, what = slog.LevelWarn, t.Warning
	case t.Phase == PhaseError && t.Stage != StageFinalize && IsCanceled(ctx, t.Err):
		level, what = slog.LevelInfo, "turn canceled"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isLoggedByTurn(t.Err):
		level, what = slog.LevelInfo, "turn not answered"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isRefused(t.Err):
		level, what = slog.LevelWarn, "turn refused"
	case t.Phase == PhaseError:
		level, what = slog.LevelError, "turn stage failed"
	case t.Phase == PhaseDrop && (t.Stage == StageAuthorize || t.Admission.Reason == ReasonNoRoute):
		what = "message denied"
		if o.denialDue(&t) {
			level = slog.LevelInfo
		}
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 20)
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	for _, a := range [...][2]string{
		{"turn", t.TurnID},
		{"trace", t.TraceID},
		{"stage", string(t.Stage)},
		{"event", string(t.Phase)},
		{"channel", t.Channel},
		{"account", t.Account},
		{"message", t.MessageID},
		{"conversation", t.Conversation},
		{"session", t.SessionKey},
		{"sender", t.Sender},
		{"admission", string(t.Admission.Kind)},
		{"reason", string(t.Admission.Reason)},
		{"detail", t.Admission.Detail},
		{"setting", t.Setting},
		{"hint", t.Hint},
		{"outcome", string(t.Outcome)},
	} {
		add(a[0], a[1])
	}
	if level == slog.LevelDebug {
		add("preview", t.Preview)
	}
	if t.Phase != PhaseStart && t.Phase != PhaseWarning {
		attrs = append(attrs, slog.Duration("duration", t.Duration))
	}
	if t.Err != nil {
		attrs = append(attrs, slog.Any("error", t.Err))
	}
	o.log.LogAttrs(ctx, level, what, attrs...)
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

// denialDue reports whether a denial was not logged for an hour, and notes the time.
func (o *SlogObserver) denialDue(t *Trace) bool {
	key, now := denial{t.Channel, t.Account, t.Conversation, t.Admission.Reason}, time.Now()
	if last, ok := o.denials.Get(key); ok && now.Sub(last) < denialEvery {
		return false
	}
	o.denials.Add(key, now)
	return true
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

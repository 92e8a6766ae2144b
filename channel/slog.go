package channel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/turn"
)

const (
	// denialEvery is how seldom one denial is worth a line that is read.
	denialEvery = time.Hour
	// maxDenials bounds what is remembered of them.
	maxDenials = 10_000
)

// SlogObserver writes what it is told to a log: warnings and errors as such, a turn that was canceled at info, as one that its agent
// has failed to answer, since the agent tells why, a denial at info once an
// hour for each conversation and reason, and all else at debug. It has no words of anybody but the previews that the settings allow,
// and these at debug alone.
type SlogObserver struct {
	log *slog.Logger

	mu      sync.Mutex
	denials map[denial]time.Time // guarded by mu: when it was told last
}

type denial struct {
	channel, account, conversation string
	reason                         Reason
}

// NewSlogObserver returns an observer that writes to a log.
func NewSlogObserver(log *slog.Logger) *SlogObserver {
	return &SlogObserver{log: log, denials: map[denial]time.Time{}}
}

// Observe implements [Observer].
func (o *SlogObserver) Observe(ctx context.Context, t Trace) {
	level := slog.LevelDebug
	what := "turn"
	switch {
	case t.Phase == PhaseWarning:
		level, what = slog.LevelWarn, t.Warning
	case t.Phase == PhaseError && t.Stage != StageFinalize && IsCanceled(ctx, t.Err): // somebody wanted it: no fault of the server's
		level, what = slog.LevelInfo, "turn canceled"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isTold(t.Err):
		level, what = slog.LevelInfo, "turn not answered"
	case t.Phase == PhaseError && t.Stage == StageDispatch && isRefused(t.Err):
		level, what = slog.LevelWarn, "turn refused"
	case t.Phase == PhaseError:
		level, what = slog.LevelError, "turn stage failed"
	case t.Phase == PhaseDrop && (t.Stage == StageAuthorize || t.Admission.Reason == ReasonNoRoute):
		what = "message denied"
		if o.due(&t) {
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
	add("turn", t.TurnID)
	add("trace", t.TraceID)
	add("stage", string(t.Stage))
	add("event", string(t.Phase))
	add("channel", t.Channel)
	add("account", t.Account)
	add("message", t.MessageID)
	add("conversation", t.Conversation)
	add("session", t.SessionKey)
	add("sender", t.Sender)
	add("admission", string(t.Admission.Kind))
	add("reason", string(t.Admission.Reason))
	add("detail", t.Admission.Detail)
	add("setting", t.Setting)
	add("hint", t.Hint)
	add("outcome", string(t.Outcome))
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

// isTold says whether an error is one of which package turn has a line of its own.
func isTold(err error) bool {
	_, stage := errors.AsType[*turn.StageError](err)
	return stage || errors.Is(err, turn.ErrTimeout) || errors.Is(err, turn.ErrLeaseLost)
}

// isRefused says whether the lane of a session has not taken a turn, or had no way to the session.
func isRefused(err error) bool {
	coded, ok := errors.AsType[turn.Coded](err)
	return errors.Is(err, turn.ErrBusy) || ok && coded.ErrorCode() == turn.CodeOverloaded
}

// due says whether a denial is to be seen, and notes that it was.
func (o *SlogObserver) due(t *Trace) bool {
	key, now := denial{t.Channel, t.Account, t.Conversation, t.Admission.Reason}, time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, told := o.denials[key]; told && now.Sub(last) < denialEvery {
		return false
	}
	if len(o.denials) >= maxDenials {
		for other, at := range o.denials {
			if now.Sub(at) >= denialEvery || len(o.denials) >= maxDenials {
				delete(o.denials, other)
			}
		}
	}
	o.denials[key] = now
	return true
}

// Names of the metrics of turns, and of their labels. None has an id in a label.
const (
	MetricTurns          = "channel_turns_total"     // channel, outcome, reason
	MetricStageSeconds   = "channel_stage_seconds"   // channel, stage
	MetricJournalPending = "channel_journal_pending" // channel
	MetricOutboxPending  = "channel_outbox_pending"  // channel
)

// Metrics counts turns: whoever exports metrics implements it. It is called synchronously and must not block.
type Metrics interface {
	// Turn is one turn that has ended: [MetricTurns].
	Turn(channel string, o Outcome, r Reason)
	// Stage is how long a stage took: [MetricStageSeconds].
	Stage(channel string, s Stage, d time.Duration)
}

// Count returns the observer that counts in m.
func Count(m Metrics) Observer { return counter{m} }

type counter struct{ m Metrics }

// Observe implements [Observer].
func (c counter) Observe(_ context.Context, t Trace) {
	if t.Phase == PhaseStart || t.Phase == PhaseWarning {
		return
	}
	c.m.Stage(t.Channel, t.Stage, t.Duration)
	if t.Stage == StageFinalize {
		c.m.Turn(t.Channel, t.Outcome, t.Admission.Reason)
	}
}

// Observers tells each of a list, in order. One that panics keeps the others from nothing but the rest of this event.
type Observers []Observer

// Observe implements [Observer].
func (list Observers) Observe(ctx context.Context, t Trace) {
	for _, o := range list {
		if o != nil {
			o.Observe(ctx, t)
		}
	}
}

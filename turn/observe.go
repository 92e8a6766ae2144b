package turn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// observeTimeout bounds one observer.
const observeTimeout = 5 * time.Second

// report logs the error of a turn and notifies the observers. A turn that was canceled on purpose has not failed, unless
// its save_state has.
func (t *Turn) report(ctx context.Context, err, saved error) {
	switch {
	case err == nil:
		return
	case t.cut && saved == nil && wanted(context.Cause(ctx)):
		t.mark(true, err)
		t.log(ctx, slog.LevelInfo, "turn canceled", slog.Any("cause", err))
		return
	}
	t.mark(false, err)
	code := t.framework.Code(err)
	level := trail.Level(code)
	if disk.Failed(err) { // an operator has to make room
		level = slog.LevelError
	}
	if _, told := errors.AsType[*PanicError](err); told {
		level = slog.LevelInfo // there is a line with the stack
	} else if errors.Is(err, tape.ErrNameCollision) {
		level = slog.LevelError // unlike other conflicts, it does not pass
	}
	t.log(ctx, level, "turn failed", slog.String("code", code), slog.String("error", adapter.Explain(err)))
	t.notify(ctx, StageTurn, err)
}

// wanted reports whether a person or a caller ended the turn, and not a limit or the server.
func wanted(cause error) bool {
	return !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, ErrDraining) && !errors.Is(cause, ErrLeaseLost)
}

// notify calls every observer with an error. What they do about it, or to themselves, changes nothing.
func (t *Turn) notify(ctx context.Context, stage Stage, err error) {
	ctx = context.WithoutCancel(ctx)
	// A panic is logged where it is recovered; observers return nothing.
	_ = each(ctx, t, "on_error", func(h ErrorObserver) error {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		h.OnError(ctx, stage, err, t.result.Envelope)
		return nil
	})
}

// trace opens the span of a turn, below that of its run or of the message that it answers; end closes it. It begins when the turn does:
// the time in the lane is the gap before it. Without a parent span there is no span.
func (t *Turn) trace(ctx context.Context) (inside context.Context, end func()) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func() {}
	}
	name := "turn"
	attrs := append(make([]attribute.KeyValue, 0, 6),
		attribute.String("gen_ai.conversation.id", tape.Tag(t.result.Session)), attribute.String("lingserve.turn.id", t.result.TurnID))
	if agent := t.result.Envelope.Agent; agent != "" {
		name = "invoke_agent " + agent
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", agent))
	}
	ctx, t.span = parent.TracerProvider().Tracer("github.com/lingserve/lingserve/turn").Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func() { t.span.End() }
}

// mark adds the error to the turn's span. A canceled turn has not failed.
func (t *Turn) mark(canceled bool, err error) {
	switch {
	case t.span == nil:
	case canceled:
		t.span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	default:
		code := t.framework.Code(err)
		t.span.SetAttributes(attribute.String("error.type", code))
		t.span.SetStatus(codes.Error, Sentence(code))
	}
}

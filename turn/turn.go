package turn

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// Turn is a turn that runs. Hooks find theirs with [FromContext].
type Turn struct {
	framework *Framework
	plugins   []Named[any]
	options   options
	inbox     *inbox // nil outside of a lane
	result    Result
	cut       bool        // it returns the cause of its context
	noticed   atomic.Bool // an error envelope was sent
	span      trace.Span  // while it runs; nil without tracing
}

type turnKey struct{}

// FromContext returns the turn that a hook's context belongs to; nil for other contexts.
func FromContext(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// ID returns the turn's id.
func (t *Turn) ID() string { return t.result.TurnID }

// Session returns the session that the turn is of; "" before it is resolved.
func (t *Turn) Session() SessionID { return t.result.Session }

// Envelope returns what came in.
func (t *Turn) Envelope() *Envelope { return t.result.Envelope }

// Framework returns where the turn runs.
func (t *Turn) Framework() *Framework { return t.framework }

// Streaming reports whether the turn has a reader.
func (t *Turn) Streaming() bool { return t.options.sink != nil }

// Inbox returns the steering; nil outside of a lane.
func (t *Turn) Inbox() Inbox {
	if t.inbox == nil {
		return nil
	}
	return t.inbox
}

// SystemPrompt joins what the plugins have for the system prompt: the one that was registered first stands first, empty
// ones are left out, a blank line is between two. Where some fail there is a text of the others, beside the error.
func (t *Turn) SystemPrompt(ctx context.Context, p Prompt, s State) (string, error) {
	var texts []string
	err := each(ctx, t, StageSystem, func(h SystemPrompter) error {
		text, err := h.SystemPrompt(ctx, p, s)
		if err == nil && text != "" {
			texts = append(texts, text)
		}
		return err
	})
	slices.Reverse(texts)
	return strings.Join(texts, "\n\n"), err
}

// Selector asks the plugins what the model is to see of the tape; nil where none says so.
func (t *Turn) Selector(ctx context.Context, s State) (tape.Selector, error) {
	selector, _, _, err := first(ctx, t, StageContext, func(h ContextBuilder) (tape.Selector, bool, error) {
		return h.BuildTapeContext(ctx, t.result.Session, s)
	})
	return selector, err
}

// Result is what a turn came to. It must not be changed.
type Result struct {
	Outcome
	Outbound   []*Envelope
	Deliveries []bool // by envelope of Outbound: whether a plugin delivered it
}

// Process runs one turn without a lane, for tests and for programs that see to the order themselves. Once the session is known
// there is a result, beside an error too.
func (f *Framework) Process(ctx context.Context, e *Envelope, opts ...Option) (*Result, error) {
	t, ctx, err := f.begin(ctx, e, opts)
	if err != nil {
		return nil, err
	}
	return t.run(ctx)
}

// begin makes a turn and resolves its session.
func (f *Framework) begin(ctx context.Context, e *Envelope, opts []Option) (*Turn, context.Context, error) {
	t := f.newTurn(e)
	for _, o := range opts {
		o(&t.options)
	}
	if t.result.TurnID = t.options.id; t.result.TurnID == "" {
		t.result.TurnID = NewID()
	}
	ctx = context.WithValue(ctx, turnKey{}, t)
	if err := t.step(ctx, t.resolve); err != nil {
		t.report(ctx, err, nil)
		return nil, nil, err
	}
	return t, trail.With(ctx, trail.Trail{Turn: t.result.TurnID, Session: t.result.Session}), nil
}

func (f *Framework) newTurn(e *Envelope) *Turn {
	return &Turn{framework: f, plugins: *f.plugins.Load(), result: Result{Outcome: Outcome{Envelope: e}}}
}

// run is the turn from load_state on.
func (t *Turn) run(ctx context.Context) (*Result, error) {
	ctx, end := t.trace(ctx)
	defer end()
	if limit := t.framework.options.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrTimeout)
		defer cancel()
	}
	if ctx.Err() != nil { // load_state has not begun, so there is nothing to save
		t.cut = true
		t.report(ctx, context.Cause(ctx), nil)
		return &t.result, context.Cause(ctx)
	}
	err := t.ended(ctx, t.loadState(ctx)) // no step, which would ask once more whether to begin
	if err == nil {
		err = t.step(ctx, t.buildPrompt)
	}
	if err == nil {
		err = t.step(ctx, t.runModel)
	}
	t.result.Err = err
	if t.inbox != nil {
		t.inbox.close()
	}
	saved := t.save(ctx)
	if err == nil && ctx.Err() != nil {
		t.cut, err = true, context.Cause(ctx)
	}
	err = join(err, saved)
	if err == nil {
		err = t.step(ctx, t.render)
		if !t.cut { // what some have rendered goes out though others have failed
			err = join(err, t.step(ctx, t.dispatch))
		}
	}
	t.report(ctx, err, saved)
	return &t.result, err
}

// step runs a stage unless the context has ended.
func (t *Turn) step(ctx context.Context, stage func(context.Context) error) error {
	var err error
	if ctx.Err() == nil {
		err = stage(ctx)
	}
	return t.ended(ctx, err)
}

// ended is the error of a stage. If the context has ended, its cause is the turn's error, whichever error the stage returned.
func (t *Turn) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	t.cut = true
	cause := context.Cause(ctx)
	if err != nil && !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
		t.log(ctx, slog.LevelWarn, "turn stage failed during cancellation", slog.Any("error", err))
	}
	return cause
}

// join is errors.Join that leaves a single error as it is.
func join(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}

// log writes a record that says which turn it is of.
func (t *Turn) log(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	if !t.framework.log.Enabled(ctx, level) {
		return
	}
	attrs = append(attrs, slog.String("turn", t.result.TurnID), slog.String("session", t.result.Session))
	t.framework.log.LogAttrs(ctx, level, text, attrs...)
}

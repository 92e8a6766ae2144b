package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
)

// Defaults of a [Runner].
const (
	DefaultParallel        = 8
	DefaultTimeout         = time.Minute
	DefaultGrace           = 5 * time.Second
	DefaultApprovalTimeout = 5 * time.Minute
)

// Bounds of what a model gets to read.
const (
	maxMessage = 2 << 10  // bytes of an error's message
	maxResult  = 16 << 20 // bytes of a result; the caller may store it elsewhere
	maxMisfits = 5        // places at which arguments break their schema
)

// Runner runs the calls of a model's reply. Its zero value works, with no tool that asks being allowed. It is safe for concurrent
// use, and must not be changed once it is used.
type Runner struct {
	// Parallel is how many calls of one step run at once; 0 means 8.
	Parallel int
	// Timeout bounds each call of a tool that says nothing else; 0 means a minute.
	Timeout time.Duration
	// Grace is how long a call whose context ended is waited for; 0 means 5 s. A call that has not returned then is abandoned.
	Grace time.Duration
	// ApprovalTimeout is how long an answer is waited for; 0 means 5 minutes.
	ApprovalTimeout time.Duration

	// NeedsApproval reports whether a call needs approval; nil is as the tool's Approval says.
	NeedsApproval func(*Tool, Call) bool
	// Approve asks whether a call may run: exactly this one, with these arguments. An error is the denial that the model reads.
	// It should return when its context ends, whose deadline is that of an answer. Nil means that no person can answer.
	Approve func(context.Context, *Tool, Call) error
	// Before, where it is set, sees each call of a known tool with arguments that are JSON. It may change the arguments, or return
	// a result: then the tool does not run. The schema is held to what it returns, and people are asked about that.
	Before func(context.Context, *Tool, Call) (json.RawMessage, *Result, error)
	// After, where it is set, may change what a tool returned. It also sees what Before answered and what went wrong.
	After func(context.Context, *Tool, Call, Result) (Result, error)
	// Redact, where it is set, takes secrets out of what went wrong before a model reads it.
	Redact func(string) string
	// Log gets panics, with their stacks, and calls that were abandoned. Nil means none.
	Log *slog.Logger
}

// Run runs the calls, of tools as they were offered to the model, and yields the index and the result of each as it ends. Every call
// has a result, also where ctx ends or the loop is left: then the calls' contexts end, and Run returns when they have, or when the
// grace is over. It needs an ID of no call, nor that IDs differ.
func (r *Runner) Run(ctx context.Context, tools []*Tool, calls []Call) iter.Seq2[int, Result] {
	return func(yield func(int, Result) bool) {
		type done struct {
			index  int
			result Result
		}
		ctx, cancel := context.WithCancel(ctx)
		results := make(chan done, len(calls)) // so that no call waits for the reader
		interrupts, over := make(chan func()), make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(over)
		defer cancel()
		slots := semaphore.NewWeighted(int64(r.parallel()))
		started := make([]*running, len(calls))
		start := func(i int) {
			wg.Go(func() { results <- done{i, started[i].run(tools)} })
		}
		for i, call := range calls {
			c := &running{Runner: r, slots: slots, call: clone(call)}
			if c.tool, _ = find(tools, call.Name); c.tool != nil {
				c.asks = r.needsApproval(c.tool, call)
			}
			c.ctx, c.span = c.begin(context.WithValue(ctx, scopeKey{}, scope{call, interrupts, over}))
			if started[i] = c; !c.ordered() {
				start(i)
			}
		}
		wg.Go(func() {
			for i, c := range started {
				if c.ordered() {
					c.acquire()
					start(i)
				}
			}
		})
		for n := 0; n < len(calls); {
			select {
			case do := <-interrupts:
				do()
			case d := <-results:
				if n++; !yield(d.index, d.result) {
					return
				}
			}
		}
	}
}

func (r *Runner) needsApproval(t *Tool, c Call) bool {
	if r.NeedsApproval != nil {
		return r.NeedsApproval(t, c)
	}
	return t.Approval == Always
}

func (r *Runner) parallel() int { return cmp.Or(max(r.Parallel, 0), DefaultParallel) }

type scopeKey struct{}

// scope is what the context of a running call has.
type scope struct {
	call       Call
	interrupts chan func()   // what the goroutine of Run is to do
	over       chan struct{} // closed when Run is left
}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

// Interrupt lets the goroutine that ranges over [Runner.Run] call do between two results,
// such as to send an event of the call that runs in ctx.
// It returns when do is called, or when the loop is left, which may be before.
func Interrupt(ctx context.Context, do func()) {
	s := scopeOf(ctx)
	select {
	case s.interrupts <- do:
	case <-s.over:
	}
}

// CallID returns the model's id of the call that runs in ctx; "" outside of a turn.
func CallID(ctx context.Context) string { return scopeOf(ctx).call.ID }

// Key returns the key of the call that runs in ctx, 26 lower-case letters and digits. It stays the same when the call runs again after a crash,
// and no other call has it: a tool can store it with what it does, and refuse to do the same twice. It is "" outside of a turn.
func Key(ctx context.Context) string { return scopeOf(ctx).call.Key }

// running is one call while it runs.
type running struct {
	*Runner
	slots *semaphore.Weighted
	held  int64 // slots that the call has; a serial one has all
	ctx   context.Context
	span  trace.Span
	tool  *Tool // nil if the name is unknown
	asks  bool  // the call needs approval
	call  Call
}

// ordered reports whether the call gets its slot in the order of the reply. A call that needs approval gets it when it is approved.
func (c *running) ordered() bool { return c.tool != nil && !c.asks }

// acquire waits for the call's slot, in the order of the callers. It returns false if the context ends first.
func (c *running) acquire() bool {
	n := int64(1)
	if c.tool.Serial {
		n = int64(c.parallel())
	}
	if c.slots.Acquire(c.ctx, n) == nil {
		c.held = n
	}
	return c.held > 0
}

func (c *running) run(tools []*Tool) Result {
	result := c.result(c.ctx, tools)
	c.slots.Release(c.held)
	result = c.finish(c.ctx, result)
	end(c.span, &result)
	return result
}

// result runs the call: it checks what the model wrote, asks for approval and executes the tool.
func (c *running) result(ctx context.Context, tools []*Tool) Result {
	if c.tool == nil {
		return failure(KindUnknown, unknown(c.call.Name, tools))
	}
	if c.ordered() && c.held == 0 {
		return failure(KindInterrupted, notRun)
	}
	c.call.Name = c.tool.Name
	if len(bytes.TrimSpace(c.call.Arguments)) == 0 {
		c.call.Arguments = json.RawMessage("{}")
	}
	if err := json.Unmarshal(c.call.Arguments, new(json.RawMessage)); err != nil {
		return failure(KindArguments, "the arguments are not valid JSON: "+err.Error())
	}
	if answer := c.before(ctx); answer != nil {
		return *answer
	}
	if err := c.tool.fits(c.call.Arguments); err != nil {
		return Result{Err: err}
	}
	if c.asks {
		if denied := c.ask(ctx); denied != nil {
			return Result{Err: denied}
		}
	}
	if c.held == 0 && !c.acquire() || ctx.Err() != nil {
		return failure(KindInterrupted, notRun)
	}
	return c.execute(ctx)
}

const (
	notRun  = "the turn ended before the tool ran"
	stopped = "the turn ended while the tool ran, so its result is unknown"
)

func failure(kind, message string) Result { return Result{Err: &Error{kind, message}} }

// before lets the hook change the arguments, or answer.
func (c *running) before(ctx context.Context) (answer *Result) {
	if c.Before == nil {
		return nil
	}
	defer c.caught(ctx, "before", func() { answer = new(failure(KindFailed, "the call did not run: a check before it failed")) })
	arguments, answer, err := c.Before(ctx, c.tool, clone(c.call))
	if err != nil {
		return new(failed(err, KindDenied))
	}
	if answer == nil {
		c.call.Arguments = bytes.Clone(arguments)
		if len(arguments) == 0 || !json.Valid(arguments) {
			return new(failure(KindFailed, "the call did not run: a check before it returned arguments that are not valid JSON"))
		}
	}
	return answer
}

// clone copies a call for a function that may change it.
func clone(c Call) Call {
	c.Arguments = bytes.Clone(c.Arguments)
	return c
}

// ask asks whether the call may run; the arguments are final.
func (c *running) ask(ctx context.Context) (denied *Error) {
	if c.Approve == nil {
		return &Error{KindDenied, "this tool needs approval, but this conversation has no approver"}
	}
	wait := cmp.Or(max(c.ApprovalTimeout, 0), DefaultApprovalTimeout)
	since := c.call.Asked
	if since.IsZero() {
		since = time.Now()
	}
	asked, cancel := context.WithDeadline(ctx, since.Add(wait))
	defer cancel()
	defer c.caught(ctx, "approval", func() { denied = &Error{KindDenied, "the question for approval could not be delivered"} })
	trace.SpanFromContext(ctx).AddEvent("lingserve.approval.asked")
	err := c.Approve(asked, c.tool, clone(c.call))
	trace.SpanFromContext(ctx).AddEvent("lingserve.approval.answered")
	switch {
	case ctx.Err() != nil:
		return &Error{KindInterrupted, notRun}
	case asked.Err() != nil:
		// An approval at the limit or after it does not count: the person was notified of that.
		return &Error{KindDenied, fmt.Sprintf("no approval came within %v", wait)}
	case err != nil:
		return failed(err, KindDenied).Err
	}
	return nil
}

var errTimeout = errors.New("tool: the call took too long")

// execute calls the tool, and waits for it no longer than it may take.
func (c *running) execute(ctx context.Context) Result {
	limit := cmp.Or(max(c.tool.Timeout, 0), max(c.Timeout, 0), DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	ended := func() Result {
		if context.Cause(ctx) == errTimeout {
			return failure(KindTimeout, fmt.Sprintf("the tool did not finish within %v", limit))
		}
		return failure(KindInterrupted, stopped)
	}
	// A tool may ignore its context, so it runs in a separate goroutine, which can be abandoned.
	type outcome struct {
		result Result
		err    error
	}
	done := make(chan outcome, 1)
	call := clone(c.call) // the tool may use it after it was abandoned
	go func() {
		out := outcome{err: &Error{KindPanic, "the tool crashed"}} // also if it ends its goroutine
		defer func() { done <- out }()
		defer c.caught(ctx, "tool", func() {})
		result, err := c.tool.Run(ctx, call)
		out = outcome{result, err}
	}()
	var out outcome
	select {
	case out = <-done:
	case <-ctx.Done():
		grace := time.NewTimer(cmp.Or(max(c.Grace, 0), DefaultGrace))
		defer grace.Stop()
		select {
		case out = <-done:
		case <-grace.C:
			if c.Log != nil {
				c.Log.WarnContext(ctx, "dropped a tool's result after its deadline", slog.String("tool", c.tool.Name))
			}
			return ended()
		}
	}
	if out.err == nil {
		return out.result
	}
	if _, ok := errors.AsType[*Error](out.err); !ok && ctx.Err() != nil {
		return ended()
	}
	return failed(out.err, KindFailed)
}

// failed makes a result of an error: an *Error as it is, another with its text.
func failed(err error, kind string) Result {
	if e, ok := errors.AsType[*Error](err); ok {
		return Result{Err: e}
	}
	return failure(kind, err.Error())
}

// caught recovers what panicked, which only the log gets to know, and calls then.
func (c *running) caught(ctx context.Context, where string, then func()) {
	p := recover()
	if p == nil {
		return
	}
	if c.Log != nil {
		c.Log.ErrorContext(ctx, "panic in a tool", slog.String("tool", c.tool.Name), slog.String("in", where),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
	then()
}

// finish makes a result fit to be read.
func (c *running) finish(ctx context.Context, r Result) Result {
	if c.After != nil && c.tool != nil {
		r = c.after(ctx, r)
	}
	switch {
	case r.Err != nil:
	case len(r.Content) > 0 && !json.Valid(r.Content):
		r = failure(KindFailed, "the tool returned invalid JSON")
	case r.size() > maxResult:
		r = failure(KindFailed, fmt.Sprintf("the tool returned %d bytes; expected at most %d", r.size(), maxResult))
	default:
		if !utf8.Valid(r.Content) {
			r.Content = bytes.ToValidUTF8(r.Content, []byte("\uFFFD"))
		}
		r.Parts = slices.Clone(r.Parts)
		for i, p := range r.Parts {
			r.Parts[i].Text = strings.ToValidUTF8(p.Text, "\uFFFD")
		}
	}
	if e := r.Err; e != nil {
		message := e.Message
		if c.Redact != nil {
			message = c.Redact(message)
		}
		r = failure(e.Kind, wording.ClipTo(strings.ToValidUTF8(message, "\uFFFD"), maxMessage))
	}
	r.ID, r.Name = c.call.ID, c.call.Name
	return r
}

func (c *running) after(ctx context.Context, r Result) (out Result) {
	defer c.caught(ctx, "after", func() { out = r })
	r.ID, r.Name = c.call.ID, c.call.Name
	out, err := c.After(ctx, c.tool, clone(c.call), r)
	if err == nil {
		return out
	}
	if ctx.Err() != nil {
		return r // what the tool did is still to be recorded
	}
	return failed(err, KindFailed)
}

func (r Result) size() int {
	n := len(r.Content)
	for _, p := range r.Parts {
		n += len(p.Text) + len(p.Image) + len(p.File)
	}
	return n
}

// fits holds arguments to the schema, and says where they break it.
func (t *Tool) fits(arguments json.RawMessage) *Error {
	if err := t.Check(); err != nil {
		return &Error{KindFailed, "cannot use the tool: " + err.Error()}
	}
	if t.compiled == nil {
		if bytes.TrimSpace(arguments)[0] != '{' {
			return &Error{KindArguments, "invalid arguments: expected an object"}
		}
		return nil
	}
	found := t.compiled.CheckText(arguments, maxMisfits)
	if len(found) == 0 {
		return nil
	}
	misfits := make([]string, len(found))
	for i, m := range found {
		misfits[i] = strings.TrimPrefix(schema.Pointer(m.At)+": ", ": ") + m.Message
	}
	return &Error{KindArguments, "invalid arguments: " + strings.Join(misfits, "; ")}
}

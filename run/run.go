package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// Statuses of a run.
const (
	StatusRunning     = "running"
	StatusCompleted   = "completed"
	StatusFailed      = "failed"
	StatusInterrupted = "interrupted"
	StatusCanceled    = "canceled"
)

// Run is one run: going on, or ended and kept for those who come late. Its exported fields do not change.
type Run struct {
	origin
	tube *tube.Tube
	key  string      // the Idempotency-Key that this server started it with; "" for none
	cut  atomic.Bool // an agent's model has come to its limit of tokens
	// Heard is for a handler that remembers that a client has read all of the run.
	Heard atomic.Bool

	// manager is there while the run goes on. It is dropped at the end, since it holds much that only a running run needs.
	manager atomic.Pointer[ling.Manager]

	machine  machine
	observer RunObserver // of a run that this server has begun
	release  func()      // stops counting it
	late     *time.Timer // ends it when it takes too long
	hasSlot  bool        // one of Service.slots

	recording *recording      // nil: it was read from the store
	warned    bool            // of the recorder's goroutine: readers know that the run cannot be stored
	here      context.Context // ends when the run cannot be followed here any more, though it may go on elsewhere
	leave     context.CancelFunc
	asked     map[string]bool // ids of the questions that readers know from before the run was resumed
	pendingMu sync.Mutex
	pending   pending     // of a turn
	goesOn    bool        // if its server is lost
	step      atomic.Bool // it has finished a step here

	account *adapter.Account                   // pays for its memory, also after its end; nil: memory is not counted
	readers atomic.Int32                       // see Hold
	text    func() (document, reserved []byte) // after its end; all readers share it, because it may be large

	span   trace.Span        // while it runs; nil without a tracer
	traced trace.SpanContext // of span, also afterwards

	done   chan struct{} // closed when the members below are set
	result Result

	// Of an ended run in memory; guarded by Service.mu.
	erased bool      // its session was erased after its end
	drop   time.Time // when it leaves memory
	size   int64     // bytes of memory, about
}

// newRun returns a run of this origin.
func newRun(o origin) *Run {
	r := &Run{origin: o, done: make(chan struct{})}
	r.text = sync.OnceValues(func() (document, reserved []byte) { return r.tube.Snapshot(false) })
	r.here, r.leave = context.WithCancel(context.Background())
	return r
}

// Result is what is kept of an ended run beside its tube. The document is not here: it is the fold of the tube's events.
type Result struct {
	Status    string                    `json:"status"`
	Reason    string                    `json:"reason,omitempty"`
	Session   string                    `json:"session,omitempty"`
	Usage     map[string]adapter.Usage  `json:"usage,omitempty"`
	Models    map[string][]string       `json:"models,omitempty"`
	Repairs   map[string]map[string]int `json:"repairs,omitempty"`
	Truncated bool                      `json:"truncated,omitempty"`
	Errors    []ling.ErrorData          `json:"errors,omitempty"`
}

// Ended reports whether readers may have the terminal event.
func (r *Run) Ended() bool { return hasEnded(r.tube) }

// hasEnded reports whether the end of a tube can be seen.
func hasEnded(t *tube.Tube) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// Over is closed when the end of the run can be seen.
func (r *Run) Over() <-chan struct{} { return r.tube.Ended() }

// Done is closed when [Run.Result] is known here.
func (r *Run) Done() <-chan struct{} { return r.done }

// Read reads the run from an event on, whose predecessor the client has had. Errors: ErrAhead if the run has had less, ErrAway if a later attempt may have had it.
func (r *Run) Read(from uint64) (*tube.Reader, error) {
	if sent := r.tube.Len(); from > sent {
		if from/Epoch > sent/Epoch && !r.Ended() { // of a later attempt: another replica has taken the run over
			return nil, away()
		}
		return nil, refuse(ErrAhead, "the run has had "+wording.Plural(int64(sent), "event"))
	}
	return r.tube.NewReader(from), nil
}

// Events reads the run from its first event on.
func (r *Run) Events() *tube.Reader { return r.tube.NewReader(0) }

// TakenOver reports whether the run's server was lost, and this one has taken the run over.
func (r *Run) TakenOver() bool { return r.tube.Len() >= Epoch }

// ReadNow reads the run from an event on that it has had.
func (r *Run) ReadNow(from uint64) *tube.Reader { return r.tube.NewReader(from) }

// Snapshot reads the run from its document so far on.
func (r *Run) Snapshot() *tube.Reader { return r.tube.SnapshotReader() }

// Complete reports whether the run has ended before an event.
func (r *Run) Complete(event uint64) bool { return r.Ended() && event >= r.tube.Len() }

// Wait waits until the end of the run can be seen. It is ErrMoved where the run goes on elsewhere.
func (r *Run) Wait(ctx context.Context) error {
	select {
	case <-r.tube.Ended():
	case <-r.here.Done():
		return ErrMoved
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.awaitDone(ctx) // a moment later
}

// awaitDone waits until the result is known here.
func (r *Run) awaitDone(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Within returns a context that ends, with the cause ErrMoved, when the run cannot be followed here any more, too. stop frees it.
func (r *Run) Within(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(r.here, func() { cancel(ErrMoved) })
	return ctx, func() {
		unbind()
		cancel(nil)
	}
}

// Moved reports whether the run cannot be followed here any more.
func (r *Run) Moved() bool { return r.here.Err() != nil }

// Result returns the result of the run, or its result so far, with the document that clients may see and the reserved values.
func (r *Run) Result() (o Result, document, reserved []byte) {
	m, over := r.manager.Load(), r.Ended() // first: of one that ends meanwhile not all may be there
	if m != nil {
		res := m.Peek(false)
		o, document, reserved = r.resultOf(res), res.Result, res.Reserved
	} else {
		<-r.done         // it has ended since
		over = r.Ended() // or its end is another replica's
		o = r.result
		document, reserved = r.text()
	}
	if !over {
		o.Status, o.Reason = StatusRunning, ""
	}
	return o, document, reserved
}

// Summary is the run's result, or what there is of it so far, without its document.
func (r *Run) Summary() Result {
	if m := r.manager.Load(); m != nil {
		return r.resultOf(m.Peek(false))
	}
	<-r.done // it has ended since
	return r.result
}

// Hold counts a reader of the run until release is called. The run's account pays for the document that readers get.
func (r *Run) Hold() (release func()) {
	r.account.Retain()
	r.readers.Add(1)
	return func() {
		r.readers.Add(-1)
		r.account.Release()
	}
}

// resultOf returns the result that a manager has.
func (r *Run) resultOf(res ling.Result) Result {
	return Result{
		Status: res.Status, Reason: res.Reason, Session: res.Session, Usage: res.Usage, Models: res.Models, Repairs: res.Repairs,
		Truncated: res.Truncated || r.cut.Load(), Errors: res.Errors,
	}
}

// Cause is the error that made a run fail: the first fatal one, or else the first failure of a bot that was not handled.
func (o Result) Cause() (ling.ErrorData, bool) {
	for _, e := range o.Errors {
		if e.Fatal {
			return e, true
		}
	}
	for _, e := range o.Errors {
		if e.Failed && !e.Handled {
			return e, true
		}
	}
	return ling.ErrorData{}, false
}

// Context has the run's ids, and those of its trace, for lines of the log that are written outside of it.
func (r *Run) Context() context.Context {
	ctx := trail.With(context.Background(), trail.Trail{Run: r.ID, Session: r.Lane()})
	if r.traced.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, r.traced)
	}
	return ctx
}

// state is what a run is to this replica.
type state int32

const (
	stateNew        state = iota
	stateQueued           // waits for its turn in its session, or after a restart for a slot
	stateRunning          // works here
	stateEnded            // its end is stored, and it is kept in memory
	stateHandedOver       // another server continues it
	stateMoved            // another replica has it
	stateDropped          // has left memory: it is in the store, or has expired
)

var stateNames = [...]string{"new", "queued", "running", "ended", "handed over", "moved", "dropped"}

func (s state) String() string { return stateNames[s] }

// transitions has the states that may follow each state. A run that is handed over may end before the store lets it go.
var transitions = map[state][]state{
	stateNew:        {stateQueued, stateRunning, stateEnded},
	stateQueued:     {stateRunning, stateEnded, stateHandedOver, stateMoved},
	stateRunning:    {stateEnded, stateHandedOver, stateMoved},
	stateEnded:      {stateDropped},
	stateHandedOver: {stateEnded, stateMoved},
	stateMoved:      {},
	stateDropped:    {},
}

// machine has the state of a run. The zero value is new.
type machine struct{ state atomic.Int32 }

// is reports whether the state is s.
func (m *machine) is(s state) bool { return state(m.state.Load()) == s }

// enter makes a transition. One that is not in the table is a bug: tests fail, and the product goes on.
func (m *machine) enter(to state) {
	from := state(m.state.Swap(int32(to)))
	if !slices.Contains(transitions[from], to) && OnWrongState != nil {
		OnWrongState(fmt.Errorf("run: no transition from %s to %s", from, to))
	}
}

// enterFrom makes a transition if the state is from, and reports whether it was.
func (m *machine) enterFrom(from, to state) bool {
	return m.state.CompareAndSwap(int32(from), int32(to))
}

// OnWrongState is called with a transition that is not in the table. Tests set it before they open a service.
var OnWrongState func(error)

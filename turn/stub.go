package turn

import (
	"context"
	"errors"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

var errLater = errors.New("turn: comes with the next commit")

// Option changes one turn.
type Option func(*options)

type options struct {
	id        string
	policy    Policy
	streaming bool
	sink      func(Event, error)
}

// Policy says what a submission does where its lane is busy.
type Policy string

// The policies; "" is Queue.
const (
	Queue     Policy = "queue"     // it waits its turn
	Reject    Policy = "reject"    // it is refused with [ErrBusy]
	Interrupt Policy = "interrupt" // it ends the running turn, and is the next
	Steer     Policy = "steer"     // it goes to the running turn; where that takes nothing any more, as Queue
)

// WithPolicy says what happens where the lane is busy; Queue unless told otherwise.
func WithPolicy(p Policy) Option { return func(o *options) { o.policy = p } }

// WithID gives the turn its id, which should have 128 random bits; [NewID] makes one by default.
func WithID(id string) Option { return func(o *options) { o.id = id } }

// WithStreaming makes the turn a streaming one: of plugins that have both model hooks the streaming one is used, and a bound
// router wraps the stream.
func WithStreaming() Option { return func(o *options) { o.streaming = true } }

// WithSink makes the turn a streaming one whose events are handed to sink, one by one, while the model speaks. What it gets ends
// with one final event or with an error. The turn waits for it.
func WithSink(sink func(Event, error)) Option {
	return func(o *options) { o.streaming, o.sink = true, sink }
}

// Turn is a turn that runs. Hooks find theirs with [FromContext].
type Turn struct {
	plugins *plugins
}

// FromContext returns the turn that a hook's context belongs to; nil for other contexts.
func FromContext(ctx context.Context) *Turn { return nil }

// ID returns the turn's id.
func (t *Turn) ID() string { return "" }

// Session returns the session that the turn is of.
func (t *Turn) Session() SessionID { return "" }

// Envelope returns what came in.
func (t *Turn) Envelope() *Envelope { return nil }

// Framework returns where the turn runs.
func (t *Turn) Framework() *Framework { return nil }

// Streaming says whether somebody reads along.
func (t *Turn) Streaming() bool { return false }

// Inbox returns the steering; nil outside of a lane.
func (t *Turn) Inbox() Inbox { return nil }

// Router returns the bound router; nil where none is.
func (t *Turn) Router() Router { return nil }

// BuildPrompt asks the plugins for the prompt of another envelope of the turn, such as steering.
func (t *Turn) BuildPrompt(ctx context.Context, e *Envelope, s State) (Prompt, error) {
	return Prompt{}, errLater
}

// SystemPrompt joins what the plugins have for the system prompt: the one that was registered first stands first, empty
// ones are left out, a blank line is between two. The errors of all are joined.
func (t *Turn) SystemPrompt(ctx context.Context, p Prompt, s State) (string, error) {
	return "", errLater
}

// Selector asks the plugins what the model is to see of the tape; nil where none says so.
func (t *Turn) Selector(ctx context.Context, s State) (tape.Selector, error) { return nil, errLater }

// Dispatch sends an envelope through dispatch_outbound, in the middle of the turn: every plugin, errors joined.
func (t *Turn) Dispatch(ctx context.Context, e *Envelope) (delivered bool, err error) {
	return false, errLater
}

// Result is what a turn came to.
type Result struct {
	TurnID     string
	Session    SessionID
	Output     string
	Partial    bool // the model ended with an error, and Output is what came before
	Usage      Usage
	Outbound   []*Envelope
	Deliveries []bool // by envelope of Outbound: whether a plugin delivered it
}

// Process runs one turn without a lane, for tests and for programs that see to the order themselves. Once the session is known
// there is a result, beside an error too.
func (f *Framework) Process(ctx context.Context, e *Envelope, opts ...Option) (*Result, error) {
	return nil, errLater
}

// Submit resolves the session and gives the turn to its lane. It does not wait for it: see [Ticket]. ctx is the turn's
// life: ending it ends the turn, or the waiting for it.
func (f *Framework) Submit(ctx context.Context, e *Envelope, opts ...Option) (*Ticket, error) {
	return nil, errLater
}

// Alone runs fn in the lane of a session, where no turn runs, as a submission with this policy: for what changes a session from
// outside.
func (f *Framework) Alone(ctx context.Context, session SessionID, p Policy, fn func(context.Context) error) error {
	return errLater
}

// Stop cancels the running turn of a session with this cause and ends what waits there; it says how many that were.
// It does not wait.
func (f *Framework) Stop(session SessionID, cause error) int { return 0 }

// Drain refuses new submissions and ends those that wait, with [ErrDraining]; waits for the running turns, and cancels them when
// ctx ends.
func (f *Framework) Drain(ctx context.Context) error { return errLater }

// Phase is how far a submission is.
type Phase string

// The phases.
const (
	Queued  Phase = "queued"
	Running Phase = "running"
	Steered Phase = "steered" // given to the turn that runs
	Done    Phase = "done"
)

// Status is what a ticket tells.
type Status struct {
	Phase    Phase
	Position int    // of Queued: 1 is next
	Turn     string // the id of the turn: of Steered that of the one that has the message
}

// Ticket stands for a submission.
type Ticket struct{}

// Status tells how far the submission is.
func (t *Ticket) Status() Status { return Status{} }

// Wait waits for the end of the turn that used the message and returns what it came to. When ctx ends before that, it returns
// the cause, and the turn goes on.
func (t *Ticket) Wait(ctx context.Context) (*Result, error) { return nil, errLater }

type lanes struct{ mu sync.Mutex }

func (l *lanes) init(Options) {}

func (f *Framework) provide(ctx context.Context, p Named[StoreProvider]) (tape.Store, bool, error) {
	return p.Hook.ProvideTapeStore(ctx)
}

// NewID makes a turn's id, of 128 random bits.
func NewID() string { return "" }

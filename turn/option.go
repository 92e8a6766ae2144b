package turn

import "crypto/rand"

// Option changes one turn.
type Option func(*options)

type options struct {
	id      string
	policy  Policy
	sink    func(Event, error)
	waiting func(Waiting)
}

// Policy says what a submission does where its lane is busy.
type Policy string

// The policies; "" is Queue. In an idle lane all are the same.
const (
	Queue     Policy = "queue"     // it waits its turn
	Reject    Policy = "reject"    // it is refused with [ErrBusy]
	Interrupt Policy = "interrupt" // it ends the running turn, and comes next
	Steer     Policy = "steer"     // it goes to the running turn; where that takes nothing any more, as Queue
)

// WithPolicy says what happens where the lane is busy; Queue by default.
func WithPolicy(p Policy) Option { return func(o *options) { o.policy = p } }

// WithID gives the turn its id, which should have 128 random bits; [NewID] makes one by default.
func WithID(id string) Option { return func(o *options) { o.id = id } }

// WithSink makes the turn a streaming one whose events are handed to sink, one by one, while the model speaks. The last call has a
// final event or an error. The turn waits for sink. Of plugins that have both model hooks the streaming one is used.
func WithSink(sink func(Event, error)) Option { return func(o *options) { o.sink = sink } }

// WithWaiting has fn called while the turn waits in its lane: after half a second, and again when its position has changed, at most
// every two seconds, or less often where many wait. When the turn begins, fn is called once more with the zero value, unless it was never
// called. Calls do not overlap. One goroutine calls fn for all turns that wait, so fn must not block.
func WithWaiting(fn func(Waiting)) Option { return func(o *options) { o.waiting = fn } }

// NewID makes a turn's id: 130 random bits in letters and digits, behind "t-".
func NewID() string { return "t-" + rand.Text() }

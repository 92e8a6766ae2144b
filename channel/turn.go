package channel

import (
	"context"
	"errors"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// LoaderTimeout bounds a function that loads media.
const LoaderTimeout = 15 * time.Second

// Agent answers turns.
type Agent interface {
	Dispatch(context.Context, *Turn) (DispatchResult, error)
}

// Turn is what an agent is given.
type Turn struct {
	ID, SessionKey string
	Context        *TurnContext
	Policy         string    // on_busy, of package turn; "" is queue
	Repeated       bool      // a turn with its message has failed
	Resumed        bool      // the turn may have begun in another process, or in this one before
	Shown          int       // bytes of the turn's text that were sent before, of a turn that is resumed
	Timezone       string    // of the dates that the agent reads; "" is the agent's
	Arrived        time.Time // when its message came; zero: now
	Sink           Sink
	Queued         func() // to be called when the turn has its place in the lane
}

type turnKey struct{}

// FromContext returns the turn that a context belongs to, nil for others: code of a turn that sends through a channel
// uses its Sink.
func FromContext(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// WithTurn returns a context that belongs to a turn.
func WithTurn(ctx context.Context, t *Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// Sink takes what an agent says in a turn.
type Sink interface {
	// Emit is the next block. ErrNoDelivery where nothing delivers here.
	Emit(_ context.Context, kind ReplyKind, p Payload) error
	// Preview is the newest text of the block that is open.
	Preview(p Payload)
}

// IsCanceled reports whether an error means that the turn was ended on purpose: by a person, the lane, the server's end, or the caller of its
// context. It is false after a deadline.
func IsCanceled(ctx context.Context, err error) bool {
	for _, end := range []error{ErrDraining, turn.ErrStopped, turn.ErrInterrupted, turn.ErrHandedOver} {
		if errors.Is(err, end) {
			return true
		}
	}
	cause := context.Cause(ctx)
	return cause != nil && !errors.Is(cause, context.DeadlineExceeded) && (errors.Is(err, cause) || errors.Is(err, context.Canceled))
}

// Preflight is what an adapter knows before it resolves. The kernel itself reads it for a drop alone.
type Preflight struct {
	Admission    Admission
	Access       *AccessFacts
	Message      MessageFacts
	Supplemental SupplementalFacts
	Media        []MediaFact
	History      HistoryHint
}

// HistoryHint says how a message that is dropped goes to the window.
type HistoryHint struct {
	Key          WindowKey // zero is the conversation and thread of the input
	Limit        int       // entries; 0 is the window's own, negative turns it off
	MediaLimit   *int      // media an entry; nil is 4
	ShouldRecord func() bool
	RecordOnDrop bool
	Sender       SenderFacts
	Conversation ConversationFacts
	LoadMedia    func(context.Context) ([]MediaFact, error)
}

// Label is what a sender is called in the envelope.
func (s SenderFacts) Label() string {
	switch {
	case s.Username == "":
		return s.Name
	case s.Name == "":
		return "@" + s.Username
	}
	return s.Name + " (@" + s.Username + ")"
}

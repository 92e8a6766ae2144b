package channel

import (
	"context"
	"log/slog"
	"time"
)

// Channel is a platform with its doors.
type Channel interface {
	Name() string
	// Serve lets events in until ctx ends, and returns when all that it has started has ended.
	Serve(ctx context.Context, k *Kernel) error
}

// Provider is the hook of a plugin that brings channels. Names are unique.
type Provider interface{ Channels() []Channel }

// Event is a platform's event and who reads it.
type Event[Raw any] struct {
	Meta
	Raw     Raw
	Adapter Adapter[Raw]
}

// Meta is what a door knows of an event.
type Meta struct {
	Channel, Account string
	TurnID           string                        // where the door has one, of 128 random bits; "" is one of the kernel's
	Claim            Claim                         // where the door has one; nil
	Ack              func(context.Context, Result) // called exactly once; nil
	Repeated         bool                          // a turn of the event may have begun before
	Counted          bool                          // the door has counted the message by [Kernel.TakeRate]
	Queued           func()                        // called exactly once, when the next event of the conversation may come; nil
}

// Adapter reads events of a platform. It may also be a Classifier, Preflighter, Finalizer or Challenger.
type Adapter[Raw any] interface {
	// Ingest normalises an event; nil, nil is nothing for an agent.
	Ingest(context.Context, Raw) (*Input, error)
	Resolve(context.Context, *Input, EventClass, Preflight) (Plan, error)
}

// Classifier says what an event is; without it, a message.
type Classifier interface {
	Classify(context.Context, *Input) (EventClass, error)
}

// Preflighter looks at an event before it is resolved.
type Preflighter interface {
	Preflight(context.Context, *Input, EventClass) (Preflight, error)
}

// Finalizer is told what a turn came to.
type Finalizer interface {
	Finalize(context.Context, Result) error
}

// Challenger tells a sender how to be paired.
type Challenger interface {
	Challenge(context.Context, SenderFacts) error
}

// Agent answers turns.
type Agent interface {
	Dispatch(context.Context, *Turn) (DispatchResult, error)
}

// Turn is what an agent is given.
type Turn struct {
	ID, SessionKey string
	Context        *TurnContext
	Policy         string    // on_busy, of package turn; "" is queue
	Repeated       bool      // [Meta.Repeated]
	Resumed        bool      // the turn may have begun in another process, or in this one before
	Shown          int       // bytes of the turn's text that were sent before, of a turn that is resumed
	Timezone       string    // of the dates that the agent reads; "" is the agent's
	Arrived        time.Time // when its message came; zero: now
	Sink           Sink
	Queued         func() // to be called when the turn has its place in the lane
}

// Kernel is what turns need. Only Agent is required: without policy it admits nobody.
type Kernel struct {
	Agent    Agent
	Recorder Recorder     // nil records nothing
	Journal  Journal      // nil is one in memory
	Window   *Window      // nil is one in memory
	Outbox   *Outbox      // nil: no block is durable
	Routes   Routes       // nil: adapters set the route themselves
	Settings Settings     // nil admits nobody
	Pairing  Pairing      // nil: nobody is paired
	Media    MediaChecker // nil: agents are given no local files
	Only     Exclusive    // nil: no other process has the same accounts
	Observer Observer
	Tracer   Tracer
	Limits   Limits
	// Hold holds memory for so many bytes of an event until release is called; ok is false where there is none. nil holds without counting.
	Hold func(bytes int64) (release func(), ok bool)
	// DiskFailed is called when the disk cannot keep an event; nil is nothing.
	DiskFailed func()
	Log        *slog.Logger // nil is silent

	state kernelState
}

// Recorder writes the row of a session, and where its last message came from.
type Recorder interface {
	Record(context.Context, Row) error
	LastRoute(context.Context, Row) error
}

// Owners is a [Recorder] that knows the pinned owner of a main session: the sender whose messages alone change its last route.
type Owners interface {
	Owner(_ context.Context, mainSessionKey string) (sender string, err error) // "" is nobody
}

// Enricher is a [Recorder] that has more to find out about a session than a turn should wait for, such as the name of its group. Enrich
// returns the task that does so, or nil. The kernel runs it after Record, beside the turn and within 10 s, and waits for it
// before it returns; what goes wrong with it is logged.
type Enricher interface {
	Enrich(Row) func(context.Context) error
}

// Row is what is recorded of a turn.
type Row struct {
	SessionKey      string
	CreateIfMissing bool
	Channel         string
	Account         string
	Route           RouteFacts
	Reply           ReplyPlanFacts
	Conversation    ConversationFacts
	Group           SessionGroup // zero of direct conversations
	Sender          string
	At              time.Time
}

// SessionGroup says of which group a session is.
type SessionGroup struct {
	Kind  ChatType
	ID    string
	Label string
}

// Routes maps where a message came from to an agent: the most specific rule first.
type Routes interface {
	Route(RouteQuery) (agent string, ok bool)
}

// RouteQuery is where a message came from.
type RouteQuery struct {
	Channel, Account string
	Peer             Peer
	Space            string
	Parent, Thread   string
}

// Settings gives the policy for a place. Fields are resolved one by one: thread, conversation, account, channel, default.
type Settings interface {
	Policy(PolicyQuery) Policy
}

// PolicyQuery is the place that a policy is for.
type PolicyQuery struct {
	Channel, Account, Conversation, Parent, Thread string
	Kind                                           ChatType
}

// Pairing knows who was paired with an account. An error is an unreadable store.
type Pairing interface {
	Paired(_ context.Context, channel, account, sender string) (bool, error)
}

// Asker is a [Pairing] that knows who waits to be paired.
type Asker interface {
	Asked(_ context.Context, channel, account, sender string) (bool, error)
}

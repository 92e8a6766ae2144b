// Package kernel turns one event of a channel into one turn of an agent: it runs the stages in their order, decides whether the turn goes on, and
// sends what the agent says. Package channel has the facts that it decides by.
//
// # Guarantees
//   - An event that was accepted runs once, and has one outcome. After a crash its turn goes on where it was.
//   - Nothing is sent twice unless the first attempt is proven not to have been sent.
//   - A turn that is blocked writes no session and calls no agent. Nothing is visible of a turn that observes.
package kernel

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/channel"
)

// Kernel runs turns. Only Agent is required. Its fields are not changed after the first turn.
type Kernel struct {
	Agent    channel.Agent
	Store    Store              // of events; nil: they come by [Run] alone, and the caller drops copies
	Recorder Recorder           // nil is one in memory
	Window   *channel.Window    // likewise
	Settings channel.Settings   // nil admits no one
	Pairing  *channel.Pairs     // nil: no one is paired
	Media    *channel.MediaRoot // nil: agents are given no local files
	Observer channel.Observer   // nil writes to Log
	Tracer   trace.Tracer       // nil: turns have no spans
	// DiskFailed is called if an event could not be stored because of the disk; nil.
	DiskFailed func()
	Log        *slog.Logger // nil is silent

	once   sync.Once
	guards guards
}

// Channel is a platform that events come from.
type Channel interface {
	Name() string
	// Serve takes events until ctx ends, and returns when all that it has started has ended.
	Serve(ctx context.Context, q *Queue) error
}

// Provider is the hook of a plugin that brings channels. Their names are unique.
type Provider interface{ Channels() []Channel }

// Meta is what the caller knows of an event.
type Meta struct {
	Channel, Account string
	TurnID           string                                // "": the kernel makes one
	Event            *Claimed                              // that the queue has given to the caller; nil
	Ack              func(context.Context, channel.Result) // called once: before dispatch if the platform cannot wait, else at the end; nil
	Queued           func()                                // called once, when the next event of the conversation may start; nil
	Counted          bool                                  // [Kernel.CountRate] has counted the message
}

// Adapter reads events of a platform. Ingest and Resolve are required; a hook that is nil is the default.
type Adapter[Raw any] struct {
	Ingest    func(context.Context, Raw) (*channel.Input, error) // nil, nil: nothing for an agent
	Classify  func(context.Context, *channel.Input) (channel.EventClass, error)
	Preflight func(context.Context, *channel.Input, channel.EventClass) (channel.Preflight, error)
	Resolve   func(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (*Turn, error)
	Finalize  func(context.Context, channel.Result) error
}

// Turn is what an event is resolved to: where it came from, who answers it, and how the answer is sent.
type Turn struct {
	Facts     channel.Facts
	Admission channel.Admission
	Record    RecordOptions
	Delivery  *Delivery // nil: nothing is sent
	// Dispatch runs the turn in place of the kernel's agent; nil.
	Dispatch             func(context.Context, *channel.Turn) (channel.DispatchResult, error)
	OnPreDispatchFailure func(context.Context, error)
	OnFinalize           func(context.Context, channel.Result) error
}

func (k *Kernel) init() {
	k.once.Do(func() {
		k.Log = cmp.Or(k.Log, slog.New(slog.DiscardHandler))
		k.Window = cmp.Or(k.Window, channel.NewWindow(nil, channel.WindowOptions{Log: k.Log}))
		k.Recorder = cmp.Or[Recorder](k.Recorder, channel.NewSessions(nil))
		k.Settings = cmp.Or[channel.Settings](k.Settings, new(channel.Tree))
		k.Observer = cmp.Or[channel.Observer](k.Observer, channel.NewSlogObserver(k.Log))
		k.guards.init()
	})
}

// Run turns an event into a turn. ctx is the life of the turn.
//
// A turn that is blocked is a result and no error. An error is a [*channel.StageError], joined with what finalize has failed of. Beside an error the
// result says how far the turn got.
func Run[Raw any](ctx context.Context, k *Kernel, m Meta, raw Raw, a *Adapter[Raw]) (channel.Result, error) {
	p := k.begin(m)
	p.hooks = Adapter[struct{}]{
		Ingest:   func(ctx context.Context, _ struct{}) (*channel.Input, error) { return a.Ingest(ctx, raw) },
		Classify: a.Classify, Preflight: a.Preflight, Resolve: a.Resolve, Finalize: a.Finalize,
	}
	return p.run(ctx, stages[:])
}

// RunAssembled runs a turn whose message is resolved; the kernel's agent answers. It begins with the stage authorize.
func (k *Kernel) RunAssembled(ctx context.Context, m Meta, t *Turn) (channel.Result, error) {
	assembled := *t
	assembled.Dispatch = nil
	return k.RunPrepared(ctx, m, &assembled)
}

// RunPrepared is [Kernel.RunAssembled] for a turn that has its own Dispatch.
func (k *Kernel) RunPrepared(ctx context.Context, m Meta, t *Turn) (channel.Result, error) {
	p := k.begin(m)
	p.result.Class = channel.MessageClass
	p.setTurn(t)
	return p.run(ctx, stages[prepared:])
}

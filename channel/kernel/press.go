package kernel

import (
	"context"

	"github.com/lingserve/lingserve/channel"
)

// PressTurn is the turn of a press on a button of a question. The facts say who has pressed, and where the question was asked; show shows the answer to
// the person who pressed, and is not called where nothing may be seen.
func (k *Kernel) PressTurn(f channel.Facts, p channel.Press, show func(context.Context, channel.Pressed)) *Turn {
	f.Message = channel.MessageFacts{RawBody: p.Command(), CommandBody: p.Command()}
	f.Route.CreateIfMissing = false
	f.Access.Mentions.CanDetect, f.Access.Mentions.WasMentioned = true, true // the button is the agent's
	return &Turn{Facts: f, Dispatch: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Queued()
		state := channel.PressRefused
		if d, ok := k.Agent.(channel.Decider); ok && t.Context.CommandAuthorized && !t.Context.ObserveOnly {
			state = d.Decide(ctx, t, p)
		}
		if !t.Context.ObserveOnly {
			show(ctx, state)
		}
		return channel.DispatchResult{NoReply: true}, nil // what was shown is no message, so it takes nothing from the window
	}}
}

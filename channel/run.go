package channel

import (
	"context"
)

// Run turns one event into one turn: all nine stages. ctx is the turn's life.
//
// A turn that is stopped is a result and no error; an error is a [*StageError], joined with what finalize failed of. Beside an
// error the result is filled as far as the turn got.
func Run[Raw any](ctx context.Context, k *Kernel, ev Event[Raw]) (Result, error) {
	p := k.pass(ev.Meta)
	p.event, p.adapter = &eventOf[Raw]{ev.Adapter, ev.Raw}, ev.Adapter
	return p.run(ctx, steps[:])
}

// RunAssembled runs a turn that is resolved and whose delivery alone is the channel's: the stages authorize to finalize.
func (k *Kernel) RunAssembled(ctx context.Context, m Meta, plan *Assembled) (Result, error) {
	return k.runPlan(ctx, m, plan)
}

// RunPrepared runs a turn that is resolved and whose dispatch is the channel's, too: the stages authorize to finalize.
func (k *Kernel) RunPrepared(ctx context.Context, m Meta, plan *Prepared) (Result, error) {
	return k.runPlan(ctx, m, plan)
}

func (k *Kernel) runPlan(ctx context.Context, m Meta, plan Plan) (Result, error) {
	p := k.pass(m)
	p.result.Class = MessageClass
	p.take(plan)
	return p.run(ctx, steps[firstOfPlans:])
}

// event is a raw event and who reads it, without the event's type.
type event interface {
	ingest(context.Context) (*Input, error)
	resolve(context.Context, *Input, EventClass, Preflight) (Plan, error)
}

type eventOf[Raw any] struct {
	adapter Adapter[Raw]
	raw     Raw
}

func (e *eventOf[Raw]) ingest(ctx context.Context) (*Input, error) {
	return e.adapter.Ingest(ctx, e.raw)
}

func (e *eventOf[Raw]) resolve(ctx context.Context, in *Input, c EventClass, pf Preflight) (Plan, error) {
	return e.adapter.Resolve(ctx, in, c, pf)
}

package channel

import "context"

// kernelState is what a kernel keeps between turns.
type kernelState struct{}

// Run turns one event into one turn.
func Run[Raw any](ctx context.Context, k *Kernel, ev Event[Raw]) (Result, error) {
	panic("not yet")
}

// Explain says what Run would do with an event, without any effect.
func Explain[Raw any](ctx context.Context, k *Kernel, ev Event[Raw]) (Explanation, error) {
	panic("not yet")
}

// RunAssembled runs a turn that is resolved and owns only its delivery.
func (k *Kernel) RunAssembled(ctx context.Context, m Meta, p *Assembled) (Result, error) {
	panic("not yet")
}

// RunPrepared runs a turn that is resolved and owns its dispatch.
func (k *Kernel) RunPrepared(ctx context.Context, m Meta, p *Prepared) (Result, error) {
	panic("not yet")
}

package turn

import "context"

// save runs save_state, which nothing keeps from running: not the end of ctx, and none of the plugins the others.
func (t *Turn) save(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return each(ctx, t, StageSave, func(h StateSaver) error {
		ctx, cancel := context.WithTimeout(ctx, t.framework.options.SaveTimeout)
		defer cancel()
		return h.SaveState(ctx, &t.outcome)
	})
}

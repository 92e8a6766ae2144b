package turn

import (
	"context"
	"maps"
	"slices"
)

// loadState merges what the plugins know over the seed; later registered ones win.
func (t *Turn) loadState(ctx context.Context) error {
	state := State{KeyWorkspace: t.framework.options.Workspace}
	if t.inbox != nil {
		state[KeySteering] = Inbox(t.inbox)
	}
	t.outcome.State = state
	var loaded []State
	err := each(ctx, t, StageLoad, func(h StateLoader) error {
		s, err := h.LoadState(ctx, t.outcome.Envelope, t.outcome.Session)
		if err == nil {
			loaded = append(loaded, s)
		}
		return err
	})
	for _, s := range slices.Backward(loaded) {
		maps.Copy(state, s)
	}
	return err
}

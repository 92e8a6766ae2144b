package turn

import "context"

// render makes the envelopes. Those that some have made are there though others have failed.
func (t *Turn) render(ctx context.Context) error {
	err := each(ctx, t, StageRender, func(h Renderer) error {
		list, err := h.RenderOutbound(ctx, &t.outcome)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e != nil {
				t.outbound = append(t.outbound, e)
			}
		}
		return nil
	})
	if err == nil && len(t.outbound) == 0 {
		t.outbound = []*Envelope{t.outcome.Envelope.Reply(t.outcome.Output)}
	}
	return err
}

package turn

import (
	"context"
	"log/slog"
)

// dispatch sends the envelopes in their order, also after an error.
func (t *Turn) dispatch(ctx context.Context) error {
	var errs []error
	t.delivered = make([]bool, len(t.outbound))
	for i, e := range t.outbound {
		delivered, err := t.Dispatch(ctx, e)
		t.delivered[i] = delivered
		switch {
		case err != nil:
			errs = append(errs, err)
		case !delivered:
			t.log(ctx, slog.LevelInfo, "reply to an unknown channel", slog.String("channel", orText(e.OutputChannel, e.Channel)))
		}
	}
	return joined(StageDispatch, errs)
}

// Dispatch sends an envelope through dispatch_outbound, in the middle of the turn: every plugin gets it, the errors are joined.
func (t *Turn) Dispatch(ctx context.Context, e *Envelope) (delivered bool, err error) {
	err = each(ctx, t, StageDispatch, func(h Dispatcher) error {
		ok, err := h.DispatchOutbound(ctx, e)
		delivered = delivered || ok
		return err
	})
	return delivered, err
}

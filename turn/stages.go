package turn

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/lingserve/lingserve/tape"
)

// resolve finds the session and writes it into the envelope.
func (t *Turn) resolve(ctx context.Context) error {
	e := t.outcome.Envelope
	id, plugin, _, err := first(ctx, t, StageResolve, t.plugins.resolvers, func(h SessionResolver) (SessionID, bool, error) {
		return h.ResolveSession(ctx, e)
	})
	if err != nil {
		return err
	}
	if id == "" {
		id = orText(e.Channel, "default") + ":" + orText(e.ChatID, "default")
	}
	if err := tape.CheckSession(id); err != nil {
		return &StageError{StageResolve, plugin, &invalidError{err}}
	}
	t.outcome.Session = id
	e.SessionID = id
	return nil
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// loadState merges what the plugins know over the seed; later registered ones win.
func (t *Turn) loadState(ctx context.Context) error {
	state := State{KeyWorkspace: t.framework.options.Workspace}
	if t.inbox != nil {
		state[KeySteering] = Inbox(t.inbox)
	}
	t.outcome.State = state
	loaded := make([]State, 0, len(t.plugins.loaders))
	err := each(ctx, t, StageLoad, t.plugins.loaders, func(h StateLoader) error {
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

func (t *Turn) buildPrompt(ctx context.Context) (err error) {
	t.outcome.Prompt, err = t.BuildPrompt(ctx, t.outcome.Envelope, t.outcome.State)
	return err
}

// save runs save_state, which nothing keeps from running: not the end of ctx, and none of the plugins the others.
func (t *Turn) save(ctx context.Context) error {
	if len(t.plugins.savers) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	return each(ctx, t, StageSave, t.plugins.savers, func(h StateSaver) error {
		ctx, cancel := context.WithTimeout(ctx, t.framework.options.SaveTimeout)
		defer cancel()
		return h.SaveState(ctx, &t.outcome)
	})
}

// render makes the envelopes. Those that some have made are there though others have failed.
func (t *Turn) render(ctx context.Context) error {
	err := each(ctx, t, StageRender, t.plugins.renderers, func(h Renderer) error {
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

// dispatch sends the envelopes in their order, whatever becomes of each.
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
			t.log(ctx, slog.LevelInfo, "nobody has delivered an envelope", slog.String("channel", orText(e.OutputChannel, e.Channel)))
		}
	}
	return joined(StageDispatch, errs)
}

// invalidError makes something the caller's mistake.
type invalidError struct{ error }

func (e *invalidError) ErrorCode() string { return CodeInvalid }
func (e *invalidError) Unwrap() error     { return e.error }

func invalidf(format string, args ...any) error { return &invalidError{fmt.Errorf(format, args...)} }

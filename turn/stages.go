package turn

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/lingserve/lingserve/tape"
)

// resolve finds the session and writes it into the envelope.
func (t *Turn) resolve(ctx context.Context) error {
	e := t.result.Envelope
	id, plugin, _, err := first(ctx, t, StageResolve, func(h SessionResolver) (SessionID, bool, error) {
		return h.ResolveSession(ctx, e)
	})
	if err != nil {
		return err
	}
	if id == "" {
		id = cmp.Or(e.Channel, "default") + ":" + cmp.Or(e.ChatID, "default")
	}
	if err := tape.CheckSession(id); err != nil {
		return &StageError{StageResolve, plugin, Invalid(err)}
	}
	t.result.Session, e.SessionID = id, id
	return nil
}

// loadState merges the states of the plugins over the seed; later registered ones win.
func (t *Turn) loadState(ctx context.Context) error {
	state := State{KeyWorkspace: t.framework.options.Workspace}
	if t.inbox != nil {
		state[KeySteering] = Inbox(t.inbox)
	}
	t.result.State = state
	var loaded []State
	err := each(ctx, t, StageLoad, func(h StateLoader) error {
		s, err := h.LoadState(ctx, t.result.Envelope, t.result.Session)
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

// buildPrompt makes the turn's prompt.
func (t *Turn) buildPrompt(ctx context.Context) (err error) {
	t.result.Prompt, err = t.BuildPrompt(ctx, t.result.Envelope, t.result.State)
	return err
}

// BuildPrompt asks the plugins for the prompt of another envelope of the turn, such as steering.
func (t *Turn) BuildPrompt(ctx context.Context, e *Envelope, s State) (Prompt, error) {
	p, _, _, err := first(ctx, t, StagePrompt, func(h PromptBuilder) (Prompt, bool, error) {
		return h.BuildPrompt(ctx, e, t.result.Session, s)
	})
	if err == nil && p.Empty() {
		p = Prompt{Text: e.Content}
	}
	return p, err
}

// save runs save_state. Neither the end of ctx nor the error of a plugin keeps a plugin from it.
func (t *Turn) save(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return each(ctx, t, StageSave, func(h StateSaver) error {
		ctx, cancel := context.WithTimeout(ctx, saveTimeout)
		defer cancel()
		return h.SaveState(ctx, &t.result.Outcome)
	})
}

// render makes the envelopes. An error of one plugin does not drop those of others.
func (t *Turn) render(ctx context.Context) error {
	err := each(ctx, t, StageRender, func(h Renderer) error {
		list, err := h.RenderOutbound(ctx, &t.result.Outcome)
		if err == nil {
			t.result.Outbound = append(t.result.Outbound, slices.DeleteFunc(slices.Clone(list), func(e *Envelope) bool { return e == nil })...)
		}
		return err
	})
	if err == nil && len(t.result.Outbound) == 0 {
		t.result.Outbound = []*Envelope{t.result.Envelope.Reply(t.result.Output)}
	}
	return err
}

// dispatch sends the envelopes in their order, also after an error.
func (t *Turn) dispatch(ctx context.Context) error {
	var errs []error
	t.result.Deliveries = make([]bool, len(t.result.Outbound))
	for i, e := range t.result.Outbound {
		delivered, err := t.Dispatch(ctx, e)
		t.result.Deliveries[i] = delivered
		switch {
		case err != nil:
			errs = append(errs, err)
		case !delivered:
			t.log(ctx, slog.LevelInfo, "reply to an unknown channel", slog.String("channel", cmp.Or(e.OutputChannel, e.Channel)))
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

package turn

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/lingserve/lingserve/tape"
)

// first asks the hooks one by one until one accepts or fails.
func first[H, V any](ctx context.Context, t *Turn, stage Stage, hooks []Named[H], ask func(H) (V, bool, error)) (v V, plugin string, ok bool, err error) {
	for i := range hooks {
		h := &hooks[i]
		v, ok, err = asked(ctx, t, stage, h, ask)
		if ok || err != nil {
			return v, h.Name, ok, err
		}
	}
	var none V
	return none, "", false, nil
}

// asked calls one hook; its error, or its panic, is the stage's.
func asked[H, V any](ctx context.Context, t *Turn, stage Stage, h *Named[H], ask func(H) (V, bool, error)) (v V, ok bool, err error) {
	var none V
	defer func() {
		if p := recover(); p != nil {
			v, ok, err = none, false, &StageError{stage, h.Name, t.panicked(ctx, stage, h.Name, p)}
		}
	}()
	v, ok, err = ask(h.Hook)
	if err != nil {
		return none, false, &StageError{stage, h.Name, err}
	}
	if !ok {
		return none, false, nil
	}
	return v, true, nil
}

// each calls all hooks, whatever they return. The error of a single one is a [StageError] with its plugin, those of several are
// joined in one.
func each[H any](ctx context.Context, t *Turn, stage Stage, hooks []Named[H], do func(H) error) error {
	var errs []error
	for i := range hooks {
		if err := called(ctx, t, stage, &hooks[i], do); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(stage, errs)
}

func called[H any](ctx context.Context, t *Turn, stage Stage, h *Named[H], do func(H) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &StageError{stage, h.Name, t.panicked(ctx, stage, h.Name, p)}
		}
	}()
	if err := do(h.Hook); err != nil {
		return &StageError{stage, h.Name, err}
	}
	return nil
}

func joined(stage Stage, errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &StageError{Stage: stage, Err: errors.Join(errs...)}
}

// panicked makes an error of a panic that was recovered. It is called by the deferred function, so that the stack is still there.
func (t *Turn) panicked(ctx context.Context, stage Stage, plugin string, value any) *PanicError {
	t.log(ctx, slog.LevelError, "panic in a hook", slog.String("stage", string(stage)), slog.String("plugin", plugin),
		slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
	return &PanicError{value}
}

// provide asks a plugin for its store, outside of any turn.
func (f *Framework) provide(ctx context.Context, p *Named[StoreProvider]) (tape.Store, bool, error) {
	return asked(ctx, f.newTurn(nil), StageStore, p, func(h StoreProvider) (tape.Store, bool, error) { return h.ProvideTapeStore(ctx) })
}

package turn

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// first calls the hooks of type H one by one until one accepts or fails.
func first[H, V any](ctx context.Context, t *Turn, stage Stage, call func(H) (V, bool, error)) (v V, plugin string, ok bool, err error) {
	for _, p := range t.plugins.all {
		h, has := p.Hook.(H)
		if !has {
			continue
		}
		if v, ok, err = guarded(ctx, t, stage, p.Name, func() (V, bool, error) { return call(h) }); ok || err != nil {
			return v, p.Name, ok, err
		}
	}
	var none V
	return none, "", false, nil
}

// each calls all hooks of type H, also after an error. The error of a single one is a [StageError] with its plugin, those of
// several are joined in one.
func each[H any](ctx context.Context, t *Turn, stage Stage, call func(H) error) error {
	var errs []error
	for _, p := range t.plugins.all {
		h, has := p.Hook.(H)
		if !has {
			continue
		}
		if _, _, err := guarded(ctx, t, stage, p.Name, func() (any, bool, error) { return nil, false, call(h) }); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(stage, errs)
}

// guarded calls one hook. Its error, or its panic, becomes a [StageError].
func guarded[V any](ctx context.Context, t *Turn, stage Stage, plugin string, call func() (V, bool, error)) (v V, ok bool, err error) {
	var none V
	defer func() {
		if p := recover(); p != nil {
			v, ok, err = none, false, &StageError{stage, plugin, t.panicked(ctx, stage, plugin, p)}
		}
	}()
	v, ok, err = call()
	if err != nil {
		return none, false, &StageError{stage, plugin, err}
	}
	if !ok {
		return none, false, nil
	}
	return v, true, nil
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

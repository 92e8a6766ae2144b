package turn

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// first calls the hooks of type H one by one until one accepts or fails.
func first[H, V any](ctx context.Context, t *Turn, stage Stage, call func(H) (V, bool, error)) (v V, plugin string, ok bool, err error) {
	var none V
	for _, p := range t.plugins {
		h, has := p.Hook.(H)
		if !has {
			continue
		}
		err = t.guard(ctx, stage, p.Name, func() (err error) {
			v, ok, err = call(h)
			return err
		})
		switch {
		case err != nil:
			return none, p.Name, false, err
		case ok:
			return v, p.Name, true, nil
		}
	}
	return none, "", false, nil
}

// each calls all hooks of type H, also after an error. The error of a single one is a [StageError] with its plugin, those of
// several are joined in one.
func each[H any](ctx context.Context, t *Turn, stage Stage, call func(H) error) error {
	var errs []error
	for _, p := range t.plugins {
		if h, has := p.Hook.(H); has {
			if err := t.guard(ctx, stage, p.Name, func() error { return call(h) }); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return joined(stage, errs)
}

// guard calls a hook. Its error, or its panic, becomes a [StageError].
func (t *Turn) guard(ctx context.Context, stage Stage, plugin string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked(ctx, stage, plugin, p)
		}
		if err != nil {
			err = &StageError{stage, plugin, err}
		}
	}()
	return call()
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

// pluginsWith returns the plugins that implement H.
func pluginsWith[H any](all []Named[any]) []Named[H] {
	var list []Named[H]
	for _, p := range all {
		if h, ok := p.Hook.(H); ok {
			list = append(list, Named[H]{p.Name, h})
		}
	}
	return list
}

func implements[H any](plugin any) bool { _, ok := plugin.(H); return ok }

// hasHook reports whether a plugin implements a hook: of this package, or a declared one. f.mu is held.
func (f *Framework) hasHook(plugin any) bool {
	switch plugin.(type) {
	case SessionResolver, StateLoader, PromptBuilder, ModelRunner, ModelStreamer, StateSaver, Renderer, Dispatcher, ErrorObserver, SystemPrompter,
		StoreProvider, ContextBuilder, Asider:
		return true
	}
	for _, is := range f.declared {
		if is(plugin) {
			return true
		}
	}
	return false
}

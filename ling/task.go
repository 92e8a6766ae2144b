package ling

import "context"

// Task is [Manager.Go] for a task that gives a value: it starts the task and returns a function that waits for its end, or that of ctx,
// and returns what it gave. It may be called any number of times, but not by the task itself. Where the task cannot be started, the error
// of Manager.Go is what the function returns.
func Task[T any](m *Manager, task func(context.Context) (T, error)) func(ctx context.Context) (T, error) {
	var value T
	done := make(chan struct{})
	failure := ErrEnded // also where the task leaves without returning
	if err := m.Go(func(ctx context.Context) error {
		defer close(done)
		failure = m.try(ctx, func(ctx context.Context) (err error) {
			value, err = task(ctx)
			return err
		})
		return failure
	}); err != nil {
		failure = err
		close(done)
	}
	return func(ctx context.Context) (T, error) {
		select {
		case <-done:
			return value, failure
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
}

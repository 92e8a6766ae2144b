package channel

import "context"

// Exclusive lets one of several processes do what one alone may do, such as asking a platform for the events of an account.
type Exclusive interface {
	// Only waits until this process is the one for what has a name; an error is that of ctx, or that the others cannot be asked any more. alone
	// ends with ctx, and when another process may be the one. The caller ends what it does then, and calls release.
	Only(ctx context.Context, name string) (alone context.Context, release func(), err error)
}

package platform

import (
	"context"
	"errors"
	"net"
	"net/url"
)

// Unreached is an attempt whose connection was refused, or that was not begun: nothing of it was sent.
type Unreached struct{ Err error }

func (u *Unreached) Error() string { return "cannot connect to the platform: " + u.Err.Error() }

// Unwrap is why.
func (u *Unreached) Unwrap() error { return u.Err }

// Bare is the error of a transport without the address, which may have a secret in it. It is an [*Unreached] where there was no
// connection; else, where the call has ended with ctx, the cause of that.
func Bare(ctx context.Context, err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &Unreached{err}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &Unreached{err}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

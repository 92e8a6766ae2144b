//go:build !unix

package cli

// Resized implements [Terminal]: this system does not tell.
func (tty) Resized() (changed <-chan struct{}, stop func()) { return nil, func() {} }

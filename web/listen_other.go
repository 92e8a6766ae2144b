//go:build !linux

package web

// setSocket leaves the sockets of other systems as they are: write deadlines and keep-alive do the work there.
func setSocket(uintptr) error { return nil }

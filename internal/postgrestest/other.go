//go:build !unix

package postgrestest

// Start starts a server.
func Start(...string) (*Server, error) { return nil, ErrMissing }

// Stop ends the server and removes what it had.
func (*Server) Stop() error { return nil }

// Kill ends the server in the middle of what it does.
func (*Server) Kill() error { return ErrMissing }

// Restart starts it again.
func (*Server) Restart() error { return ErrMissing }

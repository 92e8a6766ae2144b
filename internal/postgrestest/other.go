//go:build !unix

package postgrestest

// Start starts a server.
func Start(...string) (*Server, error) { return nil, ErrMissing }

// StartWith starts a server.
func StartWith(Options) (*Server, error) { return nil, ErrMissing }

// Stop ends the server and removes what it had.
func (*Server) Stop() error { return nil }

// Kill ends the server in the middle of what it does.
func (*Server) Kill() error { return ErrMissing }

// CrashOne kills one of its processes.
func (*Server) CrashOne() error { return ErrMissing }

// Shutdown ends the server in order.
func (*Server) Shutdown() error { return ErrMissing }

// Pause stops the server where it is; Resume lets it go on.
func (*Server) Pause() error  { return ErrMissing }
func (*Server) Resume() error { return ErrMissing }

// Restart starts it again.
func (*Server) Restart() error { return ErrMissing }

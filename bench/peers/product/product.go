// Package product builds and runs the server as people run it, for the programs in bench/peers whose clients talk to it.
package product

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// patience is how long the server may take to be ready, or to end.
const patience = 20 * time.Second

// Build builds the server into dir and returns the program's path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "lingserve")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/lingserve/lingserve/cmd/server")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return path, cmd.Run()
}

// Server is one that runs.
type Server struct {
	URL  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error
}

// Start starts the program with this configuration, in a new folder below dir, and returns when it is ready. What it logs goes to a
// file there, serve.log. Nothing of the environment that it looks at is handed on.
func Start(ctx context.Context, program, dir, config string, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp(dir, "serve")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "serve.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	address, err := free()
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + address, done: make(chan struct{})}
	s.cmd = exec.Command(program, append([]string{"serve", "--addr", address}, args...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the program, which Stop ends
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it is not ready"))
	defer cancel()
	for {
		resp, err := http.Get(s.URL + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		select {
		case <-s.done:
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the server ended: %w\n%s", s.err, text)
		case <-ctx.Done():
			_ = s.Stop()
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// free is an address of this machine that nobody listens on.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Drain asks the server to end, and does not wait for that.
func (s *Server) Drain() error { return s.cmd.Process.Signal(syscall.SIGTERM) }

// Wait waits until the server has ended, and says whether that was well.
func (s *Server) Wait() error {
	select {
	case <-s.done:
		return s.err
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.done
		return errors.New("the server does not end")
	}
}

// Stop ends the server.
func (s *Server) Stop() error {
	if err := s.Drain(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.Wait()
}

// Package postgrestest starts PostgreSQL servers for tests, where the machine has the programs for it: those of Debian's package
// postgresql are found, others by PATH.
package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// ErrMissing is the error where PostgreSQL is not installed, and outside "make nightly". Tests are skipped then.
var ErrMissing = errors.New("PostgreSQL is tested by make nightly, where it is installed (Debian: apt-get install postgresql)")

// Options of a server.
type Options struct {
	Settings []string // of the server, as name=value
	Listen   string   // host and port for clients in the networks of this machine; "": clients use its socket
	By       []string // a command that starts it, such as one that enters a network namespace; it takes root
}

// Server is a server of its own in a temporary folder. It can be reached by a socket in that folder, and where it is told to listen. It syncs
// as one does that people use. It ends with the process that started it, however that ends.
type Server struct {
	dir   string
	bin   string
	o     Options
	run   *exec.Cmd
	alive *os.File // the server ends when nobody holds the other end
	held  *os.File // at its end when all processes of the server have ended
}

// Run starts a server for a test and stops it when the test ends. It skips the test if the machine has no PostgreSQL. The server does not sync:
// no test ends the machine.
func Run(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(append(settings, "fsync=off")...)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var shared struct {
	sync.Once
	server *Server
	err    error
}

// Shared returns the server that the tests of a package share. Each test uses a schema that no other test has. The package's TestMain calls
// [Main]. Shared skips the test if the machine has no PostgreSQL.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Do(func() { shared.server, shared.err = Start("fsync=off") })
	if errors.Is(shared.err, ErrMissing) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package for its TestMain, and stops the server of [Shared] after them. It returns the code to exit with.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// User and Database are those of the tests.
const (
	User     = "lingserve"
	Database = "postgres"
)

// URL is where the server is.
func (s *Server) URL() string {
	if s.o.Listen != "" {
		return "postgres://" + User + "@" + s.o.Listen + "/" + Database + "?sslmode=disable"
	}
	return "postgres://" + User + "@/" + Database + "?host=" + s.dir
}

// Socket is the file of its socket.
func (s *Server) Socket() string {
	_, port, found := strings.Cut(s.o.Listen, ":")
	if !found {
		port = "5432"
	}
	return filepath.Join(s.dir, ".s.PGSQL."+port)
}

// binaries is the folder of the server's programs.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	newest, version := "", -1
	for _, path := range found {
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))); err == nil && n > version {
			newest, version = filepath.Dir(path), n
		}
	}
	if newest == "" {
		return "", ErrMissing
	}
	return newest, nil
}

// said is what a program has said, on one line.
func said(out []byte) string {
	text := strings.Join(strings.Fields(string(out)), " ")
	return text[max(0, len(text)-500):]
}

// StartFor starts a server for a test, which it stops at the test's end. The test is skipped where there is no PostgreSQL.
func StartFor(t testing.TB) *Server {
	t.Helper()
	s, err := Start("fsync=off")
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

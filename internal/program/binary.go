package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// server is the package that the program is made of.
const server = "github.com/lingserve/lingserve/cmd/server"

// Binary is the server's program. The zero value is one that is built when it is first asked for.
type Binary struct {
	// Given is the path of a program that is there already, which is run instead of one that is built.
	Given string

	mu     sync.Mutex
	done   bool
	folder string // holds what was built
	path   string
	err    error
}

// Path is the program's path. The first call builds it, unless one is given; what comes of that is the answer to all calls. The
// command go is run in the folder of this process, which must be in the module.
func (b *Binary) Path(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return b.path, b.err
	}
	b.done = true
	if b.Given != "" {
		// Servers run in folders of their own.
		if b.path, b.err = filepath.Abs(b.Given); b.err == nil {
			_, b.err = os.Stat(b.path)
		}
		return b.path, b.err
	}
	if b.folder, b.err = os.MkdirTemp("", "lingserve-program-"); b.err == nil {
		b.path = filepath.Join(b.folder, name())
		b.err = Build(ctx, b.path)
	}
	return b.path, b.err
}

// Close removes what was built.
func (b *Binary) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.folder == "" {
		return nil
	}
	folder := b.folder
	b.folder, b.path, b.done, b.err = "", "", true, errors.New("program: the binary is closed")
	return os.RemoveAll(folder)
}

// name is what the program's file is called, so that this system runs it.
func name() string {
	if runtime.GOOS == "windows" {
		return "lingserve.exe"
	}
	return "lingserve"
}

// Build builds the program into a file, with more flags of "go build". Of the version it says nothing, which would be another
// program after each commit.
func Build(ctx context.Context, file string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", file, server)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

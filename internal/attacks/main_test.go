package attacks

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var programPath = flag.String("program", "", "attack this program instead of one that is built first")

// patience is how long a test waits for what must happen. It is long, since it only matters when something is wrong.
const patience = 30 * time.Second

// built is the program under attack, and the folder that it is in.
var built struct {
	sync.Once
	folder, path string
	err          error
}

// program builds the server once, as "make build" does, whose compiled packages are used again.
func program(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if *programPath != "" {
			built.path, built.err = filepath.Abs(*programPath)
			return
		}
		if built.folder, built.err = os.MkdirTemp("", "lingserve-attacks-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.folder, "lingserve.exe") // which every system runs
		build := exec.Command("go", "build", "-buildvcs=false", "-o", built.path, "../../cmd/server")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(out))
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, "the server that the tests have attacked:", err)
		code = 1
	}
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

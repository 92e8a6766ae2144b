//go:build nightly

package attacks

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/internal/program"
)

// binary is the program under attack.
var binary program.Binary

func init() {
	flag.StringVar(&binary.Given, "program", "", "attack this program instead of one that is built first")
}

// binaryPath is where it is.
func binaryPath(t testing.TB) string {
	t.Helper()
	path, err := binary.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, "the server that the tests have attacked:", err)
		code = 1
	}
	if err := binary.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

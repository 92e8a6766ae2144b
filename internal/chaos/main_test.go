//go:build nightly && unix

package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

var (
	sessions = flag.Int("sessions", 0, "how many sessions there are at least in the long form; without it, there is the short form only")
	seed     = flag.Uint64("seed", 0, "what the sessions follow from; 0 is another one each time")
	duration = flag.Duration("for", 0, "how long the long form goes on at least")
	at       = flag.Int("at-once", 60, "sessions at once in the long form")
	verbose  = flag.Bool("faults", false, "print each fault when it happens")
)

// binary is the program, as users have it.
var binary program.Binary

func TestMain(m *testing.M) {
	flag.StringVar(&binary.Given, "program", "", "the server's program; where none is named it is built")
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	code := m.Run()
	if err := binary.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

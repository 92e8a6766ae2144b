//go:build nightly && unix

package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/program"
)

// binary is the program that is tested.
var binary program.Binary

var soakTime = flag.Duration("soak", 0, "run everything at once for that long, and all other tests with larger numbers")

func TestMain(m *testing.M) {
	flag.StringVar(&binary.Given, "program", "", "the server's program; without it, the program is built")
	flag.Parse()
	if text := os.Getenv(readerEnv); text != "" {
		os.Exit(followAsChild(text))
	}
	longtest.Parallel(8) // most of a test is waiting
	code := m.Run()
	if err := binary.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// size returns a number for the short form or for -soak.
func size(short, soak int) int {
	if *soakTime > 0 {
		return soak
	}
	return short
}

// parallel lets a short test run beside others. With -soak each has the machine for itself, so that its figures are its own.
func parallel(t *testing.T) {
	if *soakTime == 0 {
		t.Parallel()
	}
}

// eventually waits for what another goroutine or process does, until the deadline of the tests.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for began, told := time.Now(), false; !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute && !told {
			t.Log("still waiting:", what)
			told = true
		}
	}
}

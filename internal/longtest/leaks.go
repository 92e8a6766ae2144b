package longtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, for TestMain, and fails it where they have left goroutines that do not end by themselves. On a busy
// machine one takes longer to end than goleak waits.
func Main(m *testing.M, ignored ...goleak.Option) { Run(m.Run, ignored...) }

// Run is Main for a package that does more than to run its tests. run returns the code of its exit.
func Run(run func() int, ignored ...goleak.Option) {
	code := run()
	if code == 0 {
		if err := leaks(busy, ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "the tests have passed, and left goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks looks for goroutines until there are none, or the time is over.
func leaks(within time.Duration, ignored ...goleak.Option) error {
	for end := time.Now().Add(within); ; {
		err := goleak.Find(ignored...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

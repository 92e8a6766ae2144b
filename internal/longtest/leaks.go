package longtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, for TestMain, and fails it if they left goroutines that do not end.
func Main(m *testing.M, ignored ...goleak.Option) { Run(m.Run, ignored...) }

// Run is Main for a package that does more than run its tests. run returns the code of its exit.
func Run(run func() int, ignored ...goleak.Option) {
	code := run()
	if code == 0 {
		if err := leaks(5*time.Minute, ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "the tests have passed, and left goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks returns an error if there are goroutines that do not end within the given time. A goroutine that ends late on a busy machine is
// no leak.
func leaks(within time.Duration, ignored ...goleak.Option) error {
	for end := time.Now().Add(within); ; {
		err := goleak.Find(ignored...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

//go:build nightly

package faults

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	soakTime  = flag.Duration("soak", 0, "how long everything is mixed; without it, a fixed small number of runs is")
	burstSize = flag.Int("burst", 0, "how many clients come at once; without it, 2000 with -soak and 400 without")
)

func TestMain(m *testing.M) {
	if os.Getenv(restrictEnv) != "" {
		os.Exit(restrictedChild())
	}
	flag.Parse()
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	if os.Getenv(turnsEnv) != "" {
		os.Exit(turnsChild())
	}
	if os.Getenv(readerEnv) != "" {
		os.Exit(readerChild())
	}
	flag.Set("test.parallel", "8") // what is parallel here waits, most of its time
	code := m.Run()
	if *soakTime > 0 {
		printSeen(os.Stdout)
	}
	for _, do := range atExit {
		do()
	}
	os.Exit(code)
}

// atExit is what is to be done behind all tests.
var atExit []func()

// patience is how long a test waits for what must happen. It is long, since it only matters when something is wrong.
const patience = time.Hour

package faults

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	soakTime  = flag.Duration("soak", 0, "how long everything is mixed; without it, a fixed small number of runs is")
	burstSize = flag.Int("burst", 2000, "how many clients come at once")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	if os.Getenv(turnsEnv) != "" {
		os.Exit(turnsChild())
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen. It is long, since it only matters when something is wrong.
const patience = 2 * time.Minute

package longtest

import (
	"testing"
	"time"
)

// Wait calls done until it returns true. It fails the test shortly before the deadline of the test's binary, and has no shorter bound: how long
// another process or goroutine takes says something about the machine, not about the product.
func Wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(Patience(t))
	for pause := time.Millisecond; !done(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(pause)
	}
}

// Patience returns how long a test may wait for something that must happen: until ten seconds before the deadline of its binary, so that
// the failure says what it was waiting for.
func Patience(t testing.TB) time.Duration {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			return max(time.Until(deadline)-10*time.Second, time.Second)
		}
	}
	return time.Hour
}

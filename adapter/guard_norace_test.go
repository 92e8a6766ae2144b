//go:build !race

package adapter

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// DO-01: an answer that comes as fast as it is read lets other goroutines run between its chunks, so that a health check is not behind
// hundreds of such answers.
// The race detector does not bear a change of GOMAXPROCS.
func TestAFastAnswerLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran atomic.Bool
	go ran.Store(true)
	chunks := 0
	for _, err := range (&guarded{Registry: new(Registry), model: endless{text("a"), 4 * yieldEvery}, timeouts: Timeouts{FirstToken: -1, Idle: -1, Total: -1}}).Stream(t.Context(), Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		if chunks++; ran.Load() {
			break
		}
	}
	if !ran.Load() {
		t.Errorf("no other goroutine ran during %d chunks; expected one after %d at the latest", chunks, yieldEvery)
	}
}

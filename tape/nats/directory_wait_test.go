package nats

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// CL-13: a replica that has just come may take longer to learn of all sessions than servers may take to answer. It waits as long as it
// learns of more, and no longer.
func TestAListingWaitsAsLongAsSessionsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d directory
		d.s = &Store{waits: defaultWaits}
		const all = 10
		go func() {
			for range all {
				time.Sleep(defaultWaits.patience / 2)
				d.mu.Lock()
				d.position++
				d.tell()
				d.mu.Unlock()
			}
		}()
		began := time.Now()
		if err := d.wait(t.Context(), func() bool { return d.position == all }); err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		err := d.wait(t.Context(), func() bool { return d.position > all })
		if away, ok := errors.AsType[*Error](err); !ok || time.Since(began) != defaultWaits.patience {
			t.Errorf("nothing comes: after %v, %v", time.Since(began), away)
		}
	})
}

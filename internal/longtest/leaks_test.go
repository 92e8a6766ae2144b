package longtest

import (
	"testing"
	"time"
)

func TestLateGoroutineIsNoLeak(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	if err := leaks(0); err == nil {
		t.Error("one that stays is not found")
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := leaks(time.Minute); err != nil {
		t.Error(err)
	}
}

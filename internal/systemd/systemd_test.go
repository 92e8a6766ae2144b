package systemd_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/internal/systemd"
	"github.com/lingserve/lingserve/internal/systemd/systemdtest"
)

func TestWithoutAServiceManagerNothingIsSent(t *testing.T) {
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "none")} {
		t.Setenv("NOTIFY_SOCKET", socket)
		systemd.Ready("x")
	}
	for _, period := range []string{"", "soon", "-1"} {
		t.Setenv("WATCHDOG_USEC", period)
		systemd.Watch(t.Context(), nil) // ends at once
	}
}

func TestTheWatchdogIsNotifiedOnlyWhileTheServerAnswers(t *testing.T) {
	path, next := systemdtest.Listen(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.Itoa(2000))
	t.Setenv("WATCHDOG_PID", "")
	var status atomic.Int32
	status.Store(http.StatusOK)
	requests := make(chan struct{}, 100)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || r.Host != "127.0.0.1" {
			t.Errorf("it requests %s of %s", r.URL, r.Host)
		}
		w.WriteHeader(int(status.Load()))
		requests <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { systemd.Watch(ctx, h) })
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("it sends %q", got)
		}
	}
	status.Store(http.StatusInternalServerError)
	for range len(requests) + 2 { // at the second of these, it has the answer to the first
		<-requests
	}
	systemd.Ready("mark")
	for next() != "READY=1\nSTATUS=serving mark" { // what was sent before
	}
	for range 3 {
		<-requests
	}
	cancel()
	wg.Wait()
	systemd.Ready("end")
	if got := next(); got != "READY=1\nSTATUS=serving end" {
		t.Errorf("for a server that does not answer, it sends %q", got)
	}
}

// Package systemd reports the state of the server to systemd. Without systemd, it does nothing.
package systemd

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/lingserve/lingserve/internal/backoff"
)

// notify sends variables. An error is ignored: the server works without a service manager.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// Ready reports that the server serves an address.
func Ready(addr string) { notify(daemon.SdNotifyReady + "\nSTATUS=serving " + addr) }

// Stopping reports that the server shuts down, which takes at most grace and some seconds.
func Stopping(grace time.Duration) {
	notify(fmt.Sprintf("%s\nSTATUS=letting running work end\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (grace + 10*time.Second).Microseconds()))
}

// Watch notifies the watchdog until ctx ends, twice per period, while h answers /healthz with 200. It calls h without a connection: an
// overloaded server may have no free one, and must not be restarted for that.
func Watch(ctx context.Context, h http.Handler) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	for ctx.Err() == nil {
		if isHealthy(ctx, h) {
			notify(daemon.SdNotifyWatchdog)
		}
		_ = backoff.Sleep(ctx, period/2)
	}
}

func isHealthy(ctx context.Context, h http.Handler) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/healthz", http.NoBody)
	if err != nil {
		return false
	}
	r.RequestURI, r.RemoteAddr = "/healthz", "127.0.0.1:1"
	w := response{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(&w, r)
	return w.status == http.StatusOK
}

// response keeps the status of a response, and drops its body.
type response struct {
	header http.Header
	status int
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return len(p), nil }

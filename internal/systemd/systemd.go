// Package systemd reports the state of a program to systemd, by the datagrams of sd_notify(3).
package systemd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Supervisor is the service manager that started this program. Without one, its methods do nothing.
type Supervisor struct {
	socket string
	every  time.Duration // a sign of life is expected this often; 0 is never
}

// New finds the service manager in the environment. The watchdog may be meant for another process.
func New(environ func(string) string) Supervisor {
	s := Supervisor{socket: environ("NOTIFY_SOCKET")}
	if name, ok := strings.CutPrefix(s.socket, "@"); ok { // a name that is in no file system
		s.socket = "\x00" + name
	}
	usec, err := strconv.ParseInt(environ("WATCHDOG_USEC"), 10, 64)
	if pid := environ("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.every = time.Duration(usec) * time.Microsecond
	}
	return s
}

// tell sends variables, as "READY=1". Nobody who listens is no error: the server serves all the same.
func (s Supervisor) tell(state ...string) {
	if s.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // systemd reads at once, and nobody waits for one that does not
	_, _ = conn.Write([]byte(strings.Join(state, "\n")))
}

// Ready says that the program serves an address.
func (s Supervisor) Ready(addr string) { s.tell("READY=1", "STATUS=serving "+addr) }

// Stopping says that the program is shutting down, and how long that may take.
func (s Supervisor) Stopping(grace time.Duration) {
	s.tell("STOPPING=1", "STATUS=letting running work end", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (grace+10*time.Second).Microseconds()))
}

// Watch reports to the watchdog until ctx ends, twice per period, while h answers /healthz with 200. It calls h without a connection: an
// overloaded server may have no free connection, and must not be restarted for that.
func (s Supervisor) Watch(ctx context.Context, h http.Handler) {
	if s.socket == "" || s.every == 0 {
		return
	}
	tick := time.NewTicker(s.every / 2)
	defer tick.Stop()
	for {
		if lives(ctx, h) {
			s.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func lives(ctx context.Context, h http.Handler) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/healthz", http.NoBody)
	if err != nil {
		return false
	}
	r.RequestURI, r.RemoteAddr = "/healthz", "127.0.0.1:1"
	var w answer
	h.ServeHTTP(&w, r)
	return w.status == http.StatusOK
}

// answer is a response of which only the status matters.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return len(p), nil
}

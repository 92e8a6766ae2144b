package main

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

// supervisor is who has started the server and wants to hear how it is: systemd, by the datagrams that sd_notify(3) describes. Without
// one, nothing is said.
type supervisor struct {
	socket string
	every  time.Duration // a sign of life is expected this often; 0 is never
}

// newSupervisor looks into the environment. What is said of the watchdog may be meant for another process.
func newSupervisor(environ func(string) string) supervisor {
	s := supervisor{socket: environ("NOTIFY_SOCKET")}
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
func (s supervisor) tell(state ...string) {
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

func (s supervisor) ready(addr string) { s.tell("READY=1", "STATUS=serving "+addr) }

// stopping says that the end has begun, and how long it may take.
func (s supervisor) stopping(grace time.Duration) {
	s.tell("STOPPING=1", "STATUS=letting running work end", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (grace+10*time.Second).Microseconds()))
}

// watch gives signs of life until ctx ends, twice in the time in which one is expected: only while the server answers. It is asked
// without a connection, of which an overloaded server may have none to give, and that is no reason to end it.
func (s supervisor) watch(ctx context.Context, h http.Handler) {
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

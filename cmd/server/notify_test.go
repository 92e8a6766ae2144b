package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listenAsSystemd opens the socket that systemd would, and returns what reads the next datagram.
func listenAsSystemd(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("this system has no such sockets: %v", err)
	}
	// It reads at once, as systemd does: the system takes few datagrams that nobody has read, and the server gives up those beyond.
	said := make(chan string, 1<<16)
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			said <- string(b[:n])
		}
	})
	t.Cleanup(func() {
		conn.Close()
		reading.Wait()
		os.RemoveAll(dir)
	})
	return path, func() string {
		t.Helper()
		select {
		case one := <-said:
			return one
		case <-time.After(patient):
			t.Fatal("nothing is said")
			return ""
		}
	}
}

func TestTheSupervisorIsFoundInTheEnvironment(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, tc := range []struct {
		name    string
		environ map[string]string
		want    supervisor
	}{
		{"none", nil, supervisor{}},
		{"a socket", map[string]string{"NOTIFY_SOCKET": "/run/n"}, supervisor{socket: "/run/n"}},
		{"a socket without a file", map[string]string{"NOTIFY_SOCKET": "@n"}, supervisor{socket: "\x00n"}},
		{"a watchdog", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": pid}, supervisor{"/run/n", 2 * time.Second}},
		{"a watchdog of somebody", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000"}, supervisor{"/run/n", 2 * time.Second}},
		{"another's watchdog", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1" + pid}, supervisor{socket: "/run/n"}},
		{"no time", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"}, supervisor{socket: "/run/n"}},
		{"a time that has passed", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "-1"}, supervisor{socket: "/run/n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := newSupervisor(func(name string) string { return tc.environ[name] })
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(supervisor{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASupervisorThatIsNotThereHarmsNothing(t *testing.T) {
	supervisor{}.ready("x")
	supervisor{socket: filepath.Join(t.TempDir(), "none")}.ready("x")
	supervisor{}.watch(t.Context(), nil) // ends at once
}

func TestSignsOfLifeComeOnlyWhileTheServerAnswers(t *testing.T) {
	path, next := listenAsSystemd(t)
	var status atomic.Int32
	status.Store(http.StatusOK)
	asked := make(chan struct{}, 100)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || r.Host != "127.0.0.1" {
			t.Errorf("it asks for %s of %s", r.URL, r.Host)
		}
		w.WriteHeader(int(status.Load()))
		asked <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { supervisor{path, 2 * time.Millisecond}.watch(ctx, h) })
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("it says %q", got)
		}
	}
	status.Store(http.StatusInternalServerError)
	for range len(asked) + 2 { // at the second of these it has had its answer to the first
		<-asked
	}
	supervisor{socket: path}.tell("MARK")
	for next() != "MARK" { // what was said before
	}
	for range 3 {
		<-asked
	}
	cancel()
	wg.Wait()
	supervisor{socket: path}.tell("END")
	if got := next(); got != "END" {
		t.Errorf("a server that does not answer says %q", got)
	}
}

func TestSystemdIsToldOfTheStartAndTheEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no systemd")
	}
	path, next := listenAsSystemd(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "100000")
	p := startServer(t)
	if got, want := next(), "READY=1\nSTATUS=serving "+p.base; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("it says %q", got)
	}
	p.signal(os.Interrupt)
	got := next()
	for got == "WATCHDOG=1" {
		got = next()
	}
	if !strings.HasPrefix(got, "STOPPING=1\n") || !strings.Contains(got, "\nEXTEND_TIMEOUT_USEC=30000000") {
		t.Errorf("it says %q", got)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

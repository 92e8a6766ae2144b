package systemd

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/systemd/systemdtest"
)

func TestTheSupervisorIsFoundInTheEnvironment(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, tc := range []struct {
		name    string
		environ map[string]string
		want    Supervisor
	}{
		{"none", nil, Supervisor{}},
		{"a socket", map[string]string{"NOTIFY_SOCKET": "/run/n"}, Supervisor{socket: "/run/n"}},
		{"a socket without a file", map[string]string{"NOTIFY_SOCKET": "@n"}, Supervisor{socket: "\x00n"}},
		{"a watchdog", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": pid}, Supervisor{"/run/n", 2 * time.Second}},
		{"a watchdog of somebody", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000"}, Supervisor{"/run/n", 2 * time.Second}},
		{"another's watchdog", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1" + pid}, Supervisor{socket: "/run/n"}},
		{"no time", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"}, Supervisor{socket: "/run/n"}},
		{"a time that has passed", map[string]string{"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "-1"}, Supervisor{socket: "/run/n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := New(func(name string) string { return tc.environ[name] })
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(Supervisor{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASupervisorThatIsNotThereHarmsNothing(t *testing.T) {
	Supervisor{}.Ready("x")
	Supervisor{socket: filepath.Join(t.TempDir(), "none")}.Ready("x")
	Supervisor{}.Watch(t.Context(), nil) // ends at once
}

func TestSignsOfLifeComeOnlyWhileTheServerAnswers(t *testing.T) {
	path, next := systemdtest.Listen(t)
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
	wg.Go(func() { Supervisor{path, 2 * time.Millisecond}.Watch(ctx, h) })
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("it says %q", got)
		}
	}
	status.Store(http.StatusInternalServerError)
	for range len(asked) + 2 { // at the second of these it has had its answer to the first
		<-asked
	}
	Supervisor{socket: path}.tell("MARK")
	for next() != "MARK" { // what was said before
	}
	for range 3 {
		<-asked
	}
	cancel()
	wg.Wait()
	Supervisor{socket: path}.tell("END")
	if got := next(); got != "END" {
		t.Errorf("a server that does not answer says %q", got)
	}
}

//go:build unix

package fleet

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFleetThatCannotBeIsRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"several replicas without a database": {Replicas: 2},
		"no replicas":                         {Database: "postgres://x/y"},
	} {
		o.Dir = t.TempDir()
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "fleet: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What haproxy thinks of its configuration, where it is installed.
func TestTheBalancersConfigurationIsOne(t *testing.T) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip(ErrNoBalancer)
	}
	f, err := New(Options{Dir: t.TempDir(), Database: "postgres://x/y", Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(f.balancing("127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "-c", "-q", "-f", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Where another one listens already, haproxy would share its connections.
func TestTheBalancerTakesNoAddressOfAnotherOne(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip(ErrNoBalancer)
	}
	f, err := New(Options{Dir: t.TempDir(), Database: "postgres://x/y", Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	first, err := f.Balance(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	address := strings.TrimPrefix(first.URL, "http://")
	second, err := f.Balance(t.Context(), t.TempDir(), address)
	if err == nil {
		second.Close()
		t.Fatal("two listen at the same address")
	}
	if !strings.Contains(err.Error(), address) {
		t.Errorf("it does not say where: %v", err)
	}
}

// While the database is away, no replica is ready, and each says so better than a balancer can.
func TestTheBalancerAsksReplicasThatAreNotReadyWhereNoOtherIs(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip(ErrNoBalancer)
	}
	f, err := New(Options{Dir: t.TempDir(), Database: "postgres://x/y", Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", f.Replicas[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	})}}
	s.Start()
	defer s.Close()
	b, err := f.Balance(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 3 { // one check more than it takes to find out
		<-asked
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		req, err := http.NewRequestWithContext(t.Context(), method, b.URL+"/v1/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: %s, Retry-After %q", method, resp.Status, resp.Header.Get("Retry-After"))
		}
	}
}

//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// ErrNoBalancer says that haproxy is not installed.
var ErrNoBalancer = errors.New("haproxy is not installed (Debian: apt-get install haproxy)")

// endWait is how long a balancer may take to end.
const endWait = time.Minute

// Free says whether nobody listens at an address, host and port. haproxy does not: where another one is there, both get connections.
func Free(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the load balancer cannot have the address %s: %w", address, err)
	}
	return l.Close()
}

// Balancer is a haproxy in front of the replicas. It needs to know nothing of runs and sessions: any replica serves any of them.
type Balancer struct {
	URL    string // scheme, host and port
	Config string // path of its configuration

	cmd   *exec.Cmd
	ended chan struct{}
}

// Balance starts a balancer with its configuration in a folder, at an address or, where that is empty, at one that is free. It returns
// when the balancer takes connections.
func (f *Fleet) Balance(ctx context.Context, dir, address string) (*Balancer, error) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy" // which is not where everybody's PATH looks
		if _, err := os.Stat(path); err != nil {
			return nil, ErrNoBalancer
		}
	}
	if address == "" {
		one, err := Addresses(1)
		if err != nil {
			return nil, err
		}
		address = one[0]
	}
	if err := Free(ctx, address); err != nil {
		return nil, err
	}
	b := &Balancer{URL: "http://" + address, Config: filepath.Join(dir, "haproxy.cfg"), ended: make(chan struct{})}
	if err := os.WriteFile(b.Config, []byte(f.balancing(address)), 0o600); err != nil {
		return nil, err
	}
	b.cmd = exec.Command(path, "-db", "-f", b.Config)
	b.cmd.Env = program.Environment(dir)
	b.cmd.SysProcAttr = program.Apart()
	says := new(program.Log)
	b.cmd.Stdout, b.cmd.Stderr = says, says
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		_ = b.cmd.Wait() // how is in what it has said
		close(b.ended)
	}()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return b, c.Close()
		}
		select {
		case <-b.ended:
			return nil, fmt.Errorf("haproxy has ended: %s", says.Tail())
		case <-ctx.Done():
			b.Close()
			return nil, fmt.Errorf("haproxy does not listen: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// balancing is the configuration: no replica is preferred, and an answer may be silent for as long as it likes to be. A request that no
// replica has taken goes to another one. One that a replica has taken, and did not answer, is sent again only where that does no harm:
// not where it begins a run without a key, since the run would begin twice. Where no replica is ready, as while the database is away, they
// are asked all the same: they have what goes on, and say of the rest when to come again.
func (f *Fleet) balancing(address string) string {
	var b, servers, tracked, unasked strings.Builder
	for _, r := range f.Replicas {
		fmt.Fprintf(&servers, "    server %s %s check inter 500ms fall 2 rise 1\n", r.Name, r.Addr())
		fmt.Fprintf(&tracked, "    server %[1]s %[2]s track replicas/%[1]s\n", r.Name, r.Addr())
		fmt.Fprintf(&unasked, "    server %s %s\n", r.Name, r.Addr())
	}
	fmt.Fprintf(&b, `global
    maxconn 4000

defaults
    mode http
    timeout connect 1s
    timeout client 1h
    timeout server 1h
    timeout http-request 30s
    timeout queue 10s
    retries 6
    option redispatch 1
    balance leastconn

frontend lingserve
    bind %s
    acl resumes req.hdr(last-event-id) -m found
    acl resumes url_param(last_event_id) -m found
    acl keyed req.hdr(idempotency-key) -m found
    acl keyed url_param(key) -m found
    acl asks method GET HEAD OPTIONS
    acl starts path /v1/runs
    use_backend unready if { nbsrv(replicas) eq 0 }
    use_backend begins if !resumes !keyed starts
    use_backend begins if !resumes !keyed !asks
    default_backend replicas

backend replicas
    # One that drains, or does not reach the database, says so here, and gets no more requests.
    option httpchk GET /readyz
    http-check expect status 200
    # A replica that is being restarted refuses connections, breaks them off, or answers 503: another one takes the request.
    retry-on conn-failure empty-response response-timeout 503
%s
backend begins
    retry-on conn-failure 503
%s
# None is ready: any of them has what goes on, and says itself when to come again.
backend unready
    retry-on conn-failure
%s`, address, servers.String(), tracked.String(), unasked.String())
	return b.String()
}

// Close ends the balancer, and all connections with it.
func (b *Balancer) Close() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // which fails where it is gone
	late := time.AfterFunc(endWait, func() { _ = b.cmd.Process.Kill() })
	defer late.Stop()
	<-b.ended
}

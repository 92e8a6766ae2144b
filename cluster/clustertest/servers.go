// Package clustertest runs NATS servers for tests, on loopback and with their data in a folder of the test: one in the process of the
// test, or a cluster of three, each in a process of its own.
package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/fleet"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	account   = "$G"             // of the servers' streams
	readyWait = 30 * time.Second // on a machine that is busy; three servers take about one second
	askWait   = time.Second      // for one answer
	pollEvery = 2 * time.Millisecond
)

// Servers are one server or three. Their methods are for the test's goroutine.
type Servers struct {
	t       testing.TB
	all     []*node
	crashes bool // what is killed ends at once
}

// node is a server that is started, and started again, with the same settings.
type node struct {
	options cluster.Options
	running *cluster.Server // the one server of [One], nil while it is killed
	process *Process        // one of three
}

// up says whether it runs.
func (n *node) up() bool { return n.running != nil || n.process != nil }

// One runs a server of its own, which is stopped when the test ends.
func One(t testing.TB) *Servers { return start(t, 1, false) }

// Three runs three servers that are a cluster, until the test ends. All have joined when it returns. The package's TestMain calls [Main]
// or [Role].
func Three(t testing.TB) *Servers { return start(t, 3, false) }

// ThreeCrashing are as those of [Three], but one that is killed dies as hard as a process does.
func ThreeCrashing(t testing.TB) *Servers { return start(t, 3, true) }

func start(t testing.TB, n int, crashes bool) *Servers {
	t.Helper()
	longtest.Only(t, "NATS servers")
	clients, routes := Addresses(t, n), Addresses(t, n)
	s := &Servers{t: t, crashes: crashes}
	dir := t.TempDir()
	for i := range n {
		o := cluster.Options{Servers: cluster.Embedded, Name: fmt.Sprint("n", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Listen: clients[i]}
		if n > 1 {
			o.ClusterListen = routes[i]
			for _, route := range routes {
				o.Routes = append(o.Routes, "nats://"+route)
			}
		}
		s.all = append(s.all, &node{options: o})
	}
	t.Cleanup(func() { // processes end by themselves, see [Start]
		if r := s.all[0].running; r != nil {
			if err := r.Stop(); err != nil {
				t.Errorf("stop a server: %v", err)
			}
		}
	})
	for i := range s.all {
		s.start(i)
	}
	s.WaitReady()
	return s
}

func (s *Servers) start(i int) {
	s.t.Helper()
	n := s.all[i]
	if len(s.all) > 1 {
		arg, err := json.Marshal(n.options)
		if err != nil {
			s.t.Fatal(err)
		}
		n.process = Start(s.t, serverRole, string(arg))
		n.process.Expect(ready)
		return
	}
	r, err := cluster.StartServer(n.options)
	if err != nil {
		s.t.Fatalf("start server %d: %v", i, err)
	}
	n.running = r
}

// Len is how many servers there are.
func (s *Servers) Len() int { return len(s.all) }

// Name is what a server is called in a cluster.
func (s *Servers) Name(i int) string { return s.all[i].options.Name }

// URL are the addresses of the servers, as [cluster.Options] has them.
func (s *Servers) URL() string {
	urls := make([]string, len(s.all))
	for i, n := range s.all {
		urls[i] = "nats://" + n.options.Listen
	}
	return strings.Join(urls, ",")
}

// Process is a server that is in a process of its own, nil while it is killed.
func (s *Servers) Process(i int) *Process { return s.all[i].process }

// Divert has answer say what the server of [One] is asked on a subject, until whole is called or the test ends: it lies then, as one does
// that was cut off and does not know it. nil is no answer.
func (s *Servers) Divert(subject string, answer func(*nats.Msg) *nats.Msg) (whole func()) {
	s.t.Helper()
	conn, err := nats.Connect(s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	to := fmt.Sprint("diverted.", prefixes.Add(1))
	if _, err = conn.Subscribe(to, func(m *nats.Msg) {
		if a := answer(m); a != nil {
			_ = m.RespondMsg(a) // it fails where the test has ended
		}
	}); err == nil {
		err = conn.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := s.all[0].running.NATS().LookupAccount(account)
	if err == nil {
		err = a.AddMapping(subject, to)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	whole = func() { a.RemoveMapping(subject) }
	s.t.Cleanup(whole)
	return whole
}

// NoMessage is for Divert: it says to who asks the leader of a stream for a message that there is none, as one does that led before the
// message was stored.
func NoMessage(*nats.Msg) *nats.Msg {
	return &nats.Msg{Data: []byte(`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"description":"no message found"}}`)}
}

// prefixes have numbers, so that tests that share servers do not meet.
var prefixes atomic.Int64

// Prefix is one that no other caller gets.
func Prefix() string { return fmt.Sprint("t", prefixes.Add(1)) }

// Open connects a replica, which is closed when the test ends. Without a prefix each gets the one of the servers: replicas of
// one Servers share what is stored.
func (s *Servers) Open(t testing.TB, change ...func(*cluster.Options)) *cluster.Cluster {
	t.Helper()
	o := cluster.Options{Servers: s.URL()}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyWait)
	defer cancel()
	c, err := cluster.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// Leader waits for the leader of a stream, which has its whole name here ("KV_…" is a bucket's), and returns its number.
func (s *Servers) Leader(stream string) int {
	s.t.Helper()
	if len(s.all) == 1 {
		return 0
	}
	leader := -1
	s.client(func(ctx context.Context, js jetstream.JetStream) {
		s.wait("the stream "+stream+" to have a leader", func() bool {
			attempt, cancel := context.WithTimeout(ctx, askWait)
			defer cancel()
			info, err := js.Stream(attempt, stream)
			if err != nil || info.CachedInfo().Cluster == nil {
				return false
			}
			leader = slices.IndexFunc(s.all, func(n *node) bool { return n.up() && n.options.Name == info.CachedInfo().Cluster.Leader })
			return leader >= 0
		})
	})
	return leader
}

func (s *Servers) client(do func(context.Context, jetstream.JetStream)) {
	s.t.Helper()
	conn, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(pollEvery))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	do(s.t.Context(), js)
}

// Kill ends a server, which gives its leaderships away before and writes what it has, but where it is one of [ThreeCrashing].
func (s *Servers) Kill(i int) {
	s.t.Helper()
	n := s.all[i]
	r, p := n.running, n.process
	n.running, n.process = nil, nil
	switch {
	case r != nil:
		if err := r.Stop(); err != nil {
			s.t.Errorf("stop server %d: %v", i, err)
		}
	case p == nil: // it is killed already
	case s.crashes:
		p.Kill()
	default:
		p.Close()
	}
}

// Restart starts a server that was killed, with its data and on its ports.
func (s *Servers) Restart(i int) {
	s.t.Helper()
	s.start(i)
}

// WaitReady waits until the servers that run are connected to each other and have a leader, where they are enough for one.
func (s *Servers) WaitReady() {
	s.t.Helper()
	if len(s.all) == 1 {
		return
	}
	running := 0
	for i := range s.all {
		if s.all[i].up() {
			running++
		}
	}
	s.client(func(ctx context.Context, js jetstream.JetStream) {
		s.wait("the servers to be a cluster", func() bool {
			attempt, cancel := context.WithTimeout(ctx, askWait)
			defer cancel()
			return fleet.Formed(attempt, js, running) == nil
		})
	})
}

func (s *Servers) wait(what string, done func() bool) {
	s.t.Helper()
	Eventually(s.t, what, done)
}

// Eventually waits until done, and fails the test where that takes too long.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(readyWait); !done(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", readyWait, what)
		}
	}
}

// Ports of servers are below those that systems give to connections, of which one may otherwise be on a port when its server is
// started again. Each process begins somewhere else.
const lowestPort, ports = 15000, 17000

var nextPort = sync.OnceValue(func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(ports))
	return &n
})

// Addresses are ones on loopback that nobody uses now. Where there are none the test is skipped.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	var addresses []string
	for tries := 0; len(addresses) < n; tries++ {
		address := fmt.Sprint("127.0.0.1:", lowestPort+nextPort().Add(1)%ports)
		l, err := net.Listen("tcp", address)
		if err != nil {
			if tries > 100 {
				t.Skipf("no listener on loopback is allowed here, and a NATS server needs one: %v", err)
			}
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

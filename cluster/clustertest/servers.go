// Package clustertest runs NATS servers for tests: one, or three that are a cluster, in the process of the test, on loopback
// and with their data in a folder of the test.
package clustertest

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/nats-io/nats-server/v2/server"
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
	t         testing.TB
	all       []*node
	processes bool
}

// node is a server that is started, and started again, with the same settings.
type node struct {
	options cluster.Options
	running *cluster.Server // nil while it is killed
	process *Process        // instead, where it is in a process of its own
}

// up says whether it runs.
func (n *node) up() bool { return n.running != nil || n.process != nil }

// One runs a server of its own, which is stopped when the test ends.
func One(t testing.TB) *Servers { return start(t, 1, false) }

// Three runs three servers that are a cluster, which are stopped when the test ends. All have joined when it returns.
func Three(t testing.TB) *Servers { return start(t, 3, false) }

// ThreeProcesses are three servers in processes of their own, which die as hard as processes do: see [Main].
func ThreeProcesses(t testing.TB) *Servers { return start(t, 3, true) }

func start(t testing.TB, n int, processes bool) *Servers {
	t.Helper()
	clients, routes := Addresses(t, n), Addresses(t, n)
	s := &Servers{t: t, processes: processes}
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
	t.Cleanup(func() {
		for _, n := range s.all {
			if err := n.stop(); err != nil {
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
	if s.processes {
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

func (n *node) stop() error {
	r, p := n.running, n.process
	n.running, n.process = nil, nil
	if p != nil {
		p.Kill()
	}
	if r != nil {
		return r.Stop()
	}
	return nil
}

// Len is how many servers there are.
func (s *Servers) Len() int { return len(s.all) }

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

// NATS is a server in the process of the test, nil while it is killed.
func (s *Servers) NATS(i int) *server.Server {
	if r := s.all[i].running; r != nil {
		return r.NATS()
	}
	return nil
}

// Divert has answer say what servers in the process of the test are asked on a subject, until whole is called or the test ends: they lie
// then, as one does that was cut off and does not know it. nil is no answer.
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
	var accounts []*server.Account
	for i := range s.all {
		a, err2 := s.NATS(i).LookupAccount(account)
		if err2 == nil {
			accounts = append(accounts, a)
			err2 = a.AddMapping(subject, to)
		}
		err = errors.Join(err, err2)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	whole = func() {
		for _, a := range accounts {
			a.RemoveMapping(subject)
		}
	}
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
	if s.processes {
		return s.ask(stream)
	}
	leader := -1
	s.wait("the stream "+stream+" to have a leader", func() bool {
		for i := range s.all {
			if r := s.NATS(i); r != nil && r.JetStreamIsStreamLeader(account, stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// ask finds the leader as a client does.
func (s *Servers) ask(stream string) int {
	s.t.Helper()
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

// Kill ends a server. One in the process of the test gives its leaderships away before and writes what it has; one in a process of
// its own is killed.
func (s *Servers) Kill(i int) {
	s.t.Helper()
	if err := s.all[i].stop(); err != nil {
		s.t.Errorf("stop server %d: %v", i, err)
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
	if s.processes {
		s.client(func(ctx context.Context, js jetstream.JetStream) {
			s.wait("the servers to be a cluster", func() bool {
				attempt, cancel := context.WithTimeout(ctx, askWait)
				defer cancel()
				return fleet.Formed(attempt, js, running) == nil
			})
		})
		return
	}
	s.wait("the servers to be a cluster", func() bool {
		for i := range s.all {
			if r := s.NATS(i); r != nil && r.JetStreamIsLeader() && len(r.JetStreamClusterPeers()) >= running {
				return true
			}
		}
		return false
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

//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say what a fleet is made of.
type Options struct {
	// Program is the path of the server's program.
	Program string
	// Dir is a folder for all data, which is there.
	Dir string
	// Nodes is how many NATS servers there are, 1 or 3; with 0 there is one replica, with the engine that needs none, or a database.
	Nodes int
	// Database is the URL of a PostgreSQL server that runs, which replicas share in place of NATS servers.
	Database string
	// Replicas is how many there are.
	Replicas int
	// Args and Env are more settings of each replica.
	Args, Env []string
	// Network has a namespace for each process, from [NewNetwork]; without one all are on loopback. It is closed with the fleet.
	Network *Network
}

// Fleet is what runs.
type Fleet struct {
	Nodes    []*Node
	Replicas []*Replica

	token   string
	network *Network
}

// New prepares a fleet. Nothing of it runs before [Fleet.Start].
func New(o Options) (*Fleet, error) {
	switch {
	case o.Nodes != 0 && o.Nodes != 1 && o.Nodes != 3:
		return nil, fmt.Errorf("fleet: %d NATS servers: there are 1 or 3, or 0 for the local engine", o.Nodes)
	case o.Nodes != 0 && o.Database != "":
		return nil, errors.New("fleet: both NATS servers and a database")
	case o.Nodes == 0 && o.Database == "" && o.Replicas != 1:
		return nil, fmt.Errorf("fleet: %d replicas with the local engine, which has one", o.Replicas)
	case o.Replicas < 1:
		return nil, errors.New("fleet: no replicas")
	}
	f := &Fleet{network: o.Network}
	if f.network != nil { // there, the listeners of NATS are not on loopback, where they need no token
		f.token = "fleet"
	}
	if err := f.addNodes(o); err != nil {
		return nil, err
	}
	return f, f.addReplicas(o)
}

func (f *Fleet) addNodes(o Options) error {
	var clients, routes []string
	var by [][]string
	for i := range o.Nodes {
		name := fmt.Sprint("n", i+1)
		if o.Network == nil {
			both, err := Addresses(2)
			if err != nil {
				return err
			}
			clients, routes, by = append(clients, both[0]), append(routes, both[1]), append(by, nil)
			continue
		}
		host, enter, err := o.Network.Add(name)
		if err != nil {
			return err
		}
		clients, routes, by = append(clients, host+":4222"), append(routes, host+":6222"), append(by, enter)
	}
	for i := range clients {
		name := fmt.Sprint("n", i+1)
		s := settings{Name: name, Dir: filepath.Join(o.Dir, "nats-"+name), Listen: clients[i], Token: f.token}
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return err
		}
		if o.Nodes > 1 {
			s.ClusterListen = routes[i]
			for _, route := range routes {
				s.Routes = append(s.Routes, "nats://"+route)
			}
		}
		f.Nodes = append(f.Nodes, &Node{settings: s, by: by[i]})
	}
	return nil
}

func (f *Fleet) addReplicas(o Options) error {
	workspace := filepath.Join(o.Dir, "workspace") // the same for all: sessions belong to it
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return err
	}
	for i := range o.Replicas {
		r := &Replica{Name: fmt.Sprint("r", i+1), path: o.Program, env: o.Env}
		r.dir = filepath.Join(o.Dir, r.Name)
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return err
		}
		var address string
		if o.Network == nil {
			one, err := Addresses(1)
			if err != nil {
				return err
			}
			address = one[0]
		} else {
			host, enter, err := o.Network.Add(r.Name)
			if err != nil {
				return err
			}
			address, r.by = host+":8080", enter
			r.args = append(r.args, "--insecure")
		}
		r.URL = "http://" + address
		r.args = append(r.args, "--addr", address, "--workspace", workspace)
		if o.Nodes > 0 {
			r.args = append(r.args, "--engine", "nats", "--nats", f.URL(), "--nats-name", r.Name)
			if f.token != "" {
				r.env = append(append([]string{}, r.env...), "LINGSERVE_NATS_TOKEN="+f.token)
			}
		}
		if o.Database != "" {
			r.args = append(r.args, "--engine", "postgres", "--postgres-url", o.Database)
		}
		r.args = append(r.args, o.Args...)
		f.Replicas = append(f.Replicas, r)
	}
	return nil
}

// URL are the addresses of the NATS servers, as the program's setting has them.
func (f *Fleet) URL() string {
	list := make([]string, len(f.Nodes))
	for i, n := range f.Nodes {
		list[i] = "nats://" + n.Address()
	}
	return strings.Join(list, ",")
}

// Start starts the NATS servers, waits until they are a cluster, and starts the replicas.
func (f *Fleet) Start(ctx context.Context) error {
	if err := together(f.Nodes, (*Node).Start); err != nil {
		return err
	}
	if n := len(f.Nodes); n > 0 {
		// A replica that finds fewer than three for some seconds is content with one copy.
		if err := f.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error { return Formed(ctx, js, n) }); err != nil {
			return fmt.Errorf("fleet: the NATS servers are no cluster: %w", err)
		}
	}
	return together(f.Replicas, func(r *Replica) error { return r.Start(ctx) })
}

// Formed returns nil where so many servers are a cluster. Only a stream with a copy on each of them tells a client that all are there:
// they have a leader before.
func Formed(ctx context.Context, js jetstream.JetStream, servers int) error {
	ready := jetstream.StreamConfig{Name: "READY", Subjects: []string{"ready"}, Storage: jetstream.MemoryStorage, Replicas: servers}
	if _, err := js.CreateStream(ctx, ready); err != nil {
		return err
	}
	return js.DeleteStream(ctx, ready.Name)
}

// together does something with all at the same time.
func together[T any](list []T, do func(T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(list))
	for i, one := range list {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// askWait is how long one question to NATS may take.
const askWait = 2 * time.Second

// ask asks NATS as a client, again and again until it is answered.
func (f *Fleet) ask(ctx context.Context, question func(context.Context, jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, errors.New("nobody answers"))
	defer cancel()
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.RetryOnFailedConnect(true)}
	if f.token != "" {
		options = append(options, nats.Token(f.token))
	}
	conn, err := nats.Connect(f.URL(), options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for {
		attempt, done := context.WithTimeout(ctx, askWait)
		err = question(attempt, js)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Leader is the server that leads a stream, which has its whole name here. It waits until there is one.
func (f *Fleet) Leader(ctx context.Context, stream string) (*Node, error) {
	var leader *Node
	err := f.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		if info.Cluster == nil {
			leader = f.Nodes[0]
			return nil
		}
		for _, n := range f.Nodes {
			if n.Name() == info.Cluster.Leader && n.Up() {
				leader = n
				return nil
			}
		}
		return fmt.Errorf("the leader of %s is %q", stream, info.Cluster.Leader)
	})
	return leader, err
}

// Close ends all. It may be called more than once.
func (f *Fleet) Close() error {
	err := together(f.Replicas, func(r *Replica) error { r.Kill(); return nil })
	err = errors.Join(err, together(f.Nodes, func(n *Node) error { n.Kill(); return nil }))
	if f.network != nil {
		err = errors.Join(err, f.network.Close())
	}
	return err
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/runlog/nats"
)

// place is where runs are kept: nowhere, or on servers that two replicas share.
type place struct {
	name           string
	here, there    *nats.Log // nil where they are kept nowhere
	cluster, other *cluster.Cluster
	servers        []*exec.Cmd // in processes of their own
	inputs         []io.Closer // of those
	dir            string
	rounds         int
}

func openLocal(context.Context) (*place, error) { return &place{name: "local"}, nil }

func openEmbedded(ctx context.Context) (*place, error) {
	p := &place{name: "one node, embedded"}
	addresses, err := free(1)
	if err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "bench-cluster"); err != nil {
		return nil, err
	}
	return p, p.open(ctx, cluster.Options{Servers: cluster.Embedded, Dir: p.dir, Name: "embedded", Listen: addresses[0]}, "nats://"+addresses[0])
}

func openThree(ctx context.Context) (*place, error) {
	p := &place{name: "three nodes, three processes"}
	addresses, err := free(6)
	if err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "bench-cluster"); err != nil {
		return nil, err
	}
	var urls, routes []string
	for i := range 3 {
		urls, routes = append(urls, "nats://"+addresses[i]), append(routes, "nats://"+addresses[3+i])
	}
	for i := range 3 {
		if err := p.start(cluster.Options{
			Name: fmt.Sprint("n", i), Dir: filepath.Join(p.dir, fmt.Sprint(i)), Listen: addresses[i], ClusterListen: addresses[3+i], Routes: routes,
		}); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	all := strings.Join(urls, ",")
	return p, p.open(ctx, cluster.Options{Servers: all, Copies: 3}, all)
}

// open opens the two replicas.
func (p *place) open(ctx context.Context, o cluster.Options, url string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.cluster, err = cluster.Open(ctx, o); err != nil {
		return err
	}
	if p.here, err = nats.Open(ctx, p.cluster, nats.Options{Tube: tubeOptions}); err != nil {
		return err
	}
	if p.other, err = cluster.Open(ctx, cluster.Options{Servers: url, Copies: o.Copies}); err != nil {
		return err
	}
	p.there, err = nats.Open(ctx, p.other, nats.Options{Tube: tubeOptions})
	return err
}

func (p *place) close() (err error) {
	for _, l := range []*nats.Log{p.there, p.here} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	for _, c := range []*cluster.Cluster{p.other, p.cluster} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	for i, s := range p.servers {
		err = errors.Join(err, p.inputs[i].Close(), s.Wait())
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// start starts a server in a process of its own.
func (p *place) start(o cluster.Options) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	arg, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), exe, "-server", string(arg))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.servers, p.inputs = append(p.servers, cmd), append(p.inputs, in)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != ready {
		return fmt.Errorf("server %s said %q, %w", o.Name, line, err)
	}
	return nil
}

const ready = "ready\n"

// serve is that process: it ends with its input.
func serve(config string) error {
	var o cluster.Options
	if err := json.Unmarshal([]byte(config), &o); err != nil {
		return err
	}
	s, err := cluster.StartServer(o)
	if err != nil {
		return err
	}
	fmt.Print(ready)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Stop())
}

// free are addresses that nobody listens at.
func free(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

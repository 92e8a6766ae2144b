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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/runlog/logs"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/postgres"
)

// place is where runs are kept: nowhere, or on servers that two replicas share.
type place struct {
	name           string
	here, there    *logs.Log        // nil where they are kept nowhere
	cluster, other *cluster.Cluster // nil without NATS
	servers        []*exec.Cmd      // in processes of their own
	inputs         []io.Closer      // of those
	database       *postgrestest.Server
	closers        []func() error // of the replicas, the last one first
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
	if p.cluster, p.here, err = p.join(ctx, o); err != nil {
		return err
	}
	p.other, p.there, err = p.join(ctx, cluster.Options{Servers: url, Copies: o.Copies})
	return err
}

// join opens a replica on NATS.
func (p *place) join(ctx context.Context, o cluster.Options) (*cluster.Cluster, *logs.Log, error) {
	c, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	e := storenats.Open(c, storenats.Options{})
	p.closers = append(p.closers, c.Close, e.Close)
	bus, err := c.Bus()
	if err != nil {
		return c, nil, err
	}
	l, err := p.keep(ctx, logs.Options{Logs: e, Tables: e, Bus: bus, Replica: c.Replica()})
	return c, l, err
}

func (p *place) keep(ctx context.Context, o logs.Options) (*logs.Log, error) {
	o.Tube = tubeOptions
	l, err := logs.Open(ctx, o)
	if err == nil {
		p.closers = append(p.closers, l.Close)
	}
	return l, err
}

func openPostgres(ctx context.Context) (_ *place, err error) {
	p := &place{name: "PostgreSQL"}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.database, err = postgrestest.Start(); err != nil {
		return nil, err
	}
	for i, l := range []**logs.Log{&p.here, &p.there} {
		e, err := postgres.Open(ctx, postgres.Options{URL: p.database.URL()})
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, e.Close)
		id := fmt.Sprint("replica-", i)
		bus, err := e.Bus(ctx, id)
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, bus.Close)
		if *l, err = p.keep(ctx, logs.Options{
			Logs: e, Tables: e, Bus: bus, Replica: id, Collect: logs.DatabaseCollect, Push: logs.DatabasePush,
		}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *place) close() (err error) {
	for _, end := range slices.Backward(p.closers) {
		err = errors.Join(err, end())
	}
	if p.database != nil {
		err = errors.Join(err, p.database.Stop())
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

// databaseTime is what all processes of a database have used.
func databaseTime(s *postgrestest.Server) (all time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.Socket()), "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return 0, err
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range processes {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if pid != postmaster && fields[1] != first { // its parent
			continue
		}
		took, err := processTime(pid)
		if err == nil {
			all += took
		}
	}
	return all, nil
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

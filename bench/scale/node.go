package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/program"
)

// variable has the settings of the NATS server that a process is to be.
const variable = "LINGSERVE_SCALE_NODE"

const (
	ready = "ready"

	// What a server is asked.
	heap = "heap" // memory in use
	last = "last" // the last sequence of each stream, as this server has it
	stop = "stop"
)

// serveNode does not return in a process that is to be a NATS server.
func serveNode() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is a NATS server until it is told to end, or the process that has started it is not there any more.
func serve(text string) error {
	var o cluster.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := cluster.StartServer(o)
	if err != nil {
		return err
	}
	fmt.Println(ready)
	for in := bufio.NewScanner(os.Stdin); in.Scan() && in.Text() != stop; {
		if in.Text() == heap {
			fmt.Println(live())
			continue
		}
		text, err := json.Marshal(sequences(s))
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return s.Stop()
}

// sequences are the last ones of the streams, as far as this server has read them.
func sequences(s *cluster.Server) map[string]uint64 {
	all := map[string]uint64{}
	info, err := s.NATS().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return all // it is starting
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			all[stream.Name] = stream.State.LastSeq
		}
	}
	return all
}

// live is the memory that this process has in use, in bytes, without what the next collection takes.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what was kept for use until the next one
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// node is a NATS server in a process of its own.
type node struct {
	options cluster.Options
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// nodes are servers that know each other, with their data below dir. They do not run yet.
func nodes(n int, dir string) ([]*node, error) {
	addresses, err := free(2 * n)
	if err != nil {
		return nil, err
	}
	var all []*node
	var routes []string
	for i := range n {
		routes = append(routes, "nats://"+addresses[n+i])
	}
	for i := range n {
		name := fmt.Sprint("n", i+1)
		o := cluster.Options{Servers: cluster.Embedded, Name: name, Dir: filepath.Join(dir, name), Listen: addresses[i]}
		if n > 1 {
			o.ClusterListen, o.Routes = addresses[n+i], routes
		}
		all = append(all, &node{options: o})
	}
	return all, nil
}

// free are addresses on loopback that nobody uses now.
func free(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // behind the last, so that all differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

func (n *node) url() string { return "nats://" + n.options.Listen }

// start returns when the server takes connections.
func (n *node) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(n.options)
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(program.Environment(n.options.Dir), variable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = program.Apart() // ctrl-C is for this process, which ends it
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.in, n.out = cmd, in, bufio.NewReader(out)
	if line, err := n.out.ReadString('\n'); err != nil || line != ready+"\n" {
		return fmt.Errorf("the server %s does not start: it says %q", n.options.Name, line)
	}
	return nil
}

// stop ends the server as a system does, kill as a machine that fails.
func (n *node) stop() error {
	if n.cmd == nil {
		return nil
	}
	_, _ = fmt.Fprintln(n.in, stop) // fails where it is gone
	err := n.cmd.Wait()
	n.cmd = nil
	return err
}

func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // it was killed
	n.cmd = nil
}

// memory is what the process has resident, and then what of its heap is in use.
func (n *node) memory() (rss, inUse uint64, err error) {
	if rss, err = resident(n.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	err = n.ask(heap, &inUse)
	return rss, inUse, err
}

// sequences are the last ones of the streams, as far as the server has them.
func (n *node) sequences() (all map[string]uint64, err error) {
	err = n.ask(last, &all)
	return all, err
}

// ask has the server answer with a line of JSON.
func (n *node) ask(what string, answer any) error {
	if _, err := fmt.Fprintln(n.in, what); err != nil {
		return err
	}
	line, err := n.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

func resident(pid int) (uint64, error) {
	f, err := stat(pid, "statm")
	if err != nil || len(f) < 2 {
		return 0, fmt.Errorf("the memory of a process cannot be read: %w", err)
	}
	pages, err := strconv.ParseUint(f[1], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// worked is the processor time that a process has had.
func worked(pid int) (time.Duration, error) {
	f, err := stat(pid, "stat")
	if err != nil || len(f) < 15 {
		return 0, fmt.Errorf("the processor time of a process cannot be read: %w", err)
	}
	user, err1 := strconv.ParseInt(f[13], 10, 64)
	system, err2 := strconv.ParseInt(f[14], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // a tick, everywhere
}

// stat are the fields of a file of a process, whose name has no blanks.
func stat(pid int, file string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	return strings.Fields(string(text)), err
}

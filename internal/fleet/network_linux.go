package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Network is a bridge of this machine with a namespace for each process at it, whose cables can be pulled.
type Network struct {
	id string

	mu     sync.Mutex
	names  []string // of namespaces
	bridge bool
}

// NewNetwork makes a network, which takes root and the command ip; where that cannot be done the error says what is missing.
func NewNetwork() (*Network, error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, errors.New("the command ip (of iproute2) is not there")
	}
	n := &Network{id: fmt.Sprintf("lf%x", os.Getpid())}
	if err := ip("link", "add", n.id, "type", "bridge"); err != nil {
		return nil, fmt.Errorf("a bridge cannot be made here (it takes root): %w", err)
	}
	n.bridge = true
	for _, args := range [][]string{{"addr", "add", n.Host() + "/24", "dev", n.id}, {"link", "set", n.id, "up"}} {
		if err := ip(args...); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// Host is this machine's address in the network.
func (n *Network) Host() string { return n.address(1) }

// address is the i-th of the network, which is another one for each process.
func (n *Network) address(i int) string { return fmt.Sprintf("10.213.%d.%d", os.Getpid()%250, i) }

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}

// Add makes a namespace with a cable to the bridge. What it returns is its address, and the command that a process enters it with.
func (n *Network) Add(name string) (host string, enter []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	space, cable := n.id+name, n.cable(name)
	host = n.address(10 + len(n.names))
	if err := ip("netns", "add", space); err != nil {
		return "", nil, err
	}
	n.names = append(n.names, space)
	for _, args := range [][]string{
		{"link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space},
		{"link", "set", cable, "master", n.id},
		{"link", "set", cable, "up"},
		{"-n", space, "link", "set", "lo", "up"},
		{"-n", space, "addr", "add", host + "/24", "dev", "eth0"},
		{"-n", space, "link", "set", "eth0", "up"},
	} {
		if err := ip(args...); err != nil {
			return "", nil, err
		}
	}
	return host, []string{"ip", "netns", "exec", space}, nil
}

// cable is the end of a process's cable at the bridge.
func (n *Network) cable(name string) string { return n.id + "-" + name }

// Part takes a process away from all others, by its name: nothing goes out or comes in, and nobody is told. Join ends that.
func (n *Network) Part(name string) error { return ip("link", "set", n.cable(name), "down") }
func (n *Network) Join(name string) error { return ip("link", "set", n.cable(name), "up") }

// Close takes the network away, which nothing is in any more.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, space := range n.names {
		errs = append(errs, ip("netns", "del", space))
	}
	if n.bridge {
		errs = append(errs, ip("link", "del", n.id))
	}
	n.names, n.bridge = nil, false
	return errors.Join(errs...)
}

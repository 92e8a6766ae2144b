//go:build unix && !linux

package fleet

import "errors"

// Network is what this system does not have.
type Network struct{}

// NewNetwork fails: there are namespaces of networks in Linux only.
func NewNetwork() (*Network, error) {
	return nil, errors.New("there are network namespaces in Linux only")
}

// Host would be this machine's address in the network.
func (*Network) Host() string { return "" }

// Add would make a namespace.
func (*Network) Add(string) (string, []string, error) { return "", nil, errors.ErrUnsupported }

// Part would take a process away from all others; Join would end that.
func (*Network) Part(string) error { return errors.ErrUnsupported }
func (*Network) Join(string) error { return errors.ErrUnsupported }

// Close has nothing to do.
func (*Network) Close() error { return nil }

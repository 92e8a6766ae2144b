//go:build unix

package fleet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Ports are below those that systems give to connections, of which one may otherwise be on a port when its server is started again.
// Each process begins somewhere else.
const lowestPort, ports = 12000, 3000

var nextPort = sync.OnceValue(func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(ports))
	return &n
})

// Addresses are ones on loopback that nobody uses now.
func Addresses(n int) ([]string, error) {
	var list []string
	for tries := 0; len(list) < n; tries++ {
		address := fmt.Sprint("127.0.0.1:", lowestPort+nextPort().Add(1)%ports)
		l, err := net.Listen("tcp", address)
		if err != nil {
			if tries > ports {
				return nil, fmt.Errorf("fleet: no port on loopback is free: %w", err)
			}
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		list = append(list, address)
	}
	return list, nil
}

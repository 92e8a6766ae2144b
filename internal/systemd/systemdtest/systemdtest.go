// Package systemdtest stands in for systemd in tests.
package systemdtest

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Listen opens the socket that systemd would, and returns what reads the next datagram.
func Listen(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("this system has no such sockets: %v", err)
	}
	// It reads at once, as systemd does: the system takes few datagrams that nobody has read, and the server gives up those beyond.
	said := make(chan string, 1<<16)
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			said <- string(b[:n])
		}
	})
	t.Cleanup(func() {
		conn.Close()
		reading.Wait()
		os.RemoveAll(dir)
	})
	return path, func() string {
		t.Helper()
		select {
		case one := <-said:
			return one
		case <-time.After(time.Hour):
			t.Fatal("nothing is said")
			return ""
		}
	}
}

package web

import (
	"net"
	"syscall"
	"testing"
)

// FT-19, FT-20
func TestAcceptedConnectionsHaveTheSettingsOfStreams(t *testing.T) {
	b := newBench(t, nil)
	defer b.s.Close()
	l, err := b.s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	get := func(level, option int) (v int) {
		t.Helper()
		err := raw.Control(func(fd uintptr) {
			var err error
			if v, err = syscall.GetsockoptInt(int(fd), level, option); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
		return v
	}
	// The kernel counts its own overhead and doubles what it is given.
	if v := get(syscall.SOL_SOCKET, syscall.SO_SNDBUF); v != 2*sendBuffer {
		t.Errorf("send buffer: %d", v)
	}
	if v := get(syscall.IPPROTO_TCP, tcpUserTimeout); v != int(userTimeout.Milliseconds()) {
		t.Errorf("user timeout: %d", v)
	}
	if v := get(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); v != 1 {
		t.Errorf("keep-alive: %d", v)
	}
}

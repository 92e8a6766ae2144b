package web

import (
	"net"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not have.
const tcpUserTimeout = 18

func setSocket(fd uintptr) error {
	if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer); err != nil {
		return err
	}
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
}

// peek copies what has come of a TCP connection and returns how much that is. It does not wait, and what it copies can still be read.
func peek(c net.Conn, into []byte) (n int) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), into, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != nil {
			n = 0
		}
	})
	if err != nil {
		return 0
	}
	return max(n, 0)
}

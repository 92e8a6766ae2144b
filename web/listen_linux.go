package web

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not have.
const tcpUserTimeout = 18

func setSocket(fd uintptr) error {
	if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer); err != nil {
		return err
	}
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
}

package memlimit

import (
	"encoding/binary"
	"syscall"
)

// machine is the memory of this machine.
func machine() int64 {
	text, err := syscall.Sysctl("hw.memsize")
	if err != nil {
		return 0
	}
	var n [8]byte // Sysctl takes a zero at the end for that of a text
	copy(n[:], text)
	return int64(binary.LittleEndian.Uint64(n[:]))
}

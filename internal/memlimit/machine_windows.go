package memlimit

import (
	"syscall"
	"unsafe"
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                                             uint32
	total, available, totalPage, availablePage, totalVirtual, freeVirtual, _ uint64
}

// machine is the memory of this machine.
func machine() int64 {
	var s memoryStatus
	s.length = uint32(unsafe.Sizeof(s))
	ok, _, _ := syscall.NewLazyDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx").Call(uintptr(unsafe.Pointer(&s)))
	if ok == 0 {
		return 0
	}
	return int64(s.total)
}

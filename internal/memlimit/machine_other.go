//go:build !darwin && !windows

package memlimit

// machine is 0: where there is no /proc/meminfo, the memory of the machine is not known.
func machine() int64 { return 0 }

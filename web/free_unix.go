//go:build linux || darwin

package web

import "syscall"

// freeOn returns the bytes that this process may still write to the disk of a folder; false where that cannot be known.
func freeOn(folder string) (int64, bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(folder, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

//go:build linux

package db

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNetworkFilesystemsAreUnreliable(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9p",
		unix.EXT4_SUPER_MAGIC: "", unix.TMPFS_MAGIC: "", unix.OVERLAYFS_SUPER_MAGIC: "",
	} {
		if got := unreliableFilesystems[magic]; got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
}

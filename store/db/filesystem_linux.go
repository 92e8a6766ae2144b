package db

import (
	"golang.org/x/sys/unix"
)

// unreliableFilesystem returns the name of a folder's filesystem if SQLite's locks may fail on it, and "" for any other
// (https://sqlite.org/wal.html: a WAL does not work over a network filesystem).
func unreliableFilesystem(folder string) string {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return ""
	}
	return unreliableFilesystems[uint32(s.Type)]
}

// unreliableFilesystems are names by the magic numbers of statfs(2).
var unreliableFilesystems = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9p",
}

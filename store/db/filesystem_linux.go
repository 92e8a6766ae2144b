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
	return filesystemName(uint32(s.Type))
}

func filesystemName(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.V9FS_MAGIC:
		return "9p"
	}
	return ""
}

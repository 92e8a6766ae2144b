package logs

import (
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

const (
	tapeEnd    = ".jsonl"
	indexEnd   = ".index"
	sessionEnd = ".session"
	tornEnd    = ".torn"
	importEnd  = ".import"
)

// openOn opens a store on a disk.
func openOn(d vfs.Folder, o FolderOptions) *Store {
	s, err := openFolder(func(bool) (vfs.Folder, error) { return d, nil }, o)
	if err != nil {
		panic(err)
	}
	return s
}

// appendLine appends the line of an entry.
func appendLine(dst []byte, e tape.Entry, last int64, goesOn bool) []byte {
	return lines{}.AppendLine(dst, store.Entry{N: uint64(e.ID), Data: e.AppendJSON(nil)}, uint64(last), goesOn)
}

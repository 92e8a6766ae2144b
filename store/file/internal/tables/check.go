package tables

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Check reads the tables in a folder, changes nothing, and tells found of all damage. It returns how many tables there are. If a server
// uses the folder, what it is writing at this moment may be told of.
func Check(dir string, found func(file string, offset int64, what string)) (tables int, err error) {
	root, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return 0, err
	}
	defer root.Close()
	names, err := vfs.Names(root, ".")
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, End) {
			continue
		}
		f, err := root.Open(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return tables, err
		}
		tables++
		err = check(f, func(offset int64, what string) { found(name, offset, what) })
		_ = f.Close() // it was only read
		if err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// check reads one table.
func check(f vfs.File, found func(offset int64, what string)) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, fileHead)
	n, _ := f.ReadAt(head, 0)
	if _, ok := parseFileHead(head[:n]); !ok {
		found(0, "it is not a table")
		return nil
	}
	t := &Table{f: f}
	records, end := map[string]frame{}, int64(fileHead)
	_, _, err = t.scan(end, true, func(f *frame, off int64) bool {
		if off > end {
			found(end, fmt.Sprintf("%d bytes are no records; what they said is lost", off-end))
		}
		end = off + f.len(off)
		switch f.kind {
		case kindPut:
			records[string(f.key)] = frame{bodyAt: f.bodyAt, bodyLen: f.bodyLen, bodyCRC: f.bodyCRC, expires: f.expires}
		case kindDelete:
			delete(records, string(f.key))
		}
		return true
	})
	if err != nil {
		return err
	}
	if info.Size() > end {
		found(end, "a record is not whole; what follows is cut off when the table is changed")
	}
	for _, r := range records {
		if r.expired(time.Now()) { // its body may have been erased
			continue
		}
		body := make([]byte, r.bodyLen)
		if n, _ := f.ReadAt(body, r.bodyAt); n < len(body) || crc32.Checksum(body, castagnoli) != r.bodyCRC {
			found(r.bodyAt, "the body of a record is not what was written")
		}
	}
	return nil
}

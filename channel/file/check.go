package file

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Check reads the segments of the journal in a folder, changes nothing, and tells found of all damage. It returns how many segments there
// are. Of a journal that is open, what is being written in this moment may be told of.
func Check(dir string, found func(file string, offset int64, what string)) (segments int, err error) {
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
		if !strings.HasSuffix(name, segmentEnd) {
			continue
		}
		text, err := vfs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) { // its events have been settled for long
			continue
		}
		if err != nil {
			return segments, err
		}
		segments++
		end := 0
		scan(text, func(r record, offset int) { end = offset + r.size }, func(offset int, what string) { found(name, int64(offset), what) })
		if end < len(text) {
			found(name, int64(end), "a record is not whole; what follows is cut off when the journal is opened")
		}
	}
	return segments, nil
}

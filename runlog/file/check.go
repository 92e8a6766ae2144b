package file

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Check reads the files of a log in a folder, changes nothing, and tells found of each part of them that cannot be read. It returns how many
// files there are. Of a log that is open, what is being written in this moment may be told of.
func Check(dir string, found func(file string, offset int64, what string)) (files int, err error) {
	root, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return 0, err
	}
	defer root.Close()
	d := onDisk{root: root, name: "."}
	names, err := d.names()
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names {
		number, ok := segmentNumber(name)
		if !ok {
			continue
		}
		text, err := readFile(d, name)
		if errors.Is(err, fs.ErrNotExist) { // it is not needed any more
			continue
		}
		if err != nil {
			return files, err
		}
		files++
		for _, bad := range frames(number, text, func([8]byte) {}, func([]byte) bool { return true }) {
			what := fmt.Sprintf("%s; %d bytes cannot be read", bad.why, bad.end-bad.at)
			if bad.torn {
				what += ", as a crash can leave them"
			}
			found(name, bad.at, what)
		}
	}
	return files, nil
}

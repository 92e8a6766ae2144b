package file

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Check reads the files of a log in a folder, changes nothing, and tells found where one is not whole. It returns how many there are. Of a
// log that is open, what is being written in this moment may be told of.
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
		f, err := d.open(name)
		if errors.Is(err, fs.ErrNotExist) { // it is not needed any more
			continue
		}
		if err != nil {
			return files, err
		}
		files++
		_, err = frames(number, f, func([8]byte, bool) {}, func([]byte) bool { return true })
		_ = f.Close() // it was only read
		if torn, ok := errors.AsType[*tornError](err); ok {
			found(name, torn.at, torn.why+"; what stands behind it is not read")
		} else if err != nil {
			return files, err
		}
	}
	return files, nil
}

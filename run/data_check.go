package run

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/vfs"
)

// CheckData reads the ended runs in a data folder, changes nothing, and tells found of what cannot be read. It returns
// how many files there are.
func CheckData(dir string, found func(file string, offset int64, what string)) (files int, err error) {
	root, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return 0, err
	}
	defer root.Close()
	d := &disk{root: root}
	names, err := vfs.Names(d.root, runsFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files, err
	}
	slices.Sort(names)
	for _, name := range names {
		id, ok := strings.CutSuffix(name, suffix)
		if !ok || !ValidID(id) {
			continue
		}
		_, err := d.load(id, 0)
		if errors.Is(err, fs.ErrNotExist) { // its time was over
			continue
		}
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok { // of the disk
			return files, pathErr
		}
		files++
		if err != nil {
			found(FileOf(id), 0, fmt.Sprintf("cannot read the run: %v", err))
		}
	}
	return files, nil
}

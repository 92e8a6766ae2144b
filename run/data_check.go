package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/vfs"
)

// CheckData reads the ended runs and the idempotency keys in a data folder, changes nothing, and tells found of what cannot be read. Those of
// an earlier version have no checksums: of them it only knows whether they can be parsed. It returns how many files there are. A key that
// is being written is not damage.
func CheckData(dir string, found func(file string, offset int64, what string)) (files int, err error) {
	root, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return 0, err
	}
	defer root.Close()
	d := &disk{root: root}
	text, err := vfs.ReadFile(d.root, keysFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err == nil {
		files++
	}
	at := int64(0)
	for line := range bytes.Lines(text) {
		if _, _, ok := parseKeyLine(line); !ok && bytes.HasSuffix(line, []byte("\n")) {
			found(keysFile, at, "a line is not an idempotency key; a request that is sent again with it may run again")
		}
		at += int64(len(line))
	}
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

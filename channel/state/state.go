// Package state keeps what a channel has learned of its platform and cannot ask for again: little, in one file of JSON, or in one text that
// processes share.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Read reads what [Write] has written into v, which stays as it is where there is no file, or where path is "".
func Read(path string, v any) error {
	if path == "" {
		return nil
	}
	return read(vfs.At(filepath.Dir(path)), filepath.Base(path), v)
}

func read(dir vfs.Dir, name string, v any) error {
	folder, err := dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	defer folder.Close()
	data, err := vfs.ReadFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is not what was written: %w", name, err)
	}
	return nil
}

// Write writes v whole or not at all, for the server's user alone, and so that it is there after the machine has crashed; where path
// is "", nothing. Of several that write one file at the same time, the last one wins.
func Write(path string, v any) error {
	if path == "" {
		return nil
	}
	return write(vfs.At(filepath.Dir(path)), filepath.Base(path), v)
}

func write(dir vfs.Dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	folder, err := dir.Open()
	if err != nil {
		return vfs.Explain(err)
	}
	return vfs.Explain(errors.Join(vfs.WriteFile(folder, name, data), folder.Close()))
}

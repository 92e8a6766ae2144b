// Package state keeps what a channel has learned of its platform and cannot ask for again: little, in one file of JSON, or in one text that
// processes share.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Read reads what [Write] has written into v, which stays as it is where there is no file, or where path is "".
func Read(path string, v any) error {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is not what was written: %w", filepath.Base(path), err)
	}
	return nil
}

// Write writes v whole or not at all, for the server's user alone, and so that it is there after the machine has crashed; where path
// is "", nothing. Of several that write one file at the same time, the last one wins.
func Write(path string, v any) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there when it was renamed
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // else a crash could leave the new name without the new bytes, and nobody could read the file
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

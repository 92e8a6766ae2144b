package file

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Hold takes a folder as a journal does that is in it, for whoever keeps something beside it and has no journal there. It is made where it is
// not there, and held until it is closed or the process ends. The error is [ErrInUse] where somebody else has it.
func Hold(dir string) (io.Closer, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("journal folder: %w", err)
	}
	f, err := hold(root)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("journal folder: %w", err)
	}
	return f, nil
}

// hold takes a folder until the file is closed.
func hold(root *os.Root) (*os.File, error) {
	f, err := root.OpenFile("lock", os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, explain(err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

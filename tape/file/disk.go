package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/lingserve/lingserve/internal/filelock"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// disk is what the store needs of a file system. Names are relative to the store's folder and never lead out of it. Tests put
// one in its place whose writes fail.
type disk interface {
	// open opens a regular file; a folder, a link or a device at that name is refused with errNotAFile.
	open(name string, flag int) (handle, error)
	// stat describes what is at the name itself, following no link.
	stat(name string) (fs.FileInfo, error)
	// list gives the names in a folder, in no order, a few hundred at a time; it stops when yield is false.
	list(folder string, yield func(fs.DirEntry) bool) error
	mkdir(folder string) error
	remove(name string) error
	removeAll(folder string) error
	rename(from, to string) error
	// syncFolder makes what was created, renamed and removed in the folder outlast the machine's end.
	syncFolder() error
	close() error
}

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
	tryLock() (bool, error)
	unlock() error
}

// errNotAFile says that something else has the name of a file.
var errNotAFile = errors.New("not an ordinary file; the store follows no link and opens no folder or device: move it away")

// folder is the disk of a running program.
type folder struct{ root *os.Root }

func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root}, nil
}

type osFile struct{ *os.File }

func (f osFile) tryLock() (bool, error) { return filelock.Try(f.File) }
func (f osFile) unlock() error          { return filelock.Release(f.File) }

func (d *folder) open(name string, flag int) (handle, error) {
	before, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		// What is put there between these two calls does not lead out of the folder: the root sees to that.
	case err != nil:
		return nil, err
	case !before.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotAFile}
	}
	f, err := d.root.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !opened.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotAFile}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osFile{f}, nil
}

func (d *folder) stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d *folder) list(name string, yield func(fs.DirEntry) bool) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if !yield(e) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *folder) mkdir(name string) error      { return d.root.MkdirAll(name, folderMode) }
func (d *folder) remove(name string) error     { return d.root.Remove(name) }
func (d *folder) removeAll(name string) error  { return d.root.RemoveAll(name) }
func (d *folder) rename(from, to string) error { return d.root.Rename(from, to) }
func (d *folder) close() error                 { return d.root.Close() }

func (d *folder) syncFolder() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// explain says what a user can do about an error of the disk.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk is full; make room: %w", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("this user may not use the data folder; check who owns it: %w", err)
	}
	return err
}

// Package vfs is the file system that the stores keep their files in. Everything a store does to a file goes through it, so a test
// can give a store another file system, which fails as it is told: see package vfstest.
package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/internal/filelock"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// Folder is an open folder. Names are relative to it, have slashes, and never lead out of it.
type Folder interface {
	// Open opens a regular file with the flags of [os.OpenFile]. It refuses a folder, a link or a device with [ErrNotRegular].
	Open(name string, flag int) (File, error)
	// Stat describes what has the name. It follows no link.
	Stat(name string) (fs.FileInfo, error)
	// List yields what is in a folder below this one, or in "." itself, in no order. It stops when yield returns false.
	List(name string, yield func(fs.DirEntry) bool) error
	// Mkdir makes a folder and those above it, where they do not exist.
	Mkdir(name string) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	// Chtimes sets when a file was last changed.
	Chtimes(name string, changed time.Time) error
	// SyncFolder makes durable what was created, renamed and removed in a folder below this one, or in "." itself.
	SyncFolder(name string) error
	Close() error
}

// File is an open file.
type File interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
	// TryLock locks the file for this handle until it is unlocked or closed. It returns false if another handle has the lock.
	TryLock() (bool, error)
	Unlock() error
}

// ErrNotRegular is the error of a name that is not the name of a regular file.
var ErrNotRegular = errors.New("not an ordinary file; no link is followed, and no folder or device is opened: move it away")

// Dir opens a folder. A store takes one, so a test can give it a folder of another file system.
type Dir func(create bool) (Folder, error)

// At returns the folder of the system with a path.
func At(path string) Dir {
	return func(create bool) (Folder, error) {
		if create {
			if err := os.MkdirAll(path, folderMode); err != nil {
				return nil, err
			}
		}
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		return &folder{root}, nil
	}
}

// Open opens the folder. It makes the folder and those above it, where they do not exist.
func (d Dir) Open() (Folder, error) { return d(true) }

// folder is a folder of the system.
type folder struct{ root *os.Root }

type file struct{ *os.File }

func (f file) TryLock() (bool, error) { return filelock.Try(f.File) }
func (f file) Unlock() error          { return filelock.Release(f.File) }

func (d *folder) Open(name string, flag int) (File, error) {
	before, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		// A file that appears between these two calls does not lead out of the folder: the root sees to that.
	case err != nil:
		return nil, err
	case !before.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f, err := d.root.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !opened.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return file{f}, nil
}

func (d *folder) Stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d *folder) List(name string, yield func(fs.DirEntry) bool) error {
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

func (d *folder) Mkdir(name string) error      { return d.root.MkdirAll(name, folderMode) }
func (d *folder) Remove(name string) error     { return d.root.Remove(name) }
func (d *folder) RemoveAll(name string) error  { return d.root.RemoveAll(name) }
func (d *folder) Rename(from, to string) error { return d.root.Rename(from, to) }
func (d *folder) Close() error                 { return d.root.Close() }

func (d *folder) Chtimes(name string, changed time.Time) error {
	return d.root.Chtimes(name, changed, changed)
}

// SyncFolder does nothing on Windows, which makes names durable by itself, and where the file system cannot sync a folder.
func (d *folder) SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// SameFile reports whether a and b describe the same file.
func SameFile(a, b fs.FileInfo) bool {
	if f, ok := a.(interface{ SameFile(fs.FileInfo) bool }); ok {
		return f.SameFile(b)
	}
	return os.SameFile(a, b)
}

// Names returns the names of the regular files in a folder.
func Names(d Folder, name string) (names []string, err error) {
	err = d.List(name, func(e fs.DirEntry) bool {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
		return true
	})
	return names, err
}

// ReadFile reads a whole file.
func ReadFile(d Folder, name string) ([]byte, error) {
	f, err := d.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// WriteFile writes a file of the folder whole or not at all. If WriteFile returns nil, the file is durable. Of several that write one file
// at the same time, the last one wins.
func WriteFile(d Folder, name string, text []byte) error {
	return replace(d, name, true, func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// CacheFile writes a file of the folder that can be lost: it is there whole or not at all while the machine runs, and is not made durable.
func CacheFile(d Folder, name string, fill func(to io.Writer) error) error {
	return replace(d, name, false, fill)
}

// ReplaceFile is WriteFile for what is too large for memory.
func ReplaceFile(d Folder, name string, fill func(to io.Writer) error) error {
	return replace(d, name, true, fill)
}

// besidePrefix begins the names of files that are being written.
const besidePrefix = ".new-"

func replace(d Folder, name string, durable bool, fill func(to io.Writer) error) (err error) {
	beside := besidePrefix + rand.Text()
	defer func() {
		if err != nil {
			_ = d.Remove(beside)
		}
	}()
	f, err := d.Open(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil && durable {
		err = f.Sync() // or a crash could leave the new name without the new text
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.Rename(beside, name); err != nil || !durable {
		return err
	}
	return d.SyncFolder(".")
}

// besideTime is longer than it takes to write a file. One that is older was left by a process that died.
const besideTime = time.Hour

// RemoveOldest removes the files that were changed longest ago, of those whose names begin with prefix, until they have no more than so
// many bytes. keep stays. What cannot be removed stays until the next time.
func RemoveOldest(d Folder, prefix string, most int64, keep string) {
	var total int64
	var files []fs.FileInfo
	_ = d.List(".", func(e fs.DirEntry) bool {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(e.Name(), besidePrefix):
			if time.Since(info.ModTime()) > besideTime {
				_ = d.Remove(e.Name())
			}
		case strings.HasPrefix(e.Name(), prefix):
			total += info.Size()
			files = append(files, info)
		}
		return true
	})
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total <= most {
			return
		}
		if info.Name() != keep && d.Remove(info.Name()) == nil {
			total -= info.Size()
		}
	}
}

// Error is the failure of a disk: it is full, it cannot be written, or it is broken. A caller may try again later.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return e.what + e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// ErrorCode is the code of what comes of it for a request.
func (e *Error) ErrorCode() string { return "overloaded" }

// Failed reports whether err is the failure of a disk.
func Failed(err error) bool {
	_, failed := errors.AsType[*Error](err)
	return failed
}

// Explain adds to an error of the disk what a user can do about it.
func Explain(err error) error {
	switch {
	case Failed(err):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{"the disk is full; make room: ", err}
	case errors.Is(err, syscall.EROFS):
		return &Error{"the disk is mounted read-only; look at the system's log: ", err}
	case errors.Is(err, syscall.EIO):
		return &Error{"the disk is broken; look at the system's log: ", err}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not use the data folder; check who owns it: %w", err)
	}
	return err
}

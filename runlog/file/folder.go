package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// onDisk is the folder of a running server.
type onDisk struct {
	root *os.Root
	name string
	sync func(*os.File) error
}

func openFolder(root *os.Root, name string, sync func(*os.File) error) (folder, error) {
	if err := root.MkdirAll(name, folderMode); err != nil {
		return nil, err
	}
	d := onDisk{root, name, sync}
	return d, d.syncFolder(".")
}

// syncFolder makes the names in a folder durable. Windows does so by itself, and cannot be asked to.
func (d onDisk) syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.sync(f), f.Close())
}

func (d onDisk) path(name string) string { return d.name + "/" + name }

func (d onDisk) names() ([]string, error) {
	f, err := d.root.Open(d.name)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, errors.Join(err, f.Close())
}

func (d onDisk) open(name string) (io.ReadCloser, error) { return d.root.Open(d.path(name)) }

func (d onDisk) create(name string) (folderFile, error) {
	f, err := d.root.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	return &onDiskFile{File: f, in: d}, nil
}

func (d onDisk) remove(name string) error {
	err := d.root.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// onDiskFile is a file of it. Its name is made durable with the first of what it holds.
type onDiskFile struct {
	*os.File
	in    onDisk
	named bool
}

func (f *onDiskFile) Sync() error {
	if err := f.in.sync(f.File); err != nil || f.named {
		return err
	}
	err := f.in.syncFolder(f.in.name)
	f.named = err == nil
	return err
}

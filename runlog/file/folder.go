package file

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/lingserve/lingserve/internal/vfs"
)

// onDisk is the folder of a running server.
type onDisk struct {
	root vfs.Folder
	name string
}

func openFolder(root vfs.Folder, name string) (folder, error) {
	if err := root.Mkdir(name); err != nil {
		return nil, err
	}
	return onDisk{root, name}, root.SyncFolder(".")
}

func (d onDisk) path(name string) string { return d.name + "/" + name }

func (d onDisk) names() ([]string, error) { return vfs.Names(d.root, d.name) }

func (d onDisk) open(name string) (io.ReadCloser, error) {
	return d.root.Open(d.path(name), os.O_RDONLY)
}

func (d onDisk) create(name string) (folderFile, error) {
	f, err := d.root.Open(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY)
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
	vfs.File
	in    onDisk
	named bool
}

func (f *onDiskFile) Sync() error {
	if err := f.File.Sync(); err != nil || f.named {
		return err
	}
	err := f.in.root.SyncFolder(f.in.name)
	f.named = err == nil
	return err
}

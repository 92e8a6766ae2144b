package vfs

import (
	"io/fs"
	"strings"
	"time"
)

// Sub opens a folder below another one, and makes it where it does not exist.
func Sub(d Folder, name string) (Folder, error) {
	if err := d.Mkdir(name); err != nil {
		return nil, err
	}
	if of, ok := d.(*folder); ok { // names are looked up below a handle, without the way to it
		root, err := of.root.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		return &folder{root}, nil
	}
	return below{d, name + "/"}, nil
}

// below is a folder in another one, which it does not close.
type below struct {
	Folder
	prefix string
}

func (b below) Open(name string, flag int) (File, error) {
	return b.Folder.Open(b.prefix+name, flag)
}
func (b below) Stat(name string) (fs.FileInfo, error) { return b.Folder.Stat(b.prefix + name) }
func (b below) Mkdir(name string) error               { return b.Folder.Mkdir(b.prefix + name) }
func (b below) Remove(name string) error              { return b.Folder.Remove(b.prefix + name) }
func (b below) RemoveAll(name string) error           { return b.Folder.RemoveAll(b.prefix + name) }
func (b below) Rename(from, to string) error          { return b.Folder.Rename(b.prefix+from, b.prefix+to) }
func (b below) SyncFolder(name string) error          { return b.Folder.SyncFolder(b.path(name)) }
func (b below) Close() error                          { return nil }

func (b below) Chtimes(name string, changed time.Time) error {
	return b.Folder.Chtimes(b.prefix+name, changed)
}

func (b below) List(name string, yield func(fs.DirEntry) bool) error {
	return b.Folder.List(b.path(name), yield)
}

// path is that of a folder below, or of the folder itself.
func (b below) path(name string) string {
	if name == "." {
		return strings.TrimSuffix(b.prefix, "/")
	}
	return b.prefix + name
}

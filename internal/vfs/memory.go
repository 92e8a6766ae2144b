package vfs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// InMemory returns an empty folder in memory, which ends with the process. Each call of the [Dir] opens the same folder. A folder below it
// exists while there is a file in it, and List does not yield it.
func InMemory() Dir {
	d := &memory{files: map[string]*memoryFile{}}
	return func(bool) (Folder, error) { return d, nil }
}

// memory is a folder in memory.
type memory struct {
	mu    sync.Mutex // also of all that its files have
	files map[string]*memoryFile
}

type memoryFile struct {
	data    []byte
	changed time.Time
	lock    *memoryHandle
}

func (d *memory) fail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements [Folder].
func (d *memory) Open(name string, flag int) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, d.fail("open", name, syscall.ENOENT)
	case f != nil && flag&os.O_EXCL != 0:
		return nil, d.fail("open", name, syscall.EEXIST)
	case f == nil:
		f = &memoryFile{changed: time.Now()}
		d.files[name] = f
	case flag&os.O_TRUNC != 0:
		f.data = nil
	}
	return &memoryHandle{d: d, f: f, name: name, appends: flag&os.O_APPEND != 0}, nil
}

// Stat implements [Folder].
func (d *memory) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return nil, d.fail("lstat", name, syscall.ENOENT)
	}
	return f.info(name), nil
}

// List implements [Folder].
func (d *memory) List(name string, yield func(fs.DirEntry) bool) error {
	d.mu.Lock()
	var entries []fs.DirEntry
	for at, f := range d.files {
		if path.Dir(at) == path.Clean(name) {
			entries = append(entries, fs.FileInfoToDirEntry(f.info(at)))
		}
	}
	d.mu.Unlock()
	for _, e := range entries {
		if !yield(e) {
			break
		}
	}
	return nil
}

// Remove implements [Folder].
func (d *memory) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		return d.fail("remove", name, syscall.ENOENT)
	}
	delete(d.files, name)
	return nil
}

// RemoveAll implements [Folder].
func (d *memory) RemoveAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := range d.files {
		if at == name || strings.HasPrefix(at, name+"/") {
			delete(d.files, at)
		}
	}
	return nil
}

// Rename implements [Folder]. It renames files only.
func (d *memory) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[from]
	if f == nil {
		return d.fail("rename", from, syscall.ENOENT)
	}
	delete(d.files, from)
	d.files[to] = f
	return nil
}

// Chtimes implements [Folder].
func (d *memory) Chtimes(name string, changed time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return d.fail("chtimes", name, syscall.ENOENT)
	}
	f.changed = changed
	return nil
}

// Mkdir implements [Folder].
func (d *memory) Mkdir(string) error { return nil }

// SyncFolder implements [Folder].
func (d *memory) SyncFolder(string) error { return nil }

// Close implements [Folder].
func (d *memory) Close() error { return nil }

// memoryHandle is an open file.
type memoryHandle struct {
	d       *memory
	f       *memoryFile
	name    string
	appends bool
	at      int64
}

func (h *memoryHandle) ReadAt(p []byte, at int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.read(p, at)
}

func (h *memoryHandle) read(p []byte, at int64) (n int, err error) {
	if at < int64(len(h.f.data)) {
		n = copy(p, h.f.data[at:])
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (h *memoryHandle) Read(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n, err := h.read(p, h.at)
	h.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (h *memoryHandle) WriteAt(p []byte, at int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.write(p, at)
	return len(p), nil
}

func (h *memoryHandle) write(p []byte, at int64) {
	if more := at + int64(len(p)) - int64(len(h.f.data)); more > 0 {
		h.f.data = append(h.f.data, make([]byte, more)...)
	}
	copy(h.f.data[at:], p)
	h.f.changed = time.Now()
}

func (h *memoryHandle) Write(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.appends {
		h.at = int64(len(h.f.data))
	}
	h.write(p, h.at)
	h.at += int64(len(p))
	return len(p), nil
}

func (h *memoryHandle) Seek(offset int64, whence int) (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += h.at
	case io.SeekEnd:
		offset += int64(len(h.f.data))
	}
	if offset < 0 {
		return h.at, h.d.fail("seek", h.name, syscall.EINVAL)
	}
	h.at = offset
	return offset, nil
}

func (h *memoryHandle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	data := make([]byte, size)
	copy(data, h.f.data)
	h.f.data, h.f.changed = data, time.Now()
	return nil
}

func (h *memoryHandle) Stat() (fs.FileInfo, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.f.info(h.name), nil
}

func (h *memoryHandle) TryLock() (bool, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.f.lock == nil {
		h.f.lock = h
	}
	return h.f.lock == h, nil
}

func (h *memoryHandle) Unlock() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.f.lock == h {
		h.f.lock = nil
	}
	return nil
}

func (h *memoryHandle) Close() error { return h.Unlock() }
func (h *memoryHandle) Sync() error  { return nil }

// memoryInfo describes a file in memory.
type memoryInfo struct {
	name    string
	f       *memoryFile
	size    int64
	changed time.Time
}

func (f *memoryFile) info(name string) memoryInfo {
	return memoryInfo{path.Base(name), f, int64(len(f.data)), f.changed}
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) Mode() fs.FileMode  { return fileMode }
func (i memoryInfo) ModTime() time.Time { return i.changed }
func (i memoryInfo) IsDir() bool        { return false }
func (i memoryInfo) Sys() any           { return nil }

// SameFile implements the interface that [SameFile] asks for.
func (i memoryInfo) SameFile(as fs.FileInfo) bool {
	other, ok := as.(memoryInfo)
	return ok && other.f == i.f
}

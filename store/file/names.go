package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// A log's file has its name, with + for /. A name that is too long for a file is in the file's first line, and the file's name has a hash.
const (
	longestFile = 200
	hashed      = "+" // no other file begins with it
)

// fileOf returns where a log lies.
func (s *Space) fileOf(name string) (path, end string, f framing) {
	if s.codec != nil {
		if file, ok := s.codec.File(name); ok {
			return file, s.codec.End(), coded{s.codec}
		}
	}
	file := strings.ReplaceAll(name, "/", "+")
	if len(file) > longestFile {
		sum := sha256.Sum256([]byte(name))
		file = hashed + hex.EncodeToString(sum[:])
	}
	return file, logEnd, own{}
}

// nameOf returns the name of the log in a file.
func (s *Space) nameOf(file string) (name string, ok bool) {
	if s.codec != nil {
		if base, ok := strings.CutSuffix(file, s.codec.End()); ok {
			return s.codec.Name(base)
		}
	}
	base, ok := strings.CutSuffix(file, logEnd)
	switch {
	case !ok || base == "":
		return "", false
	case strings.HasPrefix(base, hashed):
		return s.readName(file)
	}
	return strings.ReplaceAll(base, "+", "/"), true
}

// readName reads the name of a log in the first line of its file.
func (s *Space) readName(file string) (name string, ok bool) {
	f, err := s.disk.Open(file, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text := make([]byte, 4<<10)
	n, _ := f.ReadAt(text, 0)
	line, _, whole := bytes.Cut(text[:n], []byte{'\n'})
	if !whole || len(line) < 1+sumSize || line[0] != lineBegin {
		return "", false
	}
	body := reader{rest: unescape(line[1 : len(line)-sumSize])}
	body.take(8)
	body.varint()
	name = string(body.bytes())
	if _, err := (own{}).parse(name, line); err != nil || body.bad {
		return "", false
	}
	return name, true
}

// below is a folder in another one.
type below struct {
	vfs.Folder
	prefix string
}

func (b below) Open(name string, flag int) (vfs.File, error) {
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

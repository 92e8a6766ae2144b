package platform

import (
	"cmp"
	"errors"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

const (
	// DefaultMaxMedia is how large one file may be, in bytes, where the settings do not say.
	DefaultMaxMedia = 10 << 20
	defaultTotal    = 1 << 30
)

var (
	// ErrTooLarge says that a file has more bytes than [MediaStore].Limit.
	ErrTooLarge = errors.New("media: the file is too large")
	// ErrNoName says that a file has no id that could name it.
	ErrNoName = errors.New("media: the file has no id to be named by")
)

// MediaStore is one channel's part of the folder of media. Its fields are not changed while it is used. It may be used by several goroutines.
type MediaStore struct {
	Dir    string // absolute; "" keeps and has nothing
	Prefix string // what the names of the channel's files begin with: "telegram-"
	Limit  int64  // bytes of one file
	Total  int64  // bytes of all files with the prefix; 0 is 1 GiB

	mu sync.Mutex // of pruning
}

// Name is the name of a file in the store: the id that the platform has for it, or as much of that as a name may have, and the end
// of the name that its sender calls it, for agents and their tools look at that. Where that has none, otherwise is the end: ".jpg", or
// "". It is "" for an id that is no name.
func (s *MediaStore) Name(id, called, otherwise string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, id)
	if clean == "" || len(clean) > 64 {
		return ""
	}
	return s.Prefix + clean + cmp.Or(Ending(called), otherwise)
}

// Ending is the end of a name in small letters, ".pdf", if there is nothing in it but letters and digits, and few of them; else "".
func Ending(name string) string {
	end := strings.ToLower(path.Ext(name))
	if len(end) < 2 || len(end) > 6 || strings.Trim(end[1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return end
}

// Find returns the path and the size of a file that is kept already, by its name. Such a file goes later than others.
func (s *MediaStore) Find(name string) (path string, size int64, ok bool) {
	if name == "" {
		return "", 0, false
	}
	folder, err := vfs.At(s.Dir)(false)
	if err != nil {
		return "", 0, false
	}
	defer folder.Close()
	info, err := folder.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, false
	}
	_ = folder.Chtimes(name, time.Now())
	return filepath.Join(s.Dir, name), info.Size(), true
}

// Put keeps what fill writes under a name, and returns where it is and how large. What fill returns is returned as it is; a writer that
// was given more than Limit bytes returns [ErrTooLarge].
func (s *MediaStore) Put(name string, fill func(io.Writer) error) (path string, size int64, err error) {
	if !filepath.IsLocal(name) {
		return "", 0, ErrNoName
	}
	folder, err := vfs.At(s.Dir)(true)
	if err != nil {
		return "", 0, err
	}
	defer folder.Close()
	w := &limited{left: s.Limit}
	err = vfs.CacheFile(folder, name, func(to io.Writer) error {
		w.to = to
		return fill(w)
	})
	if err != nil {
		return "", 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	vfs.RemoveOldest(folder, s.Prefix, cmp.Or(s.Total, defaultTotal), name)
	return filepath.Join(s.Dir, name), w.n, nil
}

// limited writes at most so many bytes: the size that a platform gives may be wrong.
type limited struct {
	to   io.Writer
	left int64
	n    int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, ErrTooLarge
	}
	n, err := l.to.Write(p)
	l.left -= int64(n)
	l.n += int64(n)
	return n, err
}

// Read reads a file of the media folder that is to be sent, of at most so many bytes, and of nowhere else, even if an agent names another: it
// need not be one that the channel has put there.
func (s *MediaStore) Read(path string, limit int64) ([]byte, error) {
	if s.Dir == "" {
		return nil, errors.New("no media folder is configured")
	}
	root, err := channel.OpenMediaRoot(s.Dir, limit)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

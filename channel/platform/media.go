package platform

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
)

const (
	// defaultMaxMedia is how large one file may be, in bytes, where the settings do not say.
	defaultMaxMedia = 10 << 20
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

	// Fetch writes the content of a file that is to be stored.
	Fetch func(context.Context, Attachment, io.Writer) error
	Log   *slog.Logger // names the channel

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
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", 0, false
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, false
	}
	_ = root.Chtimes(name, time.Now(), time.Now())
	return filepath.Join(s.Dir, name), info.Size(), true
}

// Put keeps what fill writes under a name, and returns where it is and how large. What fill returns is returned as it is; a writer that
// was given more than Limit bytes returns [ErrTooLarge].
func (s *MediaStore) Put(name string, fill func(io.Writer) error) (path string, size int64, err error) {
	if !filepath.IsLocal(name) {
		return "", 0, ErrNoName
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", 0, err
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	beside := besidePrefix + rand.Text()
	size, err = s.write(root, beside, fill)
	if err == nil {
		err = root.Rename(beside, name)
	}
	if err != nil {
		_ = root.Remove(beside)
		return "", 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(root, name)
	return filepath.Join(s.Dir, name), size, nil
}

// write writes a new file. It can be lost with the machine's power: the platform has it, too.
func (s *MediaStore) write(root *os.Root, name string, fill func(io.Writer) error) (size int64, err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	w := &limited{to: f, left: s.Limit}
	err = fill(w)
	return w.n, errors.Join(err, f.Close())
}

const (
	// besidePrefix begins the names of files that are being written.
	besidePrefix = ".new-"
	// besideTime is longer than it takes to write a file: one that is older was left by a process that died.
	besideTime = time.Hour
)

// prune removes the files that were used longest ago, until the rest has no more than Total bytes. keep stays. What cannot be removed stays until
// the next time.
func (s *MediaStore) prune(root *os.Root, keep string) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	var total int64
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(e.Name(), besidePrefix):
			if time.Since(info.ModTime()) > besideTime {
				_ = root.Remove(e.Name())
			}
		case strings.HasPrefix(e.Name(), s.Prefix):
			total += info.Size()
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total <= cmp.Or(s.Total, defaultTotal) {
			return
		}
		if info.Name() != keep && root.Remove(info.Name()) == nil {
			total -= info.Size()
		}
	}
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
// need not be one that the channel has put there. An error is a [*channel.NotSentError].
func (s *MediaStore) Read(path string, limit int64) ([]byte, error) {
	data, err := s.read(path, limit)
	if err != nil {
		return nil, &channel.NotSentError{Err: fmt.Errorf("read a file to send: %w", err)}
	}
	return data, nil
}

func (s *MediaStore) read(path string, limit int64) ([]byte, error) {
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

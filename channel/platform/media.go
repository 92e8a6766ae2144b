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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
)

const (
	defaultMaxMedia = 10 << 20 // bytes of one file
	defaultTotal    = 1 << 30  // bytes of all files of a channel
)

// ErrTooLarge says that a file has more bytes than [MediaStore].Limit.
var ErrTooLarge = errors.New("media: the file is too large")

// Attachment is a file of a message, as a platform describes it.
type Attachment struct {
	Fact   channel.MediaFact
	ID     string // of the content: the file is stored by it
	Name   string // as the sender calls it
	Ending string // of a file whose name has none: ".jpg", or ""
	Source string // what the channel loads it from, such as an address
}

// MediaKind returns the kind of files of a media type.
func MediaKind(contentType string) channel.MediaKind {
	family, _, _ := strings.Cut(contentType, "/")
	if kind := channel.MediaKind(family); kind == channel.MediaImage || kind == channel.MediaVideo || kind == channel.MediaAudio {
		return kind
	}
	return channel.MediaDocument
}

// Ending returns the ending of a name in small letters, ".pdf", if it has one to five letters and digits; else "".
func Ending(name string) string {
	ending := strings.ToLower(path.Ext(name))
	if len(ending) < 2 || len(ending) > 6 || strings.Trim(ending[1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return ending
}

func factsOf(list []Attachment) (all []channel.MediaFact) {
	for _, a := range list {
		all = append(all, a.Fact)
	}
	return all
}

// MediaStore is one channel's part of the media folder. Its fields are not changed while it is used. Several goroutines may use it.
type MediaStore struct {
	Dir    string // absolute; "": no file is loaded
	Prefix string // of the names of the channel's files: "telegram-"
	Limit  int64  // bytes of one file
	Total  int64  // bytes of all files with the prefix; 0 is 1 GiB

	// Fetch writes the content of a file that is to be stored.
	Fetch func(context.Context, Attachment, io.Writer) error
	Log   *slog.Logger // names the channel
}

// Load loads files, and returns their facts, and notes for the agent on those that it does not load.
func (s *MediaStore) Load(ctx context.Context, list []Attachment) (all []channel.MediaFact, notes []string) {
	for _, a := range list {
		what := string(a.Fact.Kind)
		if a.Name != "" {
			what += " " + strconv.Quote(a.Name)
		}
		var err error
		switch {
		case a.Fact.Size > s.Limit:
			notes = append(notes, fmt.Sprintf("[%s is too large: %d bytes; expected at most %d]", what, a.Fact.Size, s.Limit))
		case s.Dir != "":
			a.Fact, err = s.load(ctx, a)
		}
		switch {
		case errors.Is(err, ErrTooLarge):
			notes = append(notes, fmt.Sprintf("[%s is too large; expected at most %d bytes]", what, s.Limit))
		case err != nil:
			s.Log.WarnContext(ctx, "cannot load a message's file", "kind", a.Fact.Kind, "error", err)
			notes = append(notes, fmt.Sprintf("[%s could not be loaded]", what))
		}
		all = append(all, a.Fact)
	}
	return all, notes
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// load returns the fact of a file with its path and size. It fetches the file unless it is stored already.
func (s *MediaStore) load(ctx context.Context, a Attachment) (channel.MediaFact, error) {
	id := unsafeInNames.ReplaceAllString(a.ID, "")
	if id == "" || len(id) > 64 {
		return a.Fact, errors.New("media: the file has no id to be named by")
	}
	err := os.MkdirAll(s.Dir, 0o700)
	if err != nil {
		return a.Fact, err
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return a.Fact, err
	}
	defer root.Close()
	name := s.Prefix + id + cmp.Or(Ending(a.Name), a.Ending)
	info, err := root.Lstat(name)
	if err == nil && info.Mode().IsRegular() {
		_ = root.Chtimes(name, time.Now(), time.Now()) // prune removes the files that were used longest ago
	} else if info, err = s.fetch(ctx, root, name, a); err != nil {
		return a.Fact, err
	}
	a.Fact.Path, a.Fact.Size = filepath.Join(s.Dir, name), info.Size()
	return a.Fact, nil
}

// fetch stores a file under a name, in full or not at all. A crash may leave a part of it under another name, which prune removes.
func (s *MediaStore) fetch(ctx context.Context, root *os.Root, name string, a Attachment) (fs.FileInfo, error) {
	part := s.Prefix + rand.Text()
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(s.Fetch(ctx, a, &limitedWriter{f, s.Limit}), f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part)
		return nil, err
	}
	s.prune(root, name)
	return root.Lstat(name)
}

// limitedWriter writes at most so many bytes: the size that a platform names may be wrong.
type limitedWriter struct {
	io.Writer
	rest int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.rest {
		return 0, ErrTooLarge
	}
	l.rest -= int64(len(p))
	return l.Writer.Write(p)
}

// prune removes the files that were used longest ago, until the rest has no more than Total bytes. The file keep stays.
func (s *MediaStore) prune(root *os.Root, keep string) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	var total int64
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), s.Prefix) {
			total += info.Size()
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total > cmp.Or(s.Total, defaultTotal) && info.Name() != keep {
			_ = root.Remove(info.Name())
			total -= info.Size()
		}
	}
}

// Read reads a file that is to be sent, of at most so many bytes. It reads files of the media folder alone, whichever an agent names. An error is a
// [*channel.NotSentError].
func (s *MediaStore) Read(path string, limit int64) (data []byte, err error) {
	var root *channel.MediaRoot // nil: no folder is configured, and its Open says so
	if s.Dir != "" {
		if root, err = channel.OpenMediaRoot(s.Dir, limit); err == nil {
			defer root.Close()
		}
	}
	if err == nil {
		data, err = readMedia(root, path)
	}
	if err != nil {
		return nil, &channel.NotSentError{Err: fmt.Errorf("read a file to send: %w", err)}
	}
	return data, nil
}

func readMedia(root *channel.MediaRoot, path string) ([]byte, error) {
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

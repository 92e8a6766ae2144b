package channel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// MediaRoot is the folder of local media. No path and no link leads out of it. A nil MediaRoot refuses all paths.
type MediaRoot struct {
	root *os.Root
	dir  string // absolute
	max  int64  // bytes of a file
}

const defaultMediaSize = 10 << 20

// OpenMediaRoot opens the folder and creates it if necessary. maxSize is the maximum of a file in bytes; 0 is 10 MiB.
func OpenMediaRoot(dir string, maxSize int64) (*MediaRoot, error) {
	m := &MediaRoot{max: cmp.Or(max(maxSize, 0), defaultMediaSize)}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		m.dir, err = filepath.Abs(dir)
	}
	if err == nil {
		m.root, err = os.OpenRoot(m.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("media folder: %w", err)
	}
	return m, nil
}

// Close closes the folder.
func (m *MediaRoot) Close() error { return m.root.Close() }

// The reasons to refuse a medium. They have no paths, which may come from a platform.
var (
	errMediaOutside = errors.New("the file is not in the media folder")
	errMediaMissing = errors.New("the file cannot be opened")
	errMediaFile    = errors.New("this is not a regular file")
)

// Open opens a regular file in the folder that is not too large.
func (m *MediaRoot) Open(path string) (*os.File, error) {
	if m == nil {
		return nil, errors.New("no media folder is configured")
	}
	if filepath.IsAbs(path) {
		path, _ = filepath.Rel(m.dir, path) // "" if there is none, which is not local
	}
	if !filepath.IsLocal(path) {
		return nil, errMediaOutside
	}
	// Opening a pipe would wait for a writer, and opening a device can have effects.
	info, err := m.root.Stat(path)
	switch {
	case err != nil:
		return nil, errMediaMissing
	case !info.Mode().IsRegular():
		return nil, errMediaFile
	case info.Size() > m.max:
		return nil, fmt.Errorf("the file has %d bytes; expected at most %d", info.Size(), m.max)
	}
	f, err := m.root.Open(path)
	if err != nil {
		return nil, errMediaMissing
	}
	return f, nil
}

// Check returns the medium to use. If its file must not be used, it has no path, and the error is the reason. A medium without a path passes.
func (m *MediaRoot) Check(f MediaFact) (MediaFact, error) {
	if f.Path == "" {
		return f, nil
	}
	err := m.checkFile(&f)
	if err != nil {
		f.Path = ""
	}
	return f, err
}

// checkFile checks that the content of a file fits its kind, and notes its size. Images, audio and video go to decoders; documents can have any content.
func (m *MediaRoot) checkFile(f *MediaFact) error {
	file, err := m.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, 512))
	if err != nil {
		return errMediaMissing
	}
	kind := f.Kind
	if kind == "" || kind == MediaUnknown {
		kind = kindOf(strings.ToLower(strings.TrimSpace(f.ContentType)))
	}
	if !fits(kind, head) {
		return fmt.Errorf("the file's content is not of the declared kind %s", kind)
	}
	info, err := file.Stat()
	if err == nil {
		f.Size = info.Size()
	}
	return err
}

// fits reports whether a file with these first bytes may be used as a medium of a kind.
func fits(kind MediaKind, head []byte) bool {
	contentType := http.DetectContentType(head)
	family, _, _ := strings.Cut(contentType, "/")
	unknown := contentType == "application/octet-stream" && len(head) > 0
	switch kind {
	case MediaImage:
		return family == "image" || unknown && len(head) > 11 && string(head[4:8]) == "ftyp" // HEIC and AVIF
	case MediaVideo, MediaAudio: // they have the same containers, more than the standard library knows
		return family == "video" || family == "audio" || contentType == "application/ogg" || unknown
	}
	return true
}

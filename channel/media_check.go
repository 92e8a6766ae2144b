package channel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MediaRoot is the folder of local media. No path and no link leads out of it. A nil MediaRoot refuses all paths.
type MediaRoot struct {
	root *os.Root
	dirs []string // absolute paths of the folder
	max  int64    // bytes of a file
}

const defaultMediaSize = 10 << 20

// OpenMediaRoot opens the folder and creates it if necessary. maxSize is the maximum of a file in bytes; 0 is 10 MiB.
func OpenMediaRoot(dir string, maxSize int64) (*MediaRoot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("media folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("media folder: %w", err)
	}
	m := &MediaRoot{root: root, max: cmp.Or(max(maxSize, 0), defaultMediaSize)}
	if abs, err := filepath.Abs(dir); err == nil {
		m.dirs = append(m.dirs, abs)
		if plain, err := filepath.EvalSymlinks(abs); err == nil && plain != abs {
			m.dirs = append(m.dirs, plain)
		}
	}
	return m, nil
}

// Close closes the folder.
func (m *MediaRoot) Close() error { return m.root.Close() }

// The reasons to refuse a medium. They have no paths, which may come from a platform.
var (
	errNoMediaRoot  = errors.New("no media folder is configured")
	errMediaOutside = errors.New("the file is not in the media folder")
	errMediaMissing = errors.New("the file cannot be opened")
	errMediaFile    = errors.New("this is not a regular file")
)

// local returns the path relative to the folder.
func (m *MediaRoot) local(path string) (string, bool) {
	if !filepath.IsAbs(path) {
		return path, filepath.IsLocal(path)
	}
	for _, dir := range m.dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

// Open opens a regular file in the folder that is not too large.
func (m *MediaRoot) Open(path string) (*os.File, error) {
	if m == nil {
		return nil, errNoMediaRoot
	}
	name, ok := m.local(path)
	if !ok {
		return nil, errMediaOutside
	}
	// Opening a pipe would wait for a writer, and opening a device can have effects.
	info, err := m.root.Stat(name)
	switch {
	case err != nil:
		return nil, errMediaMissing
	case !info.Mode().IsRegular():
		return nil, errMediaFile
	case info.Size() > m.max:
		return nil, fmt.Errorf("the file has %d bytes; expected at most %d", info.Size(), m.max)
	}
	f, err := m.root.Open(name)
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
	size, err := m.checkFile(f)
	if err != nil {
		f.Path = ""
		return f, err
	}
	f.Size = size
	return f, nil
}

// checkFile returns the size of a file whose content fits its kind.
func (m *MediaRoot) checkFile(f MediaFact) (size int64, err error) {
	file, err := m.Open(f.Path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, errMediaMissing
	}
	info, err := file.Stat()
	if err != nil {
		return 0, errMediaMissing
	}
	if kind := declaredKind(f); !fits(kind, sniff(head[:n])) {
		return 0, fmt.Errorf("the file's content is not of the declared kind %s", kind)
	}
	return info.Size(), nil
}

// declaredKind returns the kind of a medium, or else that of its type.
func declaredKind(f MediaFact) MediaKind {
	if f.Kind != "" && f.Kind != MediaUnknown {
		return f.Kind
	}
	if kind := kindOf(strings.ToLower(strings.TrimSpace(f.ContentType))); kind != MediaDocument {
		return kind
	}
	return MediaUnknown
}

// fits reports whether a file with content of one kind may be used as another. Images, audio and video go to decoders; documents can have
// any content.
func fits(declared, content MediaKind) bool {
	switch declared {
	case MediaImage:
		return content == MediaImage
	case MediaVideo, MediaAudio: // they have the same containers
		return content == MediaVideo || content == MediaAudio
	}
	return true
}

// signatures are the beginnings of files whose kind [http.DetectContentType] does not know.
var signatures = map[MediaKind][]string{
	MediaImage: {"II*\x00", "MM\x00*"}, // TIFF
	MediaAudio: {"fLaC", "OggS", "#!AMR"},
	MediaVideo: {"\x1aE\xdf\xa3", "\x00\x00\x01\xba", "\x00\x00\x01\xb3", "FLV\x01"},
}

// sniff returns the kind of a file from its first bytes.
func sniff(b []byte) MediaKind {
	head := string(b)
	if len(head) >= 8 && head[4:8] == "ftyp" { // MP4, and formats like it
		switch head[8:min(len(head), 11)] {
		case "avi", "hei", "hev", "mif", "msf":
			return MediaImage
		case "M4A", "M4B":
			return MediaAudio
		}
		return MediaVideo
	}
	for kind, list := range signatures {
		if slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(head, s) }) {
			return kind
		}
	}
	if len(b) > 1 && b[0] == 0xff && b[1] >= 0xe0 && b[1] != 0xfe { // a frame of MP3 or AAC; not UTF-16
		return MediaAudio
	}
	return kindOf(http.DetectContentType(b))
}

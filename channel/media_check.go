package channel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// MediaRoot is the folder that local media lie below. Nothing else is opened for anybody: no path leads out of it, by a link neither.
// A nil one refuses every path.
type MediaRoot struct {
	root *os.Root
	dirs []string // what absolute paths begin with
	max  int64
}

// defaultMediaSize is how large a local medium may be.
const defaultMediaSize = 10 << 20

// OpenMediaRoot opens the folder, which is made where it is not there. maxSize is of one file, in bytes; 0 is 10 MiB.
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

// Close lets the folder go.
func (m *MediaRoot) Close() error { return m.root.Close() }

// The reasons to refuse a medium. They hold no path: it may come from a platform.
var (
	errNoMediaRoot  = errors.New("no media folder is configured")
	errMediaOutside = errors.New("the file is not in the media folder")
	errMediaMissing = errors.New("the file cannot be opened")
	errMediaFile    = errors.New("this is not a regular file")
)

// local is a path relative to the root.
func (m *MediaRoot) local(path string) (string, error) {
	if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", errMediaOutside
		}
		return path, nil
	}
	for _, dir := range m.dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", errMediaOutside
}

// Open opens a local medium: an ordinary file below the root that is not too large.
func (m *MediaRoot) Open(path string) (*os.File, error) {
	if m == nil {
		return nil, errNoMediaRoot
	}
	name, err := m.local(path)
	if err != nil {
		return nil, err
	}
	// Before it is opened: a pipe would wait for its writer, and some devices do things when they are opened. The root sees to it that
	// what is put there in between does not lead out of it, and openMedia waits for nothing.
	if info, err := m.root.Stat(name); err != nil {
		return nil, errMediaMissing
	} else if !info.Mode().IsRegular() {
		return nil, errMediaFile
	}
	f, err := m.root.OpenFile(name, openMedia, 0)
	if err != nil {
		return nil, errMediaMissing
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = errMediaMissing
	case !info.Mode().IsRegular():
		err = errMediaFile
	case info.Size() > m.max:
		err = fmt.Errorf("the file has %d bytes; expected at most %d", info.Size(), m.max)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Check implements [MediaChecker]: the medium as it may be used. A path that is not to be opened is cleared, and the error says why;
// it is a warning. What has no path passes.
func (m *MediaRoot) Check(f MediaFact) (MediaFact, error) {
	if f.Path == "" {
		return f, nil
	}
	refuse := func(err error) (MediaFact, error) {
		f.Path = ""
		return f, err
	}
	file, err := m.Open(f.Path)
	if err != nil {
		return refuse(err)
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(errMediaMissing)
	}
	info, err := file.Stat()
	if err != nil {
		return refuse(errMediaMissing)
	}
	kind := claimedKind(f)
	if sniffed := sniff(head[:n]); !fits(kind, sniffed) {
		return refuse(fmt.Errorf("the file's content is not of the declared kind %s", kind))
	}
	f.Size = info.Size()
	return f, nil
}

// claimedKind is the kind that a medium is said to have: where none is said, that of its type.
func claimedKind(f MediaFact) MediaKind {
	if f.Kind != "" && f.Kind != MediaUnknown {
		return f.Kind
	}
	major, _, _ := strings.Cut(strings.ToLower(f.ContentType), "/")
	switch k := MediaKind(strings.TrimSpace(major)); k {
	case MediaImage, MediaVideo, MediaAudio:
		return k
	}
	return MediaUnknown
}

// fits says whether a file that begins like a kind may be used as another. A document may be anything; pictures, films and sounds
// go to code that decodes them.
func fits(said, is MediaKind) bool {
	switch said {
	case MediaImage:
		return is == MediaImage
	case MediaVideo, MediaAudio: // the containers are the same
		return is == MediaVideo || is == MediaAudio
	}
	return true
}

// sniff says what a file is by what it begins with.
func sniff(b []byte) MediaKind {
	at := func(offset int, text string) bool {
		return len(b) >= offset+len(text) && string(b[offset:offset+len(text)]) == text
	}
	switch {
	case at(0, "\x89PNG\r\n\x1a\n"), at(0, "\xff\xd8\xff"), at(0, "GIF87a"), at(0, "GIF89a"), at(0, "RIFF") && at(8, "WEBP"),
		at(0, "II*\x00"), at(0, "MM\x00*"), isBMP(b):
		return MediaImage
	case at(0, "ID3"), at(0, "fLaC"), at(0, "OggS"), at(0, "RIFF") && at(8, "WAVE"), at(0, "FORM") && at(8, "AIFF"),
		at(0, "#!AMR"), at(0, "MThd"), isMPEGAudio(b):
		return MediaAudio
	case at(0, "\x1aE\xdf\xa3"), at(0, "RIFF") && at(8, "AVI "), at(0, "\x00\x00\x01\xba"), at(0, "\x00\x00\x01\xb3"), at(0, "FLV\x01"):
		return MediaVideo
	case at(4, "ftyp"):
		switch brand := string(b[8:min(len(b), 12)]); {
		case strings.HasPrefix(brand, "avif"), strings.HasPrefix(brand, "avis"), strings.HasPrefix(brand, "hei"),
			strings.HasPrefix(brand, "hev"), strings.HasPrefix(brand, "mif1"), strings.HasPrefix(brand, "msf1"):
			return MediaImage
		case strings.HasPrefix(brand, "M4A"), strings.HasPrefix(brand, "M4B"):
			return MediaAudio
		}
		return MediaVideo
	case at(0, "%PDF-"):
		return MediaDocument
	}
	return MediaUnknown
}

// isBMP looks at more than the two letters, which any text may begin with: the four bytes after the size are zero.
func isBMP(b []byte) bool {
	return len(b) >= 14 && b[0] == 'B' && b[1] == 'M' && bytes.Equal(b[6:10], []byte{0, 0, 0, 0}) &&
		binary.LittleEndian.Uint32(b[10:]) >= 26
}

// isMPEGAudio says whether a frame of MP3 or AAC begins here.
func isMPEGAudio(b []byte) bool {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 {
		return false
	}
	if b[1]&0xf6 == 0xf0 { // AAC: layer 0
		return b[2]>>2&15 < 13
	}
	return b[1]&0x18 != 0x08 && b[1]&0x06 != 0 && b[2]&0xf0 != 0xf0 && b[2]&0x0c != 0x0c
}

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
	// Opening a pipe would wait for a writer, and opening a device can have effects. If the file is replaced after this check, the root
	// still keeps it inside of the folder, and openMedia does not wait.
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

// Check implements [MediaChecker]. A medium without a path passes.
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

// sniff returns the kind of a file from its first bytes.
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
		switch {
		case at(8, "avif"), at(8, "avis"), at(8, "hei"), at(8, "hev"), at(8, "mif1"), at(8, "msf1"):
			return MediaImage
		case at(8, "M4A"), at(8, "M4B"):
			return MediaAudio
		}
		return MediaVideo
	case at(0, "%PDF-"):
		return MediaDocument
	}
	return MediaUnknown
}

// isBMP also checks the four zero bytes after the size: any text can begin with BM.
func isBMP(b []byte) bool {
	return len(b) >= 14 && b[0] == 'B' && b[1] == 'M' && bytes.Equal(b[6:10], []byte{0, 0, 0, 0}) &&
		binary.LittleEndian.Uint32(b[10:]) >= 26
}

// isMPEGAudio reports whether b begins with a frame of MP3 or AAC.
func isMPEGAudio(b []byte) bool {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 {
		return false
	}
	if b[1]&0xf6 == 0xf0 { // AAC: layer 0
		return b[2]>>2&15 < 13
	}
	return b[1]&0x18 != 0x08 && b[1]&0x06 != 0 && b[2]&0xf0 != 0xf0 && b[2]&0x0c != 0x0c
}

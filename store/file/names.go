package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
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
	return file, logEnd, own{sumOfName(name)}
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
	if _, err := (own{sumOfName(name)}).parse(line); err != nil || body.bad {
		return "", false
	}
	return name, true
}

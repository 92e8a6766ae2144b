package tape

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	maxName    = 240 // bytes; a file system takes 255, and a store adds an ending
	maxSession = 512 // bytes of a session id
)

// Name is the name of a session's tape: half of the MD5 of the workspace's path, absolute and with its links resolved,
// and half of that of the session id. The hash makes a file name; it protects nothing.
func Name(workspace, session string) string {
	return nameOf(ResolveWorkspace(workspace), session)
}

func nameOf(resolved, session string) string { return half(resolved) + "__" + half(session) }

func half(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// ResolveWorkspace is the path of a workspace as names are made of it: absolute, with links resolved. Of a folder that
// does not exist, the part that does is resolved.
func ResolveWorkspace(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil { // the working directory is gone
		abs = filepath.Clean(path)
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return abs
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// CheckName says what keeps name from being a tape's: stores take names of 1–240 of the characters a–z, 0–9, '_', '-' and
// '.', that begin with a letter or digit, and use them as file names.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" || strings.ContainsAny(name[:1], "_-.") {
		return fmt.Errorf("%w: invalid tape name; expected 1–%d of a–z, 0–9, '_', '-' and '.', found %.300q", ErrInvalid, maxName, name)
	}
	return nil
}

// CheckSession says what keeps id from being a session's: it is UTF-8 of 1–512 bytes without control characters.
func CheckSession(id string) error {
	if id == "" || len(id) > maxSession {
		return fmt.Errorf("%w: invalid session id; expected 1–%d bytes, found %d", ErrInvalid, maxSession, len(id))
	}
	if !utf8.ValidString(id) {
		return fmt.Errorf("%w: the session id %q is invalid; expected UTF-8", ErrInvalid, id)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }) {
		return fmt.Errorf("%w: the session id %q contains control characters; remove them", ErrInvalid, id)
	}
	return nil
}

// OwnerOf returns the owner of a session: its id before '#', or "" without one.
func OwnerOf(session string) string {
	owner, _, found := strings.Cut(session, "#")
	if !found {
		return ""
	}
	return owner
}

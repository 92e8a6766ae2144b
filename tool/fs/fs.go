// Package fs has the tools fs.read and fs.list, which look at the files below an agent's workspace and change nothing.
//
// # Guarantees
//   - Nothing outside of the workspace is opened, whatever a path says and wherever a link in it leads.
//   - What a call reads and returns is bounded, whatever lies there; a pipe or a device keeps nobody waiting.
//   - No path of the machine is in a result: paths are relative to the workspace.
package fs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

const (
	usualLimit = 12 << 10 // bytes of a file: a result that is kept where it is
	maxLimit   = 64 << 10
	maxEntries = 500     // of a folder, in one result
	maxLooked  = 100_000 // entries of a folder that can be listed
)

type workspace struct{ dir string }

// Tools makes fs.read and fs.list for a workspace, the path of a folder. The folder need not be there yet.
func Tools(dir string) ([]*tool.Tool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := workspace{dir}
	return []*tool.Tool{
		tool.Must(tool.New("fs.read", "Reads a text file of the workspace, or a part of it.", w.read, tool.WithIdempotent())),
		tool.Must(tool.New("fs.list", "Lists the files and folders in a folder of the workspace.", w.list, tool.WithIdempotent())),
	}, nil
}

type readIn struct {
	Path   string `json:"path" jsonschema:"the file's path, relative to the workspace"`
	Offset int64  `json:"offset,omitempty" jsonschema:"the byte to begin at; 0 is the first"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many bytes to read at most; 12288 unless told, never more than 65536"`
}

type readOut struct {
	Text string `json:"text"`
	Size int64  `json:"size"`           // of the file, in bytes
	Next int64  `json:"next,omitempty"` // the offset of what follows; absent at the end
}

func (w workspace) read(ctx context.Context, in readIn) (out readOut, err error) {
	if in.Offset < 0 || in.Limit < 0 {
		return out, arguments("expected an offset and a limit of 0 or more")
	}
	limit := cmp.Or(min(in.Limit, maxLimit), usualLimit)
	f, info, err := w.open(in.Path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	switch {
	case info.IsDir():
		return out, failed("%s is a folder; use fs_list", short(in.Path))
	case !info.Mode().IsRegular():
		return out, failed("%s is not a regular file", short(in.Path))
	case in.Offset > info.Size():
		return out, arguments(fmt.Sprintf("the file has only %d bytes; expected a smaller offset", info.Size()))
	}
	// Some more on both sides, for characters that the offset and the limit would cut.
	start := max(0, in.Offset-utf8.UTFMax)
	text := make([]byte, int(in.Offset-start)+limit+utf8.UTFMax)
	n, err := f.ReadAt(text, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return out, w.trouble(in.Path, err)
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	begin, end := Page(text[:n], int(in.Offset-start), limit)
	chunk := text[begin:end]
	if !utf8.Valid(chunk) || bytes.IndexByte(chunk, 0) >= 0 {
		return out, failed("%s is not text", short(in.Path))
	}
	out = readOut{Text: string(chunk), Size: info.Size()}
	if next := start + int64(end); next < info.Size() && end > begin {
		out.Next = next
	}
	return out, nil
}

// Page returns the bounds of the part of a text that begins at an offset and has at most limit bytes, moved to the borders of
// characters. It has one character at least, unless the text ends before.
func Page(text []byte, offset, limit int) (begin, end int) {
	begin = back(text, min(offset, len(text)))
	if end = back(text, min(begin+limit, len(text))); end <= begin && begin < len(text) {
		_, size := utf8.DecodeRune(text[begin:])
		end = begin + size
	}
	return begin, end
}

// back moves an offset to the begin of the character that it is in.
func back(text []byte, at int) int {
	for i := at; i >= 0 && i < len(text) && at-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}

type listIn struct {
	Path  string `json:"path,omitempty" jsonschema:"the folder's path, relative to the workspace; the workspace itself unless told"`
	After string `json:"after,omitempty" jsonschema:"the name after which to go on, for a folder with many files"`
}

type listOut struct {
	Entries []entry `json:"entries"`
	More    bool    `json:"more,omitempty"` // go on after the last name
}

type entry struct {
	Name string `json:"name"`
	Type string `json:"type"` // "file", "folder", "link" or "other"
	Size *int64 `json:"size,omitempty"`
}

func (w workspace) list(ctx context.Context, in listIn) (listOut, error) {
	out := listOut{Entries: []entry{}}
	if in.Path == "" {
		in.Path = "."
	}
	f, info, err := w.open(in.Path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if !info.IsDir() {
		return out, failed("%s is not a folder; use fs_read", short(in.Path))
	}
	all, err := f.ReadDir(maxLooked)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return out, w.trouble(in.Path, err)
	case ctx.Err() != nil:
		return out, ctx.Err()
	case len(all) == maxLooked:
		return out, failed("%s has too many files", short(in.Path))
	}
	all = slices.DeleteFunc(all, func(e os.DirEntry) bool { return e.Name() <= in.After })
	slices.SortFunc(all, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	out.More = len(all) > maxEntries
	for _, e := range all[:min(len(all), maxEntries)] {
		one := entry{Name: strings.ToValidUTF8(e.Name(), "\uFFFD"), Type: "other"}
		switch {
		case e.IsDir():
			one.Type = "folder"
		case e.Type()&iofs.ModeSymlink != 0:
			one.Type = "link"
		case e.Type().IsRegular():
			one.Type = "file"
			if info, err := e.Info(); err == nil {
				one.Size = new(info.Size())
			}
		}
		out.Entries = append(out.Entries, one)
	}
	return out, nil
}

// open opens what a path names, and says what it is. No folder is held open between two calls.
func (w workspace) open(path string) (*os.File, os.FileInfo, error) {
	if strings.ContainsRune(path, 0) {
		return nil, nil, arguments("the path has an invalid character")
	}
	name := filepath.FromSlash(path)
	if filepath.IsAbs(name) { // models know where they are, and say so
		relative, err := filepath.Rel(w.dir, name)
		if err != nil {
			return nil, nil, outside(path)
		}
		name = relative
	}
	if name = filepath.Clean(name); !filepath.IsLocal(name) {
		return nil, nil, outside(path)
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, nil, failed("cannot open the workspace")
	}
	defer root.Close()
	// A pipe is not waited for.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, w.trouble(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, w.trouble(path, err)
	}
	return f, info, nil
}

// trouble says what went wrong, without the system's own words.
func (workspace) trouble(path string, err error) error {
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return failed("the workspace has no %s", short(path))
	case errors.Is(err, iofs.ErrPermission):
		return failed("no permission to read %s", short(path))
	}
	return failed("cannot read %s, or it leads out of the workspace", short(path))
}

func outside(path string) error { return failed("%s is not in the workspace", short(path)) }

func failed(format string, path ...any) error {
	return &tool.Error{Kind: tool.KindFailed, Message: fmt.Sprintf(format, path...)}
}

func arguments(message string) error {
	return &tool.Error{Kind: tool.KindArguments, Message: message}
}

// short quotes a path; a model may make it as long as it likes.
func short(path string) string {
	return fmt.Sprintf("%q", wording.ClipTo(path, 200))
}

package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Windows is a channel.WindowStore: a file for each window, which is replaced whole. It is not made durable against the end of the
// machine: what waits in a window was not to be answered.
type Windows struct{ *texts }

// OpenWindows opens the folder of windows, which is made where it is not there.
func OpenWindows(dir string) (*Windows, error) { return openWindows(vfs.At(dir)) }

func openWindows(dir vfs.Dir) (*Windows, error) {
	t, err := openTexts(dir, ".window")
	if err != nil {
		return nil, fmt.Errorf("window folder: %w", err)
	}
	return &Windows{t}, nil
}

// texts is a folder of small files, each of which is replaced whole.
type texts struct {
	root vfs.Folder
	end  string        // of the names of its files
	next atomic.Uint64 // names of files that are being written
}

const (
	writeEnd = ".new"
	maxText  = 1 << 20 // texts are far smaller
)

func openTexts(dir vfs.Dir, end string) (*texts, error) {
	root, err := dir.Open()
	if err != nil {
		return nil, vfs.Explain(err)
	}
	names, err := vfs.Names(root, ".")
	if err != nil {
		return nil, errors.Join(vfs.Explain(err), root.Close())
	}
	for _, name := range names { // of a process that died while it wrote
		if strings.HasSuffix(name, writeEnd) {
			_ = root.Remove(name)
		}
	}
	return &texts{root: root, end: end}, nil
}

// Close lets the folder go.
func (w *texts) Close() error { return w.root.Close() }

// Names implements channel.WindowStore.
func (w *texts) Names(context.Context) ([]string, error) {
	files, err := vfs.Names(w.root, ".")
	if err != nil {
		return nil, vfs.Explain(err)
	}
	type saved struct {
		name string
		at   time.Time
	}
	var all []saved
	for _, f := range files {
		name, ok := strings.CutSuffix(f, w.end)
		if !ok {
			continue
		}
		info, err := w.root.Stat(f)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed in this moment
		case err != nil:
			return nil, vfs.Explain(err)
		case info.Mode().IsRegular():
			all = append(all, saved{name, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b saved) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	return names, nil
}

// Load implements channel.WindowStore.
func (w *texts) Load(_ context.Context, name string) ([]byte, error) {
	f, err := w.root.Open(name+w.end, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vfs.Explain(err)
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, maxText+1))
	if err == nil && n > maxText {
		err = fmt.Errorf("the file has more than %d bytes", maxText)
	}
	if err != nil {
		return nil, vfs.Explain(err)
	}
	return append([]byte{}, b.Bytes()...), nil // one that is empty is there
}

// Save implements channel.WindowStore.
func (w *texts) Save(_ context.Context, name string, text []byte) error {
	if text == nil {
		if err := w.root.Remove(name + w.end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return vfs.Explain(err)
		}
		return nil
	}
	part := fmt.Sprintf("%s-%d%s", name, w.next.Add(1), writeEnd)
	f, err := w.root.Open(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return vfs.Explain(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = w.root.Chtimes(part, time.Now()) // to the nanosecond, which the system's clock for files is not
	}
	if err == nil {
		err = w.root.Rename(part, name+w.end)
	}
	if err != nil {
		_ = w.root.Remove(part)
	}
	return vfs.Explain(err)
}

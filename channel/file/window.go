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
)

// Windows is a channel.WindowStore: a file for each window, which is replaced whole. It is not made durable against the end of the
// machine: what waits in a window was not to be answered.
type Windows struct{ *texts }

// OpenWindows opens the folder of windows, which is made where it is not there.
func OpenWindows(dir string) (*Windows, error) {
	t, err := openTexts(dir, ".window")
	if err != nil {
		return nil, fmt.Errorf("window folder: %w", err)
	}
	return &Windows{t}, nil
}

// texts is a folder of small files, each of which is replaced whole.
type texts struct {
	root *os.Root
	end  string        // of the names of its files
	next atomic.Uint64 // names of files that are being written
}

const (
	writeEnd = ".new"
	maxText  = 1 << 20 // texts are far smaller
)

func openTexts(dir, end string) (*texts, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	names, err := list(root)
	if err != nil {
		return nil, errors.Join(explain(err), root.Close())
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
	files, err := list(w.root)
	if err != nil {
		return nil, explain(err)
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
		if info, err := w.root.Lstat(f); err == nil && info.Mode().IsRegular() {
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
	f, err := openRegular(w.root, name+w.end, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, maxText+1))
	if err == nil && n > maxText {
		err = fmt.Errorf("the file has more than %d bytes", maxText)
	}
	return append([]byte{}, b.Bytes()...), err // one that is empty is there
}

// Save implements channel.WindowStore.
func (w *texts) Save(_ context.Context, name string, text []byte) error {
	if text == nil {
		if err := w.root.Remove(name + w.end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(err)
		}
		return nil
	}
	part := fmt.Sprintf("%s-%d%s", name, w.next.Add(1), writeEnd)
	f, err := w.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return explain(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		now := time.Now() // to the nanosecond, which the system's clock for files is not
		err = w.root.Chtimes(part, now, now)
	}
	if err == nil {
		err = w.root.Rename(part, name+w.end)
	}
	if err != nil {
		_ = w.root.Remove(part)
	}
	return explain(err)
}

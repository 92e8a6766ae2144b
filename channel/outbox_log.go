package channel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/internal/vfs"
)

// lineLog is a file of JSON lines with checksums that is only appended to, until most of it is old and it is written anew. A line that a crash
// has cut off is as if it had never been written. With a nil *lineLog nothing is kept.
type lineLog struct {
	root vfs.Folder
	name string

	mu      sync.Mutex
	f       vfs.File
	size    int64 // of the lines that are whole
	written int64 // bytes since the start, of files that are gone too
	broken  error // the disk has failed, and what is in the file is not known

	syncing sync.Mutex   // held while the disk is waited for: whoever waits behind it has often nothing left to do
	synced  atomic.Int64 // of written
}

const (
	// maxLogLine bounds a line that is read back: a block is at most the queue's bytes, in the worst case six of JSON for one.
	maxLogLine = 8 << 20
	// logSlack is what of a file may be old before it is written anew.
	logSlack = 1 << 20
)

// openLineLog opens a file below root, making it where it is not there, and gives each of its lines to the function. It skips damaged lines
// and names them in the log.
func openLineLog(root vfs.Folder, name string, log *slog.Logger, each func(line []byte)) (l *lineLog, err error) {
	_ = root.Remove(name + ".new") // a crash has left it
	f, err := root.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l = &lineLog{root: root, name: name, f: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	l.size, err = readLines(f, each, func(offset int64, what string) {
		if log != nil {
			log.Error("skipped a damaged line of a channel's file", "file", name, "offset", offset, "error", what)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(l.size), l.writeAgain()); err != nil {
		return nil, err
	}
	if _, err := f.Seek(l.size, io.SeekStart); err != nil {
		return nil, err
	}
	return l, errors.Join(f.Sync(), l.root.SyncFolder("."))
}

// readLines calls each with the lines of a file, and damaged with those that cannot be read. It returns the size of all whole lines: what
// follows them was cut off by a crash.
func readLines(f io.Reader, each func(line []byte), damaged func(offset int64, what string)) (whole int64, err error) {
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, size, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		_, summed, matches := crcline.Cut(line)
		switch {
		case line == nil:
			damaged(whole, fmt.Sprintf("it is longer than %d bytes", maxLogLine))
		case summed && !matches:
			damaged(whole, "its checksum does not match")
		case !json.Valid(line):
			damaged(whole, "invalid JSON")
		default:
			each(line)
		}
		whole += size
	}
}

// CheckLines reads the files of an outbox or a ledger in a folder, changes nothing, and tells found of each line that cannot be read. It
// returns how many files there are. Lines of an older version have no checksum: of them it only knows whether they are JSON.
func CheckLines(dir string, found func(file string, offset int64, what string)) (files int, err error) {
	folder, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	for _, name := range []string{ledgerFile, outboxFile} {
		f, err := folder.Open(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, err
		}
		files++
		_, err = readLines(f, func([]byte) {}, func(offset int64, what string) { found(name, offset, "a line cannot be read: "+what) })
		_ = f.Close() // it was only read
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// marshalLine returns a value as a line with a checksum.
func marshalLine(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(crcline.Append(line[:len(line)-1], 0), '\n'), nil
}

// writeAgain writes over the file what is in it. A sync that failed in a process before may have left lines in the system's memory that
// no later sync would bring to the disk.
func (l *lineLog) writeAgain() error {
	buf := make([]byte, 64<<10)
	for at := int64(0); at < l.size; {
		part := buf[:min(int64(len(buf)), l.size-at)]
		if n, err := l.f.ReadAt(part, at); n < len(part) {
			return err
		}
		if _, err := l.f.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

// readLine returns a line without its end, and its size with it; nil for one that is too long.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if size <= maxLogLine {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, size, err
		case size > maxLogLine:
			return nil, size, nil
		}
		return bytes.TrimSuffix(line, []byte{'\n'}), size, nil
	}
}

// append writes a value as one line. What it returns is for wait.
func (l *lineLog) append(v any) (at int64, err error) {
	if l == nil {
		return 0, nil
	}
	line, err := marshalLine(v)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	if _, err := l.f.Write(line); err != nil {
		_, seek := l.f.Seek(l.size, io.SeekStart)
		if failure := errors.Join(l.f.Truncate(l.size), seek); failure != nil { // else it is as it was before
			l.broken = fmt.Errorf("%s cannot be written any more: %w", l.name, errors.Join(err, failure))
		}
		return 0, err
	}
	l.size += int64(len(line))
	l.written += int64(len(line))
	return l.written, nil
}

// wait returns when what append wrote is safe from the end of the machine.
func (l *lineLog) wait(at int64) error {
	if l == nil || l.synced.Load() >= at {
		return nil
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced.Load() >= at {
		return nil
	}
	l.mu.Lock()
	f, written, broken := l.f, l.written, l.broken
	l.mu.Unlock()
	if broken != nil {
		return broken
	}
	if err := f.Sync(); err != nil {
		// What of it is on the disk nobody knows, and a second try would not say.
		l.mu.Lock()
		l.broken = fmt.Errorf("%s cannot be written any more: %w", l.name, err)
		l.mu.Unlock()
		return err
	}
	l.synced.Store(written)
	return nil
}

// old says whether the file is worth writing anew, when what is in use takes about so many bytes of it.
func (l *lineLog) old(used int64) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return used == 0 && l.size > 0 || l.size-used > logSlack && l.size > 2*used
}

// rewrite replaces what is in the file. The caller sees to it that nothing is appended meanwhile.
func (l *lineLog) rewrite(values []any) (err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if len(values) == 0 { // texts that were sent do not stay on the disk
		_, seek := l.f.Seek(0, io.SeekStart)
		if err := errors.Join(l.f.Truncate(0), seek); err != nil {
			l.broken = fmt.Errorf("%s cannot be written any more: %w", l.name, err)
			return l.broken
		}
		l.size = 0
		return nil
	}
	f, err := l.root.Open(l.name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, v := range values {
		line, failure := marshalLine(v)
		_, _ = w.Write(line) // Flush returns its error
		err = errors.Join(err, failure)
	}
	err = errors.Join(err, w.Flush(), f.Sync())
	size, failure := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, failure); err != nil {
		return errors.Join(err, f.Close(), l.root.Remove(l.name+".new"))
	}
	old := l.f
	l.f, l.size = f, size
	if err := errors.Join(l.root.Rename(l.name+".new", l.name), l.root.SyncFolder(".")); err != nil {
		// Either of the two files may have the name.
		l.broken = fmt.Errorf("%s cannot be written any more: %w", l.name, err)
		return errors.Join(l.broken, old.Close())
	}
	l.synced.Store(l.written)
	_ = old.Close() // nothing in it is needed
	return nil
}

func (l *lineLog) close() error {
	if l == nil {
		return nil
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = fs.ErrClosed
	return errors.Join(l.f.Sync(), l.f.Close())
}

// Package journal tells the processes that write into one folder which names others have changed.
//
// Each keeps a journal in the folder .changes: after each change it appends the name. Another process reads what was appended since it has
// read last, and looks at what has these names. The last few names in a journal are not written again, since most changes are of the names
// of a moment before: readers get them each time.
//
// The journals are numbered from 1 without gaps. A process locks its journal as long as it writes to it, and ends it with an empty line. So
// a reader knows when it has missed something: where a number is missing, or a journal without an end is not locked, it has missed changes.
package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/lingserve/lingserve/internal/vfs"
)

const (
	folder    = ".changes"
	mostBytes = 1 << 20 // bytes of a journal, after which its writer begins another one
	kept      = 16      // ended journals that are left for readers
	repeated  = 8       // names at the end of a journal that may have changed again
)

// attempts bounds how often a number is looked for that no other process takes.
const attempts = 100

// lastNames are the last names in a journal, the oldest first.
type lastNames []string

func (l *lastNames) add(name string) {
	if len(*l) == repeated {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, name)
}

func pathOf(number int) string { return folder + "/" + strconv.Itoa(number) }

// Writer is the journal of this process. It is safe for concurrent use.
type Writer struct {
	dir vfs.Folder
	log *slog.Logger

	mu      sync.Mutex
	file    vfs.File // nil before the first change, and after an error
	number  int
	size    int64
	last    lastNames
	line    []byte
	written map[int]bool // numbers of this process
}

// NewWriter returns the journal of a process in a folder.
func NewWriter(dir vfs.Folder, log *slog.Logger) *Writer { return &Writer{dir: dir, log: log} }

// Note tells the other processes that a name has changed. Where the journal cannot be written it is removed, so that others miss it.
func (w *Writer) Note(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil && slices.Contains(w.last, name) {
		return
	}
	err := w.begin()
	if err == nil {
		w.line = append(append(w.line[:0], name...), '\n')
		if _, err = w.file.WriteAt(w.line, w.size); err == nil {
			w.size += int64(len(w.line))
			w.last.add(name)
			if w.size >= mostBytes {
				err = w.end()
			}
		}
	}
	if err == nil {
		return
	}
	if w.file != nil {
		err = errors.Join(err, w.file.Close(), w.dir.Remove(pathOf(w.number)))
		w.file = nil
	}
	w.log.Warn("cannot announce a changed log", "log", name, "error", err)
}

// begin makes sure that there is a journal to write to; mu is held.
func (w *Writer) begin() error {
	if w.file != nil {
		return nil
	}
	if err := w.dir.Mkdir(folder); err != nil {
		return err
	}
	numbers, err := list(w.dir)
	if err != nil {
		return err
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	for _, old := range numbers[:max(0, len(numbers)-kept)] {
		removeEnded(w.dir, old)
	}
	for range attempts {
		f, err := w.dir.Open(pathOf(next), os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			next++
			continue
		}
		if err != nil {
			return err
		}
		ok, err := f.TryLock()
		if err != nil {
			return errors.Join(err, f.Close(), w.dir.Remove(pathOf(next)))
		}
		if !ok { // a reader looks whether its writer lives
			_, err = f.WriteAt([]byte("\n"), 0)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			next++
			continue
		}
		w.file, w.number, w.size, w.last = f, next, 0, nil
		if w.written == nil {
			w.written = map[int]bool{}
		}
		w.written[next] = true
		return nil
	}
	return fmt.Errorf("%d numbers are taken", attempts)
}

// end ends the journal; mu is held.
func (w *Writer) end() error {
	if w.file == nil {
		return nil
	}
	_, err := w.file.WriteAt([]byte("\n"), w.size)
	if err == nil {
		err = errors.Join(w.file.Unlock(), w.file.Close())
		w.file = nil
	}
	return err
}

// Close ends the journal.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.end()
	if w.file != nil { // its end cannot be written; the lock ends with it
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	return err
}

// open returns the number of the journal that this process writes to.
func (w *Writer) open() (number int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number, w.file != nil
}

// own returns those of the numbers that are of this process, and forgets all others.
func (w *Writer) own(numbers []int) map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.written, func(n int, _ bool) bool {
		_, there := slices.BinarySearch(numbers, n)
		return !there && n != w.number
	})
	return maps.Clone(w.written)
}

// list returns the numbers of the journals that are there, in order.
func list(d vfs.Folder) (numbers []int, err error) {
	err = d.List(folder, func(e fs.DirEntry) bool {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.Name() == strconv.Itoa(n) {
			numbers = append(numbers, n)
		}
		return true
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	slices.Sort(numbers)
	return numbers, err
}

// removeEnded removes a journal unless its writer lives.
func removeEnded(d vfs.Folder, number int) {
	f, err := d.Open(pathOf(number), os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	if ok, err := f.TryLock(); ok && err == nil {
		_ = d.Remove(pathOf(number)) // the next process tries again
	}
}

// Reader reads the journals of the other processes. It is not safe for concurrent use.
type Reader struct {
	w    *Writer
	last int // the highest number that was seen
	read map[int]*place
}

// NewReader returns a reader of all journals but those of w.
func NewReader(w *Writer) *Reader { return &Reader{w: w} }

// Position is where a reader is: the number of the last journal that was seen, and of those before it that have not ended.
type Position struct {
	Last int
	Open []int
}

// Position returns where another process may go on that knows all that this one knows.
func (f *Reader) Position() Position {
	at := Position{Last: f.last, Open: slices.Collect(maps.Keys(f.read))}
	if n, ok := f.w.open(); ok {
		at.Open = append(at.Open, n)
	}
	return at
}

// Resume goes on where another process was.
func (f *Reader) Resume(at Position) {
	f.last, f.read = at.Last, map[int]*place{}
	for _, n := range at.Open {
		f.read[n] = new(place)
	}
}

// place is how far a journal was read that has not ended.
type place struct {
	at       int64 // how far it is read
	last     lastNames
	unlocked bool // was seen empty and not locked: its writer has died, or is about to lock it
}

// Begin goes to the end of all journals.
func (f *Reader) Begin() error {
	f.last, f.read = 0, map[int]*place{}
	numbers, err := list(f.w.dir)
	if err != nil {
		return err
	}
	own := f.w.own(numbers)
	for _, n := range numbers {
		f.last = n
		if own[n] {
			continue
		}
		r := new(place)
		ended, _, err := f.journal(n, r, func(string) {})
		if err != nil {
			return err
		}
		if !ended {
			f.read[n] = r
		}
	}
	return nil
}

// Next returns the names that others have changed since the last call. missed says that there may be more.
func (f *Reader) Next(ctx context.Context) (names map[string]bool, missed bool, err error) {
	numbers, err := list(f.w.dir)
	if err != nil {
		return nil, false, err
	}
	own := f.w.own(numbers)
	newest := 0
	for _, n := range numbers {
		if newest = n; n > f.last && !own[n] {
			f.read[n] = new(place)
		}
	}
	there := func(n int) bool {
		_, ok := slices.BinarySearch(numbers, n)
		return ok
	}
	for n := f.last + 1; n <= newest && !missed; n++ {
		missed = !there(n)
	}
	missed = missed || newest < f.last // the folder was emptied by hand
	f.last = newest
	add := func(name string) {
		if names == nil {
			names = map[string]bool{}
		}
		names[name] = true
	}
	for n, r := range f.read {
		if err := context.Cause(ctx); err != nil {
			return names, missed, err
		}
		ended, lost, err := f.journal(n, r, add)
		if err != nil {
			return names, missed, err
		}
		for _, name := range r.last {
			add(name)
		}
		if ended {
			delete(f.read, n)
		}
		missed = missed || lost
	}
	return names, missed, nil
}

// journal reads a journal on. ended says that nothing more comes, lost that the journal, or its writer, is gone and may have changed more.
func (f *Reader) journal(number int, r *place, name func(string)) (ended, lost bool, err error) {
	file, err := f.w.dir.Open(pathOf(number), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return true, true, nil
	}
	if err != nil {
		return false, false, err
	}
	defer file.Close()
	for dead := false; ; {
		text, err := io.ReadAll(io.NewSectionReader(file, r.at, mostBytes+1024))
		if err != nil {
			return false, false, err
		}
		for {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			if r.at += int64(len(line)) + 1; len(line) == 0 {
				return true, false, nil
			}
			name(string(line))
			r.last.add(string(line))
			text = rest
		}
		if dead && r.at == 0 && len(text) == 0 {
			lost, r.unlocked = !r.unlocked, true
			return false, lost, nil
		}
		if dead {
			return true, true, nil
		}
		if dead, err = file.TryLock(); err != nil || !dead {
			return false, false, err
		}
		// Its writer may have ended it before the lock was free.
	}
}

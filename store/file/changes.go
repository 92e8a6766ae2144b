package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Several processes may write into one folder. Each keeps a journal in the folder .changes: after each batch it appends the name of the
// log. A process that lists logs reads what others have appended since its last list, and looks at those logs. The last few
// names in a journal are not written again, since most batches are of the logs of a moment before: readers look at these each time.
//
// The journals are numbered from 1 without gaps. A process locks its journal as long as it writes to it, and ends it with an empty line. So
// a reader knows when it has missed something: where a number is missing, or a journal without an end is not locked, it compares all logs
// with what it knows of them.

const (
	changesFolder = ".changes" // no log has such a name
	changesMost   = 1 << 20    // bytes of a journal, after which its writer begins another one
	changesKept   = 16         // ended journals that are left for readers
	changesLast   = 8          // names at the end of a journal whose logs may have changed again
)

// lastNames are the last names in a journal, the oldest first.
type lastNames []string

func (l *lastNames) add(name string) {
	if len(*l) == changesLast {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, name)
}

func changesPath(number int) string { return changesFolder + "/" + strconv.Itoa(number) }

// changes is the journal of this process.
type changes struct {
	s *Space

	mu      sync.Mutex
	file    vfs.File // nil before the first change, and after an error
	number  int
	size    int64
	last    lastNames
	line    []byte
	written map[int]bool // numbers of this process
}

// note tells the other processes that a log has changed. Where the journal cannot be written it is removed, so that others miss it.
func (c *changes) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil && slices.Contains(c.last, name) {
		return
	}
	err := c.begin()
	if err == nil {
		c.line = append(append(c.line[:0], name...), '\n')
		if _, err = c.file.WriteAt(c.line, c.size); err == nil {
			c.size += int64(len(c.line))
			c.last.add(name)
			if c.size >= changesMost {
				err = c.end()
			}
		}
	}
	if err == nil {
		return
	}
	if c.file != nil {
		err = errors.Join(err, c.file.Close(), c.s.disk.Remove(changesPath(c.number)))
		c.file = nil
	}
	c.s.log.Warn("cannot announce a changed log", "log", name, "error", err)
}

// begin makes sure that there is a journal to write to; mu is held.
func (c *changes) begin() error {
	if c.file != nil {
		return nil
	}
	if err := c.s.disk.Mkdir(changesFolder); err != nil {
		return err
	}
	numbers, err := listChanges(c.s.disk)
	if err != nil {
		return err
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	for _, old := range numbers[:max(0, len(numbers)-changesKept)] {
		removeEnded(c.s.disk, old)
	}
	for range attempts {
		f, err := c.s.disk.Open(changesPath(next), os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			next++
			continue
		}
		if err != nil {
			return err
		}
		ok, err := f.TryLock()
		if err != nil {
			return errors.Join(err, f.Close(), c.s.disk.Remove(changesPath(next)))
		}
		if !ok { // a reader looks whether its writer lives
			_, err = f.WriteAt([]byte("\n"), 0)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			next++
			continue
		}
		c.file, c.number, c.size, c.last = f, next, 0, nil
		if c.written == nil {
			c.written = map[int]bool{}
		}
		c.written[next] = true
		return nil
	}
	return fmt.Errorf("%d numbers are taken", attempts)
}

// end ends the journal; mu is held.
func (c *changes) end() error {
	if c.file == nil {
		return nil
	}
	_, err := c.file.WriteAt([]byte("\n"), c.size)
	if err == nil {
		err = errors.Join(c.file.Unlock(), c.file.Close())
		c.file = nil
	}
	return err
}

func (c *changes) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.end()
	if c.file != nil { // its end cannot be written; the lock ends with it
		err = errors.Join(err, c.file.Close())
		c.file = nil
	}
	return err
}

// open returns the number of the journal that this process writes to.
func (c *changes) open() (number int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number, c.file != nil
}

// own returns those of the numbers that are of this process, and forgets all others.
func (c *changes) own(numbers []int) map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.written, func(n int, _ bool) bool {
		_, there := slices.BinarySearch(numbers, n)
		return !there && n != c.number
	})
	return maps.Clone(c.written)
}

// listChanges returns the numbers of the journals that are there, in order.
func listChanges(d vfs.Folder) (numbers []int, err error) {
	err = d.List(changesFolder, func(e fs.DirEntry) bool {
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
	f, err := d.Open(changesPath(number), os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	if ok, err := f.TryLock(); ok && err == nil {
		_ = d.Remove(changesPath(number)) // the next process tries again
	}
}

// journalFollower reads the journals of the other processes.
type journalFollower struct {
	s    *Space
	last int // the highest number that was seen
	read map[int]*journalReader
}

// journalReader is a journal that has not ended.
type journalReader struct {
	at       int64 // how far it is read
	last     lastNames
	unlocked bool // was seen empty and not locked: its writer has died, or is about to lock it
}

// begin goes to the end of all journals.
func (f *journalFollower) begin() error {
	f.last, f.read = 0, map[int]*journalReader{}
	numbers, err := listChanges(f.s.disk)
	if err != nil {
		return err
	}
	own := f.s.changes.own(numbers)
	for _, n := range numbers {
		f.last = n
		if own[n] {
			continue
		}
		r := new(journalReader)
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

// next returns the names of the logs that others have changed since the last call. missed says that there may be more.
func (f *journalFollower) next(ctx context.Context) (names map[string]bool, missed bool, err error) {
	numbers, err := listChanges(f.s.disk)
	if err != nil {
		return nil, false, err
	}
	own := f.s.changes.own(numbers)
	newest := 0
	for _, n := range numbers {
		if newest = n; n > f.last && !own[n] {
			f.read[n] = new(journalReader)
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
func (f *journalFollower) journal(number int, r *journalReader, name func(string)) (ended, lost bool, err error) {
	file, err := f.s.disk.Open(changesPath(number), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return true, true, nil
	}
	if err != nil {
		return false, false, err
	}
	defer file.Close()
	for dead := false; ; {
		text, err := io.ReadAll(io.NewSectionReader(file, r.at, changesMost+1024))
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

package run

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// settler makes durable what a disk was given, about once a second: the files of ended runs, the keys, and the names of both. Who ends
// a run or takes a key in waits for nothing; so many runs share one look at their folder, and files are synced several at a time, which a
// file system does with fewer turns of the disk. A run stays in the journal until its file is safe, so that the end of the machine takes
// no more of it than of one that goes on (FT-24).
//
// It sleeps while there is nothing to do. A file whose sync has failed is not synced again (FT-26): who has given it is told.
type settler struct {
	d    *disk
	wake chan struct{} // holds one wake-up; nil where nobody is to be woken
	stop chan struct{}
	wg   sync.WaitGroup

	passing sync.Mutex // one pass at a time

	mu    sync.Mutex
	files []settling
	room  chan struct{} // closed by the next pass; nil when nobody waits for one
}

// settling is a file of a run that is not safe yet.
type settling struct {
	run  string
	then func(error) // called when it is safe, or cannot be made so; from whatever goroutine makes the pass
}

const (
	// settleEvery is how long what was written may wait to be made durable; that runs end much faster than a disk turns is why it is not 0.
	settleEvery = time.Second
	// settleAtOnce is how many files are synced at the same time.
	settleAtOnce = 8
	// maxSettling is how many may wait before those that end runs wait, too: their runs count as running until then, and a disk that does
	// not keep up comes to be too many runs.
	maxSettling = 4096
)

// start begins to settle by itself.
func (s *settler) start() {
	s.wake, s.stop = make(chan struct{}, 1), make(chan struct{})
	s.wg.Go(s.run)
	s.poke()
}

func (s *settler) run() {
	timer := time.NewTimer(settleEvery)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.stop:
			return
		}
		timer.Reset(settleEvery)
		select {
		case <-timer.C:
		case <-s.stop:
			return
		}
		s.pass()
	}
}

// close makes durable what is left.
func (s *settler) close() {
	if s.stop != nil {
		close(s.stop)
		s.wg.Wait()
		s.stop = nil
	}
	s.pass()
}

// poke says that there is something to do.
func (s *settler) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it knows, or nobody is there yet
	}
}

// add has a run's file made durable.
func (s *settler) add(f settling) {
	s.mu.Lock()
	s.files = append(s.files, f)
	s.mu.Unlock()
	s.poke()
}

// behind says whether more files wait than should.
func (s *settler) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files) >= maxSettling
}

// keepUp waits while more files wait than should.
func (s *settler) keepUp() {
	for {
		s.mu.Lock()
		if len(s.files) < maxSettling || s.wake == nil {
			s.mu.Unlock()
			return
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		<-room // of a pass, which comes: there are files
	}
}

// pass makes durable what waits.
func (s *settler) pass() {
	s.passing.Lock()
	defer s.passing.Unlock()
	s.mu.Lock()
	files, room := s.files, s.room
	s.files, s.room = nil, nil
	s.mu.Unlock()
	s.d.settleKeys()
	if len(files) > 0 {
		s.settle(files)
	}
	if room != nil {
		close(room)
	}
}

func (s *settler) settle(files []settling) {
	errs := make([]error, len(files))
	next := make(chan int, len(files))
	for i := range files {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(settleAtOnce, len(files)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = s.d.syncFile(FileOf(files[i].run))
			}
		})
	}
	wg.Wait()
	folder := s.d.root.SyncFolder(runsFolder)
	for i, f := range files {
		f.then(errors.Join(errs[i], folder))
	}
}

// syncFile makes a file durable; one that is not there any more is.
func (d *disk) syncFile(name string) error {
	f, err := d.root.Open(name, os.O_RDWR) // Windows syncs nothing that cannot be written
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// shorten is a list of keys that the file of them is to be shortened to.
type shorten struct {
	entries []keyEntry
	size    int64 // of the file, when the list was made: what stands behind it is newer
}

// settleKeys makes the keys durable, in a shorter file where there is to be one.
func (d *disk) settleKeys() {
	d.mu.Lock()
	list, dirty, failed, f := d.shorten, d.dirty, d.failed, d.keys
	d.shorten, d.dirty = nil, false
	d.mu.Unlock()
	if list != nil {
		err := d.rewriteKeys(list)
		if err == nil {
			return
		}
		d.log.Error("cannot write idempotency keys", "error", err)
	}
	if !dirty {
		return
	}
	var err error
	if !failed && f != nil {
		if err = f.Sync(); err == nil {
			return
		}
	}
	// What the file has is not taken for safe any more: it is written anew, as it can be read.
	if again := d.rewriteKeys(nil); again != nil {
		d.notSafe(errors.Join(err, again))
	}
}

// rewriteKeys writes the file of keys anew, with those of a list and what was added since, or all of them. The file is safe before it takes
// the other's place, so that no end of the machine leaves neither. Nobody who brings a key waits for more than the last lines to be copied.
// Only one goroutine may call it at a time.
func (d *disk) rewriteKeys(list *shorten) (err error) {
	text, err := vfs.ReadFile(d.root, keysFile)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	read := int64(len(text))
	if list != nil {
		text = list.keep(text)
		read = max(read, list.size) // less is a line that was cut off
	}
	beside := keysFile + temporary
	f, err := d.root.Open(beside, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), d.root.Remove(beside))
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := d.takeKeys(f, read, bytes.Count(text, []byte{'\n'})); err != nil {
		return err
	}
	// From here on it is the file of keys.
	if err := f.Sync(); err != nil {
		d.notSafe(err)
	} else if err := d.root.SyncFolder("."); err != nil {
		d.notSafe(err)
	} else {
		d.mu.Lock()
		d.failed = false
		d.mu.Unlock()
	}
	return nil
}

// notSafe says that the file of keys cannot be made durable. It is written anew when another key comes.
func (d *disk) notSafe(err error) {
	d.log.Error("cannot sync idempotency keys", "code", codeNotDurable, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirty, d.failed = true, true
}

// takeKeys puts a file in the place of that of keys, with what was added behind what was read of it.
func (d *disk) takeKeys(f vfs.File, read int64, lines int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, err := d.root.Open(keysFile, os.O_RDONLY)
	if err != nil {
		return err
	}
	rest, err := io.ReadAll(io.NewSectionReader(before, read, 1<<40))
	if err = errors.Join(err, before.Close()); err != nil {
		return err
	}
	if _, err := f.Write(rest); err != nil {
		return err
	}
	renamed := d.root.Rename(keysFile+temporary, keysFile)
	if d.keys != nil {
		_ = d.keys.Close() // it was only appended to, and each write was looked at
	}
	if renamed != nil {
		// Either file may have the name now, and each has all keys. The next key opens the one that has it, and the next pass writes it again.
		d.keys, d.dirty, d.failed = nil, true, true
		return renamed
	}
	d.keys, d.lines = f, lines+bytes.Count(rest, []byte{'\n'})
	d.torn = d.torn && len(rest) > 0
	return nil
}

// keep is what is kept of the text of a file of keys.
func (l *shorten) keep(text []byte) []byte {
	runs := make(map[[16]byte][26]byte, len(l.entries))
	for _, e := range l.entries {
		runs[e.key] = e.run
	}
	var kept []byte
	at := int64(0)
	for line := range bytes.Lines(text) {
		// What the runs are of stands in the file alone: a hundred thousand names are not kept in memory for the sake of a crash.
		if e, _, ok := parseKeyLine(line); at >= l.size || ok && runs[e.key] == e.run {
			kept = append(kept, line...)
		}
		at += int64(len(line))
	}
	return kept
}

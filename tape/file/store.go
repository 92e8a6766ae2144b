// Package file keeps tapes in a folder: each is a file of lines, one for each entry, that only grows at its end.
//
// Beside <tape>.jsonl lie files that hold nothing that is not in it, and are made again where they are missing or do not fit:
// <tape>.index, with what is asked of a tape without reading it, and <tape>.session, with what a list shows. <tape>.blobs is a
// folder with large values, <tape>.torn has what writers that died left at the end. The file .sessions and the folder .changes hold nothing
// that is not in the tapes, either: by them a list need not look at all tapes.
//
// # Guarantees
//   - A batch is one write. All its lines but the last say that the batch goes on, so half of one is never seen.
//   - What was acknowledged survives the end of the process; how much of it the end of the machine, [Options] say.
//   - Several processes may use one folder on a local disk. They lock a tape for the length of a batch.
//   - To know a tape, or what follows its last anchor, nothing before that is read, in a new process and after a crash too.
//   - A tape that is not used holds no file and no goroutine, and no memory but some 200 bytes for lists, from the first one on.
//   - A list opens the files of the sessions that it shows, and no others; the first one of a process looks at all. It shows what this process
//     and others have acknowledged before it began.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// Sync says when what was appended is made durable against the end of the machine. That of the process loses nothing, whatever it
// is.
type Sync int

const (
	SyncInterval Sync = iota // within a second
	SyncTurn                 // when a turn ends
	SyncAlways               // before Append returns, with one sync for all who wait
	SyncNone                 // when the system likes to
)

// Options of a store. The zero value is the default.
type Options struct {
	Sync Sync
	Log  *slog.Logger // what is wrong with files; nil is nowhere

	Observer tape.Observer // is told what is written, to count it; nil is nobody
}

// Store is a tape.Store. It is also a tape.Blobs, a tape.Leaser, a tape.Syncer and a tape.Importer.
type Store struct {
	disk vfs.Folder
	sync Sync
	log  *slog.Logger

	observer tape.Observer // nil is nobody

	mu     sync.Mutex
	closed bool
	logs   map[string]*log
	ends   log // the ring of logs in the order of use: newer is the oldest, older the newest
	failed map[string]error

	syncer    syncer
	changes   changes
	directory directory
	ending    context.Context // ends when the store closes
	end       context.CancelFunc
}

var (
	_ tape.Store    = (*Store)(nil)
	_ tape.Blobs    = (*Store)(nil)
	_ tape.Leaser   = (*Store)(nil)
	_ tape.Syncer   = (*Store)(nil)
	_ tape.Importer = (*Store)(nil)
)

// maxOpen bounds the tapes that are open while nobody uses them; each has two files.
const maxOpen = 128

// Open opens the store in a folder, which is made where it is not there.
func Open(dir string, o Options) (*Store, error) {
	d, err := vfs.At(dir).Open()
	if err != nil {
		return nil, fmt.Errorf("tape folder: %w", vfs.Explain(err))
	}
	return openOn(d, o), nil
}

func openOn(d vfs.Folder, o Options) *Store {
	s := &Store{disk: d, sync: o.Sync, log: o.Log, observer: o.Observer, logs: map[string]*log{}, failed: map[string]error{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ends.older, s.ends.newer = &s.ends, &s.ends
	s.ending, s.end = context.WithCancel(context.Background())
	s.changes.store = s
	s.directory = directory{store: s, follow: follower{store: s}, turn: make(turn, 1)}
	s.syncer.start(s)
	return s
}

// acquire finds or makes the log of a tape, to be released.
func (s *Store) acquire(name string) (*log, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, tape.ErrClosed
	}
	l := s.logs[name]
	if l == nil {
		l = &log{store: s, name: name, warned: -1, commit: make(turn, 1)}
		s.logs[name] = l
	} else {
		l.unlink()
	}
	l.users++
	l.older, l.newer = s.ends.older, &s.ends
	l.older.newer, s.ends.older = l, l
	return l, nil
}

func (l *log) unlink() {
	l.older.newer, l.newer.older = l.newer, l.older
}

// release gives a log back and closes those that have not been used for longest, beyond maxOpen.
func (s *Store) release(l *log) {
	var idle []*log
	s.mu.Lock()
	if l.users--; l.users == 0 && !l.useful.Load() {
		idle = append(idle, l)
		s.drop(l)
	}
	for old := s.ends.newer; len(s.logs) > maxOpen && old != &s.ends; {
		next := old.newer
		if old.users == 0 {
			idle = append(idle, old)
			s.drop(old)
		}
		old = next
	}
	s.mu.Unlock()
	for _, l := range idle {
		l.mu.Lock()
		_ = l.closeLocked() // each of its writes was looked at
		l.mu.Unlock()
	}
}

// drop forgets a log, with mu held.
func (s *Store) drop(l *log) {
	if s.logs[l.name] == l {
		delete(s.logs, l.name)
	}
	l.unlink()
}

// outdated takes a log whose file is no longer at its path out of the way of the next one.
func (s *Store) outdated(l *log) {
	l.useful.Store(false)
	s.mu.Lock()
	if s.logs[l.name] == l {
		delete(s.logs, l.name)
	}
	s.mu.Unlock()
	l.mu.Lock()
	l.finished = true
	l.mu.Unlock()
}

// attempts bounds how often a file is looked for anew that was moved in the moment it was opened.
const attempts = 100

// with runs do with the tape's log, and again with a new one while do says that the file was moved.
func (s *Store) with(name string, do func(*log) error) error {
	for range attempts {
		l, err := s.acquire(name)
		if err != nil {
			return err
		}
		err = do(l)
		if errors.Is(err, errMoved) {
			s.outdated(l)
		}
		s.release(l)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return fmt.Errorf("tape %s is created and erased again and again", name)
}

// failure is the error that keeps a tape from being written.
func (s *Store) failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[name]
}

// fail keeps a tape from being written until the store is opened again: a disk that could not keep what it was given has perhaps
// dropped it, and would not say so a second time.
func (s *Store) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[name] = fmt.Errorf("the disk failed to keep what was written before; look at it, and open the store again: %w", err)
	s.log.Error("cannot sync a tape", "tape", name, "error", err)
}

// Append implements tape.Store.
func (s *Store) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	var size int64
	err = s.with(name, func(l *log) error {
		r := &request{batch: b, entries: entries}
		err := l.write(ctx, r)
		first, size = r.first, r.size
		return err
	})
	if s.observer != nil && (err != nil || size > 0) { // a batch that happens once may have been there
		s.observer.Appended(len(entries), size, err)
	}
	if err != nil {
		return 0, s.explain(name, err)
	}
	return first, nil
}

// explain adds to errors of the disk which tape they are about, where they do not say so.
func (s *Store) explain(name string, err error) error {
	about := "tape " + name + ": "
	if _, ok := errors.AsType[*fs.PathError](err); ok && !strings.HasPrefix(err.Error(), about) {
		return fmt.Errorf("%s%w", about, vfs.Explain(err))
	}
	return err
}

// source is the tape as it is now.
func (l *log) source() (*source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.openLocked(false)
	if err == nil {
		before := l.state.Bytes
		if err = l.refreshLocked(); err == nil && l.stale && !l.writing && l.state.Bytes-before > markEvery {
			l.keepIndexLocked()
		}
	}
	if err != nil {
		return nil, err
	}
	if l.state.Entries == 0 {
		return nil, fmt.Errorf("%w: unknown tape %s", tape.ErrNotFound, l.name)
	}
	return &source{log: l, file: l.file, index: l.index, kept: l.kept, extra: l.extra, state: l.state}, nil
}

// keepIndexLocked writes down what took long to read, if nobody is writing.
func (l *log) keepIndexLocked() {
	ok, err := l.file.TryLock()
	if err != nil || !ok {
		return
	}
	l.writeIndexLocked()
	_ = l.file.Unlock()
}

// gone says why a file that was being read has ended before its time.
func (l *log) gone(err error) error {
	l.store.mu.Lock()
	closed := l.store.closed
	l.store.mu.Unlock()
	if closed {
		return tape.ErrClosed
	}
	at, stat := l.store.disk.Stat(l.name + tapeEnd)
	if errors.Is(stat, fs.ErrNotExist) || stat == nil && (!vfs.SameFile(at, l.info) || at.Size() == 0) {
		return fmt.Errorf("%w: tape %s was erased while it was read", tape.ErrDeleted, l.name)
	}
	return fmt.Errorf("read tape %s: %w", l.name, vfs.Explain(err))
}

// Read implements tape.Store.
func (s *Store) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		var l *log
		var src *source
		err := context.Cause(ctx)
		if err == nil {
			err = s.with(name, func(now *log) (err error) {
				if src, err = now.source(); err == nil {
					l = now
					s.mu.Lock()
					l.users++ // until all is read
					s.mu.Unlock()
				}
				return err
			})
		}
		if err != nil {
			yield(tape.Entry{}, s.explain(name, err))
			return
		}
		defer s.release(l)
		for e, err := range tape.Select(ctx, src, q) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Info implements tape.Store.
func (s *Store) Info(ctx context.Context, name string) (info tape.Info, err error) {
	if err := context.Cause(ctx); err != nil {
		return tape.Info{}, err
	}
	err = s.with(name, func(l *log) error {
		src, err := l.source()
		if err == nil {
			info = src.state.Info
		}
		return err
	})
	return info, s.explain(name, err)
}

// Sessions implements tape.Store.
func (s *Store) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		last, err := q.Last()
		for left := q.Limit; err == nil; {
			var page []row
			if page, err = s.page(ctx, q, last, left); err != nil {
				break
			}
			for _, r := range page {
				last = tape.Info{Tape: r.Tape, Updated: time.UnixMicro(r.Updated).UTC()}
				info, _, err := s.listed(ctx, r.Tape)
				if errors.Is(err, tape.ErrNotFound) || err == nil && (info.Session != r.Session || info.Workspace != r.Workspace) {
					s.directory.lookAgain(r.Tape) // erased in this moment, or made anew
					continue
				}
				// It stays at its place in the list, also where it has just been used.
				if info.Updated != last.Updated {
					s.directory.lookAgain(r.Tape)
					info.Updated = last.Updated
				}
				if !yield(info, err) || err != nil {
					return
				}
				left--
			}
			if q.Limit == 0 || left == 0 || len(page) == 0 { // else some were gone, and others may follow
				return
			}
		}
		yield(tape.Info{}, err)
	}
}

// page returns the next sessions behind last.
func (s *Store) page(ctx context.Context, q tape.SessionQuery, last tape.Info, most int) ([]row, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, tape.ErrClosed
	}
	return s.directory.page(ctx, q, last, most)
}

// Count implements [tape.Counter], by the names of the files: none of them is opened. A tape of which a crash has left no batch counts.
func (s *Store) Count(ctx context.Context) (n int, err error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return 0, tape.ErrClosed
	}
	list := s.disk.List(".", func(e fs.DirEntry) bool {
		if isSession(e) {
			n++
		}
		err = context.Cause(ctx)
		return err == nil
	})
	if err == nil {
		err = vfs.Explain(list)
	}
	return n, err
}

// isSession says of what is in the folder whether it is the tape of a session.
func isSession(e fs.DirEntry) bool {
	name, ok := strings.CutSuffix(e.Name(), tapeEnd)
	return ok && e.Type().IsRegular() && tape.CheckName(name) == nil && !tape.IsFork(name)
}

// listed tells about a tape from its index and its session's file, unless they are behind: then it is opened. m is what the tape's file was
// like before.
func (s *Store) listed(ctx context.Context, name string) (i tape.Info, m mark, err error) {
	at, err := s.disk.Stat(name + tapeEnd)
	if errors.Is(err, fs.ErrNotExist) {
		return i, m, tape.ErrNotFound
	}
	if err != nil {
		return i, m, s.explain(name, err)
	}
	m = markOf(at)
	if best, ok := s.head(name); ok && best.Bytes == m.size && !best.unnamed {
		if side, hash, ok := readSession(s.disk, name); ok && hash == best.side {
			best.Session, best.Workspace, best.Title, best.Agent = side.Session, side.Workspace, side.Title, side.Agent
			return best.Info, m, nil
		}
	}
	i, err = s.Info(ctx, name)
	return i, m, err
}

// head reads the newer slot of an index.
func (s *Store) head(name string) (best state, ok bool) {
	f, err := s.disk.Open(name+indexEnd, os.O_RDONLY)
	if err != nil {
		return best, false
	}
	defer f.Close()
	var buf [headSlots * recordSize]byte
	n, _ := f.ReadAt(buf[:], 0)
	for part := buf[:n]; len(part) >= recordSize; part = part[recordSize:] {
		if r, good := parseState(part[:recordSize], name); good && r.Bytes > best.Bytes {
			best, ok = r, true
		}
	}
	return best, ok
}

// Delete implements tape.Store. The forks go first: what is left of a crash in between is found by the tape's name.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return tape.ErrClosed
	}
	forks := map[string]bool{}
	err := s.disk.List(".", func(e fs.DirEntry) bool {
		for _, end := range erased {
			if fork, ok := strings.CutSuffix(e.Name(), end); ok && tape.ForkOf(fork, name) && tape.CheckName(fork) == nil {
				forks[fork] = true
			}
		}
		return true
	})
	if err != nil {
		return vfs.Explain(err)
	}
	for fork := range forks {
		if err := s.erase(ctx, fork); err != nil {
			return s.explain(fork, err)
		}
	}
	return s.explain(name, s.erase(ctx, name))
}

// erased are the files of a tape, itself last: while it is there, what is left is not forgotten. A lease is of those who work, who
// see to it themselves.
var erased = []string{blobsEnd, tornEnd, importEnd, sessionEnd, indexEnd, tapeEnd}

func (s *Store) erase(ctx context.Context, name string) error {
	remove := func() error {
		for _, end := range erased {
			if err := s.disk.RemoveAll(name + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	err := s.with(name, func(l *log) error {
		if err := l.commit.lock(ctx); err != nil {
			return err
		}
		defer l.commit.unlock()
		l.mu.Lock()
		err := l.openLocked(false)
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if err := l.lock(ctx); err != nil {
			return err
		}
		defer func() { _ = l.file.Unlock() }()
		at, err := s.disk.Stat(name + tapeEnd)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !vfs.SameFile(at, l.info) {
			return errMoved
		}
		if err != nil {
			return err
		}
		// A reader, here or in another process, may have it open for long; its bytes are gone all the same.
		if err := l.file.Truncate(0); err != nil {
			return err
		}
		s.directory.erase(name) // another tape of this name may begin as soon as the file is gone
		if err := remove(); err != nil {
			return err
		}
		s.outdated(l)
		return nil
	})
	if errors.Is(err, tape.ErrNotFound) {
		err = remove() // what somebody was kept from erasing
	}
	s.syncer.forget(name)
	s.mu.Lock()
	delete(s.failed, name)
	s.mu.Unlock()
	if err == nil && s.sync != SyncNone {
		err = s.disk.SyncFolder(".")
	}
	return err
}

// Close implements tape.Store. Reads that go on get tape.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.end()
	logs := s.logs
	s.logs = map[string]*log{}
	s.mu.Unlock()
	var errs []error
	for _, l := range logs {
		_ = l.commit.lock(context.Background()) // the batch that is being written
		l.mu.Lock()
		errs = append(errs, l.closeLocked())
		l.mu.Unlock()
		l.commit.unlock()
	}
	errs = append(errs, s.syncer.stop(), s.directory.close(), s.disk.Close())
	return errors.Join(errs...)
}

// touched remembers a file that is to be made durable.
func (s *Store) touched(name, path string) {
	if s.sync == SyncInterval || s.sync == SyncTurn {
		s.syncer.add(name, path)
	}
}

// synced makes a file durable.
func (s *Store) synced(f vfs.File) error {
	if s.observer == nil {
		return f.Sync()
	}
	began := time.Now()
	err := f.Sync()
	s.observer.Synced(time.Since(began), err)
	return err
}

// syncNow makes an open file durable, and with created that it is there at all.
func (s *Store) syncNow(f vfs.File, created bool) error {
	if err := s.synced(f); err != nil {
		return err
	}
	if created {
		return s.disk.SyncFolder(".")
	}
	return nil
}

// interval is how long what was appended may be lost with the machine; there is time left for the sync itself.
const interval = 900 * time.Millisecond

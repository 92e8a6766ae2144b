package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file/internal/journal"
)

// What a log consists of: its name and one of these, or the ending of its codec.
const (
	logEnd   = ".log"
	indexEnd = ".index"
	tornEnd  = ".torn" // what dying writers left at the end, moved away

	spaceEnd = ".logs" // a folder
)

const (
	// maxOpen bounds the logs that are open while nothing uses them; each has two files.
	maxOpen = 128
	// attempts bounds how often a file is looked for again that was replaced in the moment it was opened.
	attempts = 100
)

// Space is a [store.Log].
//
// Each log is a file of lines that only grows at its end. A batch is one write. In Indexed spaces there is an index beside it, which has
// nothing that the file does not have; and the file .lists and the folder .changes, by which a list need not look at all logs.
type Space struct {
	e       *Engine
	o       store.LogOptions
	disk    vfs.Folder
	log     *slog.Logger
	codec   Codec // nil: all logs have the engine's own form
	noEmpty bool  // see [Layout]
	shared  bool  // other processes write, or this one is beside the owner

	mu     sync.Mutex
	closed bool
	logs   map[string]*log
	ends   log // the ring of logs in the order of use: newer is the oldest, older the newest
	failed map[string]error
	flat   bool // it is known that no log is below another one

	total     atomic.Int64 // bytes of all files, where they are bounded
	syncer    syncer
	changes   *journal.Writer
	directory directory
	keeper    keeper
	ending    context.Context // ends when the space closes
	end       context.CancelCauseFunc
}

var _ store.Log = (*Space)(nil)

func openSpace(e *Engine, o store.LogOptions) (*Space, error) {
	layout := e.layouts[o.Space]
	s := &Space{
		e: e, o: o, log: e.log, shared: !e.alone && (o.Indexed || e.lock == nil),
		logs: map[string]*log{}, failed: map[string]error{},
	}
	if o.Indexed { // what lines do not have is in the index
		s.codec, s.noEmpty = layout.Codec, layout.NoEmpty
	}
	folder := cmp.Or(layout.Folder, strings.ReplaceAll(o.Space, "/", "+")+spaceEnd)
	if s.disk = e.dir; folder != "." {
		var err error
		if s.disk, err = vfs.Sub(e.dir, folder); err != nil {
			return nil, vfs.Explain(err)
		}
	}
	s.ends.older, s.ends.newer = &s.ends, &s.ends
	s.ending, s.end = context.WithCancelCause(context.Background())
	s.changes = journal.NewWriter(s.disk, s.log)
	s.directory = directory{s: s, follow: journal.NewReader(s.changes), turn: make(turn, 1)}
	if o.MaxBytes > 0 {
		if err := s.measure(); err != nil {
			return nil, errors.Join(vfs.Explain(err), s.closeFolder())
		}
	}
	s.syncer.start(s, e.interval)
	s.keeper.start(s)
	return s, nil
}

// measure adds up the bytes of all logs.
func (s *Space) measure() (err error) {
	list := s.disk.List(".", func(d fs.DirEntry) bool {
		if _, ok := s.nameOf(d.Name()); ok {
			if at, stat := d.Info(); stat == nil {
				s.total.Add(at.Size())
			}
		}
		return true
	})
	return errors.Join(err, list)
}

// fits reports whether so many bytes more do not exceed the bound of the space.
func (s *Space) fits(more int64) bool {
	return s.o.MaxBytes == 0 || s.total.Load()+more <= s.o.MaxBytes
}

// wrote takes in that this process has written to a log. The caller has its lock.
func (s *Space) wrote(l *log, before, now *state) {
	s.total.Add(now.bytes - before.bytes)
	if s.o.Indexed {
		s.directory.put(now)
	}
	if s.o.Durability != store.Synced {
		s.touched(l.name, l.full)
	}
}

// acquire finds or makes the log of a name, to be released.
func (s *Space) acquire(name string) (*log, error) {
	if err := store.CheckKey(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.flat = s.flat && !strings.Contains(name, "/")
	l := s.logs[name]
	if l == nil {
		l = &log{s: s, name: name, warned: -1, commit: make(turn, 1)}
		var end string
		l.path, end, l.framing = s.fileOf(name)
		l.full = l.path + end
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
func (s *Space) release(l *log) {
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
func (s *Space) drop(l *log) {
	if s.logs[l.name] == l {
		delete(s.logs, l.name)
	}
	l.unlink()
}

// outdated takes a log whose file is no longer at its path out of the way of the next one.
func (s *Space) outdated(l *log) {
	l.useful.Store(false)
	s.mu.Lock()
	if s.logs[l.name] == l {
		delete(s.logs, l.name)
	}
	s.mu.Unlock()
	l.mu.Lock()
	l.finished = true
	l.wakeLocked()
	l.mu.Unlock()
}

// with runs do with a log, and again with a new one while do says that the file was replaced.
func (s *Space) with(ctx context.Context, name string, do func(*log) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for range attempts {
		l, err := s.acquire(name)
		if err != nil {
			return err
		}
		err = do(l)
		if errors.Is(err, errReplaced) {
			s.outdated(l)
		}
		s.release(l)
		if errors.Is(err, fs.ErrClosed) && s.isClosed() {
			return store.ErrClosed
		}
		if !errors.Is(err, errReplaced) {
			return explain(err)
		}
	}
	return fmt.Errorf("log %s is created and deleted again and again", name)
}

// withTurn is with for who writes to the log.
func (s *Space) withTurn(ctx context.Context, name string, do func(*log) error) error {
	return s.with(ctx, name, func(l *log) error {
		if err := l.commit.lock(ctx); err != nil {
			return err
		}
		defer l.commit.unlock()
		return do(l)
	})
}

// explain adds to errors of the disk what a user can do about them.
func explain(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return vfs.Explain(err)
	}
	return err
}

func (s *Space) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// failure is the error that keeps a log from being written.
func (s *Space) failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[name]
}

// fail keeps a log from being written until the space is opened again: a disk that could not keep what it was given has perhaps dropped
// it, and would not say so a second time.
func (s *Space) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[name] = fmt.Errorf("the disk failed to keep what was written before; look at it, and start again: %w", err)
	s.log.Error("cannot sync a log", "log", name, "error", err)
}

// Append implements [store.Log].
func (s *Space) Append(ctx context.Context, name string, b store.Batch) (info store.Info, err error) {
	if err := b.Check(name); err != nil {
		return store.Info{}, err
	}
	if s.noEmpty && len(b.Entries) == 0 {
		return store.Info{}, fmt.Errorf("%w: the batch of %q has no entries", store.ErrInvalid, name)
	}
	err = s.with(ctx, name, func(l *log) (err error) {
		info, err = l.write(ctx, b)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = &store.MovedLog{Info: store.Info{Name: name}}
	}
	return info, err
}

// Info implements [store.Log].
func (s *Space) Info(ctx context.Context, name string) (info store.Info, err error) {
	err = s.with(ctx, name, func(l *log) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err = l.lookLocked(); err == nil {
			info = l.state.info()
		}
		return err
	})
	return info, err
}

// source is the log as it is now.
func (l *log) source() (*source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.lookLocked(); err != nil {
		return nil, err
	}
	return &source{
		log: l, file: l.file, index: l.index, slotSize: l.slotSize, extra: l.extra, state: l.state,
		unmarked: l.broken || !l.s.o.Indexed,
	}, nil
}

// lookLocked takes in what others have appended, for a reader.
func (l *log) lookLocked() error {
	if err := l.openLocked(false); err != nil {
		return err
	}
	before := l.state.bytes
	if _, err := l.refreshLocked(); err != nil {
		return err
	}
	if l.stale && !l.writing && (l.state.bytes-before > checkEvery || l.unnamedLocked()) {
		l.keepIndexLocked()
	}
	if !l.state.there() {
		return store.ErrNotFound
	}
	return nil
}

// unnamedLocked reports whether the log's revisions are only in memory.
func (l *log) unnamedLocked() bool {
	_, ok := l.framing.(coded)
	return ok && l.slotSize == 0
}

// gone says why a file that was being read has ended before its time.
func (l *log) gone(err error) error {
	if l.s.isClosed() {
		return store.ErrClosed
	}
	at, stat := l.s.disk.Stat(l.full)
	if errors.Is(stat, fs.ErrNotExist) || stat == nil && (!vfs.SameFile(at, l.opened) || at.Size() == 0) {
		return store.ErrDeleted
	}
	return fmt.Errorf("read log %s: %w", l.name, vfs.Explain(err))
}

// hold finds a log and what it is now. The caller releases the log.
func (s *Space) hold(ctx context.Context, name string) (l *log, src *source, err error) {
	err = s.with(ctx, name, func(now *log) (err error) {
		if src, err = now.source(); err == nil {
			l = now
			s.mu.Lock()
			l.users++
			s.mu.Unlock()
		}
		return err
	})
	return l, src, err
}

// Trim implements [store.Log].
func (s *Space) Trim(ctx context.Context, name string, below uint64) error {
	err := s.withTurn(ctx, name, func(l *log) error { return l.trim(ctx, below) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Delete implements [store.Log]. The logs below go first: what is left of a crash in between is found by the log's name.
func (s *Space) Delete(ctx context.Context, name string) error {
	if err := errors.Join(store.CheckKey(name), context.Cause(ctx)); err != nil {
		return err
	}
	below, err := s.below(name)
	if err != nil {
		return err
	}
	for _, other := range below {
		if err := s.erase(ctx, other); err != nil {
			return err
		}
	}
	return s.erase(ctx, name)
}

// below returns the logs below a name. The folder is listed once if no log of it is below another one and only this process writes.
func (s *Space) below(name string) (below []string, err error) {
	s.mu.Lock()
	closed, flat := s.closed, s.flat
	s.flat = !s.shared // until a name says otherwise
	s.mu.Unlock()
	if closed {
		return nil, store.ErrClosed
	}
	if flat {
		return nil, nil
	}
	nested := false
	names, err := s.namesOfFiles()
	for other := range names {
		if nested = nested || strings.Contains(other, "/"); strings.HasPrefix(other, name+"/") {
			below = append(below, other)
		}
	}
	if nested || err != nil {
		s.mu.Lock()
		s.flat = false
		s.mu.Unlock()
	}
	return below, explain(err)
}

// erase removes a log's files, that of the log itself last: while it is there, what is left is not forgotten.
func (s *Space) erase(ctx context.Context, name string) error {
	path, end, f := s.fileOf(name)
	sideEnd := f.sideEnd()
	remove := func() error {
		for _, end := range []string{tornEnd, fillEnd, sideEnd, indexEnd, end} {
			if err := s.disk.Remove(path + end); end != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	err := s.withTurn(ctx, name, func(l *log) error { return l.erase(ctx, remove) })
	if errors.Is(err, store.ErrNotFound) {
		err = explain(remove()) // what another process was kept from erasing
	}
	s.syncer.forget(name)
	s.mu.Lock()
	delete(s.failed, name)
	s.mu.Unlock()
	if err == nil {
		err = explain(s.disk.SyncFolder("."))
	}
	return err
}

// erase empties the file and removes all files. The caller holds commit.
func (l *log) erase(ctx context.Context, remove func() error) error {
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
	at, err := l.s.disk.Stat(l.full)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !vfs.SameFile(at, l.opened) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	// A reader, here or in another process, may have it open for long; its bytes are gone all the same.
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	l.s.total.Add(-at.Size())
	if l.s.o.Indexed {
		l.s.directory.erase(l.name) // another log of this name may begin as soon as the file is gone
	}
	if err := remove(); err != nil {
		return err
	}
	l.s.outdated(l)
	return nil
}

// Sync implements [store.Log].
func (s *Space) Sync(ctx context.Context, names ...string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	return explain(s.syncer.syncNow(names))
}

// close ends the space. Reads that go on get [store.ErrClosed].
func (s *Space) close() error {
	s.mu.Lock()
	s.closed = true
	s.end(store.ErrClosed)
	logs := s.logs
	s.logs = map[string]*log{}
	s.mu.Unlock()
	s.keeper.running.Wait()
	var errs []error
	for _, l := range logs {
		_ = l.commit.lock(context.Background()) // the batch that is being written
		l.mu.Lock()
		errs = append(errs, l.closeLocked())
		l.mu.Unlock()
		l.commit.unlock()
	}
	return errors.Join(append(errs, s.syncer.stop(), s.directory.close(), s.closeFolder())...)
}

func (s *Space) closeFolder() error {
	if s.disk == s.e.dir {
		return nil
	}
	return s.disk.Close()
}

// touched remembers a file that is to be made durable.
func (s *Space) touched(name, path string) {
	if !s.e.unsynced {
		s.syncer.add(name, path)
	}
}

// synced makes a file durable.
func (s *Space) synced(f vfs.File) error {
	began := time.Now()
	err := f.Sync()
	if s.e.synced != nil {
		s.e.synced(time.Since(began), err)
	}
	return err
}

// syncNow makes an open file durable, and with created that it is there at all.
func (s *Space) syncNow(f vfs.File, created bool) error {
	if err := s.synced(f); err != nil {
		return err
	}
	if created {
		return s.disk.SyncFolder(".")
	}
	return nil
}

// namesOfFiles are the names of logs of which there is any file.
func (s *Space) namesOfFiles() (map[string]bool, error) {
	names := map[string]bool{}
	err := s.disk.List(".", func(d fs.DirEntry) bool {
		if name, ok := s.nameOf(d.Name()); ok {
			names[name] = true
			return true
		}
		for _, end := range s.besideEnds() {
			base, ok := strings.CutSuffix(d.Name(), end)
			if !ok {
				continue
			}
			// Which form the log has, its name says.
			for _, logEnd := range []string{s.logEnd(), logEnd} {
				if name, ok := s.nameOf(base + logEnd); ok {
					if path, end, _ := s.fileOf(name); path == base && end == logEnd {
						names[name] = true
						return true
					}
				}
			}
		}
		return true
	})
	return names, err
}

// logEnd is the ending of logs that have the space's own form.
func (s *Space) logEnd() string {
	if s.codec != nil {
		return s.codec.End()
	}
	return logEnd
}

// besideEnds are the endings of files beside those of logs.
func (s *Space) besideEnds() []string {
	ends := []string{indexEnd, tornEnd, fillEnd}
	if s.codec != nil {
		ends = append(ends, s.codec.SideEnd())
	}
	return ends
}

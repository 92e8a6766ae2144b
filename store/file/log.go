package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// errReplaced says that the file is no longer the one at its path: look again.
var errReplaced = errors.New("the log's file was replaced or deleted")

// log is an open log. Its file never changes; when another one lies at the path, the log has ended and a new one is opened.
type log struct {
	s       *Space
	name    string
	path    string // of its files, without their endings
	full    string // of the file itself
	framing framing

	// Guarded by the space's mutex.
	users  int
	older  *log // in the order of use
	newer  *log
	useful atomic.Bool // it has a file that is, for all that is known, the one at its path

	// commit is held by the one who writes: taken before mu, never with it held.
	commit turn

	mu       sync.Mutex // guards what follows; held for moments, and never while the disk spins
	file     vfs.File   // nil when not open
	opened   fs.FileInfo
	index    vfs.File    // nil when there is none yet
	slot     int         // the one written last
	slotSize int         // 0: there is no slot
	extra    []byte      // marks that the index does not have yet
	stale    bool        // the index does not have the state
	broken   bool        // nor all marks before it
	checked  int64       // length at the last check slot
	record   []byte      // for the next slot
	mark     slotMark    // for reading one
	seen     [2]slotMark // slots 0 and 1 as they are in the index
	state    state
	skip     map[int64]bool             // see misplaced; nil where the log was not examined
	loaded   bool                       // the state is that of a file that was read
	warned   int64                      // damages that were told of
	writing  bool                       // what lies behind the state is being written here: it is not to be taken in
	doubt    int64                      // Synced: from here on the file may not be durable, whatever syncs say
	named    bool                       // Synced: the file's name is durable
	cut      int64                      // what a write that failed has left behind, when it could not be cut off: up to here; 0 is nothing
	finished bool                       // closed, deleted or replaced
	onDamage func(line int64, d damage) // of a check
}

// openLocked opens the file. Only who is about to create a log makes one.
func (l *log) openLocked(create bool) error {
	if l.finished {
		return errReplaced
	}
	if l.file != nil {
		return nil
	}
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err := l.s.disk.Open(l.full, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return store.ErrNotFound
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.opened, l.loaded = f, info, false
	l.state, l.doubt, l.named = state{name: l.name}, math.MaxInt64, false
	l.openIndexLocked(0)
	l.useful.Store(true)
	return nil
}

// openIndexLocked opens the index. A log does without one: it is read from its beginning then.
func (l *log) openIndexLocked(create int) {
	if l.index != nil || !l.s.o.Indexed {
		return
	}
	if f, err := l.s.disk.Open(l.path+indexEnd, os.O_RDWR|create); err == nil {
		l.index = f
	} else if !errors.Is(err, fs.ErrNotExist) {
		l.s.log.Warn("cannot use a log's index; rebuilding it", "log", l.name, "error", err)
	}
}

// closeLocked ends the log.
func (l *log) closeLocked() error {
	l.finished = true
	l.useful.Store(false)
	l.wakeLocked()
	var errs []error
	for _, f := range []vfs.File{l.file, l.index} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// wakeLocked wakes those who wait for a change.
func (l *log) wakeLocked() {
}

// refreshLocked takes in what others have appended, and returns the size of the file.
func (l *log) refreshLocked() (size int64, err error) {
	if l.writing || l.loaded && !l.s.shared && l.cut == 0 {
		return l.state.bytes, nil // as it was before the batch
	}
	at, err := l.s.disk.Stat(l.full)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !vfs.SameFile(at, l.opened) {
		return 0, errReplaced
	}
	if err != nil {
		return 0, err
	}
	size = at.Size()
	if l.loaded && (!l.s.shared || size == l.state.bytes && l.state.there() && !l.movedLocked()) {
		return size, nil
	}
	if size < l.state.bytes { // a writer took back what it could not make durable
		l.state = state{name: l.name}
		l.extra, l.skip = nil, nil
	}
	was := l.state.count
	if err := l.loadLocked(size); err != nil {
		return 0, err
	}
	if l.state.count != was {
		l.wakeLocked()
	}
	return size, nil
}

// movedLocked reports whether another process may have written a batch without entries, of which a codec's file has nothing.
func (l *log) movedLocked() bool {
	if _, ok := l.framing.(own); ok || l.index == nil || l.slotSize == 0 || l.s.noEmpty {
		return false
	}
	next := 1 - l.slot&1 // the next batch changes it, whoever writes it
	_, _ = l.index.ReadAt(l.mark[:], int64(next*l.slotSize))
	return l.mark != l.seen[next]
}

// loadLocked brings the state up to the size of the file: from the index as far as it goes, the rest by reading.
func (l *log) loadLocked(size int64) error {
	l.openIndexLocked(0)
	var x indexed
	x.last.name = l.name
	if l.index != nil {
		x = readIndex(l.index, l.name, l.file, size)
		l.slotSize = x.size
		l.seen = x.seen
		switch best := &x.best; {
		case best.count > 0 && l.state.newer(best) && best.bytes == l.state.bytes && best.life == l.state.life:
			l.stale, l.broken = true, true // damage was met that the index does not know of
		case best.count > 0 && best.bytes >= l.state.bytes:
			l.state, l.slot, l.extra, l.stale, l.broken = *best, x.slot, nil, false, false
			l.checked, l.named = best.bytes, true
		}
		if x.size != 0 && (x.best.bytes != x.last.bytes || x.best.count != x.last.count) {
			l.broken = true
		}
	}
	from := l.state.bytes
	if !l.state.there() {
		l.extra, from = nil, 0
		l.state = l.framing.begin(l.name, l.readSide())
	}
	t, err := l.take(l.state, size)
	if err != nil {
		return err
	}
	switch {
	case t.anew && from > 0:
		l.adoptLocked(t)
	case t.bytes > from:
		l.doubt = min(l.doubt, from)
		t.tail, _ = tailOf(l.file, t.bytes)
		if l.stale = true; l.s.o.Indexed {
			l.extra = append(l.extra, t.extra...)
		}
		fallthrough
	default:
		if l.state = t.state; t.anew {
			l.skip = t.skip
		}
		l.warnLocked()
	}
	if lost := l.state.lost(&x, l.framing); !l.loaded && lost != "" {
		l.s.log.Warn("log is damaged at its end", "log", l.name, "offset", min(l.state.bytes, x.last.bytes), "error", lost)
	}
	l.loaded = true
	return nil
}

func (l *log) readSide() []byte {
	end := l.framing.sideEnd()
	if end == "" {
		return nil
	}
	text, err := vfs.ReadFile(l.s.disk, l.path+end)
	if err != nil || len(text) > 4*store.MaxHead {
		return nil
	}
	return text
}

// adoptLocked takes over what was read from the beginning of a log that was known before. What follows from the place of an entry stays as
// it is: numbers go on from where they were.
func (l *log) adoptLocked(t reading) {
	if t.bytes > l.state.bytes { // there is more behind it: that has another revision
		t.count = max(t.count, l.state.count+1)
	} else {
		t.count, t.id = l.state.count, l.state.id
	}
	t.bytes = max(t.bytes, l.state.bytes) // also where the last line is the one that cannot be read
	t.last = max(t.last, l.state.last)
	t.label, t.created, t.life = l.state.label, l.state.created, l.state.life
	if _, ok := l.framing.(own); ok {
		t.head, t.updated = l.state.head, l.state.updated
	}
	t.tail, _ = tailOf(l.file, t.bytes)
	t.side = l.state.side
	l.state, l.skip, l.extra, l.stale, l.broken = t.state, t.skip, nil, true, true
	l.warnLocked()
}

// examine reads the log from its beginning, where a reader has met damage, and returns the lines that are to be passed over.
func (l *log) examine(of *source) (map[int64]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip == nil {
		if err := l.examineLocked(); err != nil {
			return nil, err
		}
	}
	if l.skip == nil {
		return misplaced(l, of.file, of.state.bytes)
	}
	return l.skip, nil
}

// recount examines the log again, after more damage was met than is known of.
func (l *log) recount(met int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.lines < met {
		_ = l.examineLocked() // the reader has what could be read
	}
}

func (l *log) examineLocked() error {
	if l.finished || l.file == nil || l.writing {
		return nil
	}
	t, err := l.takeDamaged(l.file, l.state.bytes)
	if err != nil {
		return err
	}
	if t.lines == l.state.lines {
		l.skip = t.skip
		return nil
	}
	l.adoptLocked(t)
	l.keepIndexLocked()
	return nil
}

// warnLocked says once of damage that it was found.
func (l *log) warnLocked() {
	found := l.state.found
	l.state.found = damage{}
	if found.why == nil || l.warned == l.state.lines {
		return
	}
	l.warned = l.state.lines
	l.s.log.Warn("log is damaged; skipped unreadable lines", "log", l.name, "damages", max(1, l.state.lines),
		"first_offset", found.offset, "error", found.why)
}

// lock takes the log for this process. Another one has it only for the length of a batch, so it is asked again and again rather than waited
// for in the kernel, where nothing could be canceled.
func (l *log) lock(ctx context.Context) error {
	const longest = 4 * time.Millisecond
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, longest) {
		ok, err := l.file.TryLock()
		if ok || err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// unlock gives the log back. If that fails, the file is closed, which unlocks it too: what was written before is no less written.
func (l *log) unlock() {
	if err := l.file.Unlock(); err != nil {
		l.s.log.Warn("closed a log that cannot be unlocked", "log", l.name, "error", err)
		l.s.outdated(l)
	}
}

// own runs do as the only writer of the log, in all processes, with all that was appended taken in and the end repaired. errReplaced says
// that there is another file by now.
func (l *log) own(ctx context.Context, create bool, do func() error) error {
	l.mu.Lock()
	err := l.openLocked(create)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if l.s.shared {
		if err := l.lock(ctx); err != nil {
			return err
		}
		defer l.unlock()
	}
	l.mu.Lock()
	fresh := !l.loaded || l.s.shared || l.cut != 0
	size, err := l.refreshLocked()
	if err == nil && fresh {
		if err = l.repairLocked(size); err == nil {
			err = l.rewriteDoubtLocked()
		}
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return do()
}

// repairLocked brings the log's end in order, with the lock held: what lies behind the last whole batch is of a writer that died.
func (l *log) repairLocked(size int64) error {
	end := l.state.bytes
	if size <= end {
		l.cut = 0
		return nil
	}
	if l.cut == size { // not of the dead, but of a write of ours that failed
		if err := l.file.Truncate(end); err != nil {
			return fmt.Errorf("take back a write that failed: %w", err)
		}
		l.cut = 0
		return nil
	}
	// One thing only may be missing: the last line feed.
	last, err := l.lastLine(end, size)
	if err != nil {
		return err
	}
	if r, err := last.parse(l.framing); !last.whole() && err == nil && !r.More && (!r.entry() || r.N > l.state.last) {
		if _, err := l.file.WriteAt([]byte{'\n'}, size); err != nil {
			return fmt.Errorf("end the last line: %w", err)
		}
		size++
		if err := l.loadLocked(size); err != nil {
			return err
		}
	}
	if l.state.bytes < size {
		if err := l.moveTornLocked(l.state.bytes, size); err != nil {
			return err
		}
		if l.state.bytes == 0 { // nothing is left of what was damaged
			l.state.lines = 0
		}
	}
	return l.endLineLocked()
}

// rewriteDoubtLocked writes what may be of a process whose sync has failed: the system may take it for durable, and no later sync would
// write it.
func (l *log) rewriteDoubtLocked() error {
	if l.s.o.Durability != store.Synced {
		return nil
	}
	for at := l.doubt; at < l.state.bytes; at += keepBuffer {
		text := make([]byte, min(keepBuffer, l.state.bytes-at))
		if _, err := l.file.ReadAt(text, at); err != nil {
			return err
		}
		if _, err := l.file.WriteAt(text, at); err != nil {
			return err
		}
	}
	l.doubt = math.MaxInt64
	return nil
}

// endLineLocked ends the last line, where its line feed was damaged.
func (l *log) endLineLocked() error {
	end := l.state.bytes
	var last [1]byte
	if end == 0 {
		return nil
	}
	if _, err := l.file.ReadAt(last[:], end-1); err != nil || last[0] == '\n' {
		return err
	}
	if _, err := l.file.WriteAt([]byte{'\n'}, end); err != nil {
		return fmt.Errorf("end the last line: %w", err)
	}
	l.state.bytes++
	l.state.tail, _ = tailOf(l.file, l.state.bytes)
	return nil
}

// lastLine reads a part of a log up to its last line.
func (l *log) lastLine(from, to int64) (last line, err error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: l.file, f: l.framing, next: from, end: to, buf: *buf}
	defer func() { *buf = in.buf }()
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		if last = ln; ln.end == to {
			last.text = slices.Clone(ln.text)
		}
	}
}

// moveTornLocked moves what lies behind the last whole batch to a file of its own, for somebody to look at, and cuts it off.
func (l *log) moveTornLocked(from, to int64) error {
	torn, err := l.s.disk.Open(l.path+tornEnd, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("keep what a writer left unfinished: %w", err)
	}
	info, err := torn.Stat()
	if err != nil {
		return errors.Join(err, torn.Close())
	}
	_, err = io.Copy(io.NewOffsetWriter(torn, info.Size()), io.NewSectionReader(l.file, from, to-from))
	if err == nil {
		err = torn.Sync() // before it is gone from where it was
	}
	if err != nil {
		return fmt.Errorf("keep what a writer left unfinished: %w", errors.Join(err, torn.Truncate(info.Size()), torn.Close()))
	}
	if err := torn.Close(); err != nil {
		return err
	}
	l.s.log.Warn("moved away a log's unfinished batch", "log", l.name, "offset", from, "bytes", to-from)
	if err := l.file.Truncate(from); err != nil {
		return fmt.Errorf("cut off what a writer left unfinished: %w", err)
	}
	return nil
}

// turn is a lock whose waiting a context can end.
type turn chan struct{}

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) unlock() { <-t }

// lost says what is wrong with the end of a log that its newest state in the index does not fit; "": nothing.
func (s *state) lost(x *indexed, f framing) string {
	last := &x.last
	if last.count == 0 || x.best.bytes == last.bytes {
		return ""
	}
	// The index may be of an earlier log of that name.
	if _, ok := f.(own); ok && s.there() && s.life != last.life || s.entries > 0 && s.created != last.created {
		return ""
	}
	if last.bytes <= s.bytes {
		return "its checksum does not match"
	}
	return fmt.Sprintf("it had %d bytes more, with %d entries", last.bytes-s.bytes, last.entries-s.entries)
}

package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// What a tape consists of: its name and one of these.
const (
	tapeEnd    = ".jsonl"
	indexEnd   = ".index"
	sessionEnd = ".session" // readable id, workspace and title, which have no fixed size
	tornEnd    = ".torn"    // what dying writers left at the end, moved away
	blobsEnd   = ".blobs"   // a folder
	importEnd  = ".import"  // an import that is not yet a tape
	leaseEnd   = ".lease"
)

// errMoved says that the file is no longer the one at its path: look again.
var errMoved = errors.New("the tape's file was moved or erased")

// log is an open tape. Its file never changes; when another one lies at the path, the log has ended and a new one is opened.
type log struct {
	store *Store
	name  string

	// Guarded by store.mu.
	users  int
	older  *log // in the order of use
	newer  *log
	useful atomic.Bool // it has a file that is, for all that is known, the one at its path

	// commit is held by the one who writes: taken before mu, never with it held.
	commit turn

	mu       sync.Mutex // guards what follows; held for moments, and never while the disk spins
	file     vfs.File   // nil when not open
	info     fs.FileInfo
	index    vfs.File // nil when there is none yet
	kept     int64    // records in the index that hold
	slot     int      // the one written last
	extra    []byte   // records that the index does not have yet
	stale    bool     // the index does not have the state
	broken   bool     // nor all records before it
	sideKept uint64   // hash of the session's file as it lies there
	record   []byte   // for the next record
	state    state
	skip     map[int64]bool // see misplaced; nil where the tape was not examined
	loaded   bool           // the state is that of a file that was read
	warned   int64          // damages that were told of
	writing  bool           // what lies behind the state is being written here: it is not to be taken in
	queue    []*request
	cut      int64 // what a write that failed has left behind, when it could not be cut off: up to here; 0 is nothing
	finished bool  // closed, erased or moved
}

// request is a batch that waits to be written.
type request struct {
	batch   tape.Batch
	entries []tape.Entry
	first   int64
	size    int64 // in the file
	err     error
	done    bool
}

// openLocked opens the file. Only who is about to write makes one.
func (l *log) openLocked(create bool) error {
	if l.finished {
		return errMoved
	}
	if l.file != nil {
		return nil
	}
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err := l.store.disk.Open(l.name+tapeEnd, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: unknown tape %s", tape.ErrNotFound, l.name)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.info = f, info
	l.state.Tape = l.name
	l.openIndexLocked(0)
	l.useful.Store(true)
	return nil
}

// openIndexLocked opens the index. A tape does without one: it is read from its beginning then.
func (l *log) openIndexLocked(create int) {
	if l.index == nil {
		if f, err := l.store.disk.Open(l.name+indexEnd, os.O_RDWR|create); err == nil {
			l.index = f
		} else if !errors.Is(err, fs.ErrNotExist) {
			l.store.log.Warn("cannot use a tape's index; rebuilding it", "tape", l.name, "error", err)
		}
	}
}

// closeLocked ends the log.
func (l *log) closeLocked() error {
	l.finished = true
	l.useful.Store(false)
	var errs []error
	for _, f := range []vfs.File{l.file, l.index} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// refreshLocked takes in what others have appended.
func (l *log) refreshLocked() error {
	if l.writing {
		return nil // as it was before the batch
	}
	at, err := l.store.disk.Stat(l.name + tapeEnd)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !vfs.SameFile(at, l.info) {
		return errMoved
	}
	if err != nil {
		return err
	}
	size := at.Size()
	if size == l.state.Bytes && l.loaded {
		return nil
	}
	if size < l.state.Bytes { // a writer took back what it could not make durable
		l.state = state{Info: tape.Info{Tape: l.name}}
		l.extra, l.skip = nil, nil
	}
	return l.loadLocked(size)
}

// loadLocked brings the state up to the size of the file: from the index as far as it goes, the rest by reading.
func (l *log) loadLocked(size int64) error {
	l.openIndexLocked(0)
	var last state
	fits := true
	if l.index != nil {
		indexed, err := l.index.Stat()
		if err == nil {
			var best state
			var kept int64
			var slot int
			best, last, kept, slot = newest(l.index, indexed.Size(), l.name, l.file, size)
			fits = best.Bytes == last.Bytes
			if l.state.newer(&best) && best.Bytes == l.state.Bytes {
				l.stale, l.broken = true, true // damage was met that the index does not know of
			} else if best.Bytes >= l.state.Bytes && l.completeLocked(&best) {
				l.state, l.kept, l.slot, l.extra, l.stale, l.broken, l.sideKept = best, kept, slot, nil, false, false, best.side
			}
			if indexed.Size() < offsetOf(l.kept) && l.kept > 0 {
				l.broken = true // another process could not write it
			}
		}
	}
	from := l.state.Bytes
	if from == 0 {
		l.kept, l.extra = 0, nil
	}
	t, err := take(l.file, l.state, size)
	if err != nil {
		return err
	}
	if from == 0 && t.Entries > 0 {
		// The name shows whether the session's file tells the truth; an import's entries are of another session.
		if side, _, ok := l.readSession(); ok && tape.Name(side.Workspace, side.Session) == l.name {
			t.Session, t.Workspace = side.Session, side.Workspace
		}
	}
	switch {
	case t.anew && from > 0:
		l.adoptLocked(t)
	case t.Bytes > from:
		t.tail, _ = tailOf(l.file, t.Bytes)
		t.side = hashOf(appendSession(nil, &t.Info))
		l.extra = append(l.extra, t.extra...)
		l.stale = true
		fallthrough
	default:
		if l.state = t.state; t.anew {
			l.skip = t.skip
		}
		l.warnLocked()
	}
	if !l.loaded && !fits {
		if err := l.state.lost(&last, l.file, size); err != nil {
			l.store.log.Warn("tape is damaged at its end", "tape", l.name, "offset", min(l.state.Bytes, last.Bytes), "error", err)
		}
	}
	l.loaded = true
	return nil
}

// adoptLocked takes over what was read from the beginning of a tape that was known before. What follows from the place of an entry
// stays as it is: ids go on from where they were.
func (l *log) adoptLocked(t reading) {
	t.Bytes = max(t.Bytes, l.state.Bytes) // also where the last line is the one that cannot be read
	t.LastID = max(t.LastID, l.state.LastID)
	t.Session, t.Workspace, t.Title = l.state.Session, l.state.Workspace, cmp.Or(l.state.Title, t.Title)
	t.Agent = cmp.Or(t.Agent, l.state.Agent)
	t.tail, _ = tailOf(l.file, t.Bytes)
	t.side = hashOf(appendSession(nil, &t.Info))
	l.state, l.skip, l.extra, l.stale, l.broken = t.state, t.skip, nil, true, true
	l.warnLocked()
}

// examine reads the tape from its beginning, where a reader has met damage, and returns the lines that are to be passed over.
func (l *log) examine(of *source) (map[int64]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip == nil {
		if err := l.examineLocked(); err != nil {
			return nil, err
		}
	}
	if l.skip == nil {
		return misplaced(of.file, of.state.Bytes)
	}
	return l.skip, nil
}

// recount examines the tape again, after more damage was met than is known of.
func (l *log) recount(met int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Unreadable < met {
		_ = l.examineLocked() // the reader has what could be read
	}
}

func (l *log) examineLocked() error {
	if l.finished || l.file == nil || l.writing {
		return nil
	}
	t, err := takeDamaged(l.file, l.name, l.state.Bytes, nil)
	if err != nil {
		return err
	}
	if t.Unreadable == l.state.Unreadable {
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
	if found.why == nil || l.warned == l.state.Unreadable {
		return
	}
	l.warned = l.state.Unreadable
	l.store.log.Warn("tape is damaged; skipped unreadable lines", "tape", l.name, "damages", max(1, l.state.Unreadable),
		"first_offset", found.offset, "error", found.why)
}

// completeLocked adds what a record does not hold: the session, and an anchor's name that is too long. It is false when they are
// not as the record says.
func (l *log) completeLocked(s *state) bool {
	s.Tape = l.name
	if s.Bytes == 0 {
		return false
	}
	if s.unnamed {
		ref, err := readAnchor(l.file, s.LastAnchor.ID, s.anchor)
		if err != nil {
			return false
		}
		s.LastAnchor, s.unnamed = ref, false
	}
	if s.side == l.state.side {
		s.Session, s.Workspace, s.Title, s.Agent = l.state.Session, l.state.Workspace, l.state.Title, l.state.Agent
		return true
	}
	side, hash, ok := l.readSession()
	if !ok || hash != s.side {
		return false
	}
	s.Session, s.Workspace, s.Title, s.Agent = side.Session, side.Workspace, side.Title, side.Agent
	return true
}

// readAnchor reads the anchor whose line is known.
func readAnchor(r io.ReaderAt, id int64, at span) (tape.AnchorRef, error) {
	size := at.end - at.offset
	if size <= 0 || size > int64(maxLine) {
		return tape.AnchorRef{}, errCut
	}
	text := make([]byte, size)
	if n, err := r.ReadAt(text, at.offset); n < len(text) {
		return tape.AnchorRef{}, errors.Join(errCut, err)
	}
	e, err := parse(text)
	if err != nil || e.ID != id || e.Kind != tape.KindAnchor {
		return tape.AnchorRef{}, errors.New("the index is of another tape")
	}
	return tape.AnchorOf(e.Entry), nil
}

// reading is what a part of a tape holds.
type reading struct {
	state        // with all lines up to the last whole batch
	extra []byte // a record for each anchor
	// anew says that the tape was read from its beginning, since it is damaged.
	anew bool
	skip map[int64]bool // see misplaced
}

// take reads the tape from the state on, up to size.
func take(r io.ReaderAt, s state, size int64) (reading, error) {
	t, damaged, err := scan(r, s, size, nil, nil)
	if err != nil || !damaged {
		return t, err
	}
	return takeDamaged(r, s.Tape, size, nil)
}

// takeDamaged reads a tape from its beginning, and tells found of each damage, where that is not nil.
func takeDamaged(r io.ReaderAt, name string, size int64, found func(line int64, d damage)) (reading, error) {
	skip, err := misplaced(r, size)
	if err != nil {
		return reading{}, err
	}
	t, _, err := scan(r, state{Info: tape.Info{Tape: name}}, size, skip, found)
	t.anew, t.skip = true, skip
	return t, err
}

// scan reads the tape from the state on. skip are the lines that are passed over, as far as that is known: where it is nil, scan ends
// at the first sign of damage.
func scan(r io.ReaderAt, s state, size int64, skip map[int64]bool, found func(line int64, d damage)) (t reading, damaged bool, err error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: r, next: s.Bytes, end: size, buf: *buf}
	defer func() { *buf = in.buf }()
	s.found = damage{}
	t.state = s
	next := s
	var marks []state // of the batch
	marked := s.Bytes
	count := func(line int64, d damage) {
		if next.count(d); found != nil {
			found(line, d)
		}
	}
	for line := int64(1); ; line++ {
		ln, err := in.line()
		if errors.Is(err, io.EOF) || err == nil && !ln.whole() && ln.end == size || errors.Is(err, errCut) { // taken back in this moment
			if t.found = next.found; t.Entries == 0 { // there is nothing that what is damaged lies behind
				t.Unreadable, t.badAt = next.Unreadable, next.badAt
			}
			return t, false, nil
		}
		if err != nil {
			return t, false, err
		}
		e, err := ln.parse()
		switch {
		case err != nil:
		case e.ID <= next.LastID || skip[ln.offset]:
			err = errMisplaced
		case e.before > next.LastID && !next.broken:
			count(line, damage{ln.offset, fmt.Errorf("entries %d to %d are missing before it", next.LastID+1, e.before)})
		}
		if skip == nil && (err != nil || e.before > next.LastID) {
			return t, true, nil
		}
		if next.broken = err != nil; err != nil {
			// It may have been the end of a batch: what lies before it is not given up with it.
			count(line, damage{ln.offset, err})
			e.unfinished = next.Entries == 0
		} else if next.Add(e.Entry); e.Kind == tape.KindAnchor {
			next.anchor = ln.span
			marks = append(marks, next)
		}
		if e.unfinished {
			continue
		}
		next.Bytes = ln.end
		if len(marks) == 0 && next.Bytes >= marked+markEvery {
			marks = append(marks, next)
		}
		if len(marks) > 0 {
			marked = next.Bytes
			next.tail, _ = tailOf(r, next.Bytes)
			next.side = hashOf(appendSession(nil, &next.Info))
			t.extra = appendMarks(t.extra, marks, &next)
			marks = marks[:0]
		}
		t.state = next
	}
}

// misplaced finds the lines that lie where they do not belong: those that are left over when as many lines as possible are chosen whose
// ids rise.
func misplaced(r io.ReaderAt, size int64) (map[int64]bool, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: r, end: size, buf: *buf}
	defer func() { *buf = in.buf }()
	var ids, offsets []int64
	rising := true
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) || errors.Is(err, errCut) {
			break
		}
		if err != nil {
			return nil, err
		}
		if e, err := ln.parse(); err == nil && (ln.whole() || ln.end < size) {
			rising = rising && (len(ids) == 0 || e.ID > ids[len(ids)-1])
			ids, offsets = append(ids, e.ID), append(offsets, ln.offset)
		}
	}
	skip := map[int64]bool{}
	if rising {
		return skip, nil
	}
	kept := longestRise(ids)
	for i, offset := range offsets {
		if len(kept) > 0 && kept[0] == i {
			kept = kept[1:]
		} else {
			skip[offset] = true
		}
	}
	return skip, nil
}

// longestRise returns the places of a longest row of ids of which each is above the one before.
func longestRise(ids []int64) []int {
	var ends []int // by length: the place of the lowest id that ends a row
	before := make([]int, len(ids))
	for i, id := range ids {
		n, _ := slices.BinarySearchFunc(ends, id, func(at int, id int64) int { return cmp.Compare(ids[at], id) })
		if before[i] = -1; n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	row := make([]int, len(ends))
	for at, n := ends[len(ends)-1], len(ends)-1; n >= 0; at, n = before[at], n-1 {
		row[n] = at
	}
	return row
}

// appendMarks appends a record for each anchor of a batch. All of them are of the length behind the batch: half a batch is no
// state of a tape.
func appendMarks(dst []byte, marks []state, end *state) []byte {
	for _, m := range marks {
		anchor, last, n := m.anchor, m.LastAnchor, m.Anchors
		m = *end
		m.anchor, m.LastAnchor, m.Anchors = anchor, last, n
		dst = m.appendTo(dst)
	}
	return dst
}

// side is what the session's file holds.
type side struct {
	Session   string `json:"session"`
	Workspace string `json:"workspace"`
	Title     string `json:"title"`
	Agent     string `json:"agent,omitempty"`
}

func appendSession(dst []byte, i *tape.Info) []byte {
	text, _ := json.Marshal(side{i.Session, i.Workspace, i.Title, i.Agent}) // strings have a JSON form
	return append(append(dst, text...), '\n')
}

func (l *log) readSession() (s side, hash uint64, ok bool) { return readSession(l.store.disk, l.name) }

// maxSession bounds what is read of a session's file: id, path and title, all of them escaped.
const maxSession = 64 << 10

func readSession(d vfs.Folder, name string) (s side, hash uint64, ok bool) {
	f, err := d.Open(name+sessionEnd, os.O_RDONLY)
	if err != nil {
		return s, 0, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxSession))
	if err != nil || json.Unmarshal(text, &s) != nil {
		return s, 0, false
	}
	return s, hashOf(text), true
}

// lock takes the tape for this process. Another one has it only for the length of a batch, so it is asked again and again
// rather than waited for in the kernel, where nothing could be canceled.
func (l *log) lock(ctx context.Context) error {
	const longest = 4 * time.Millisecond
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, longest) {
		ok, err := l.file.TryLock()
		if ok || err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// unlock gives the tape back. If that fails, the file is closed, which unlocks it too: what was written before is no less written.
func (l *log) unlock() {
	if err := l.file.Unlock(); err != nil {
		l.store.log.Warn("closed a tape that cannot be unlocked", "tape", l.name, "error", err)
		l.store.outdated(l)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// own runs do as the only writer of the tape, in all processes, with all that was appended taken in and the end repaired. errMoved
// says that there is another file by now.
func (l *log) own(ctx context.Context, create bool, do func() error) error {
	l.mu.Lock()
	err := l.openLocked(create)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	l.mu.Lock()
	err = l.refreshLocked()
	if err == nil {
		err = l.repairLocked()
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return do()
}

// entries counts what is on the tape, for its owner.
func (l *log) entries() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Entries
}

// repairLocked brings the tape's end in order, with the lock held: what lies behind the last whole batch is of a writer that died.
func (l *log) repairLocked() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	end := l.state.Bytes
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
	last, err := lastLine(l.file, end, size)
	if err != nil {
		return err
	}
	if e, err := last.parse(); !last.whole() && err == nil && !e.unfinished && e.ID > l.state.LastID {
		if _, err := l.file.WriteAt([]byte{'\n'}, size); err != nil {
			return fmt.Errorf("end the last line: %w", err)
		}
		size++
		if err := l.loadLocked(size); err != nil {
			return err
		}
	}
	if l.state.Bytes < size {
		if err := l.moveTornLocked(l.state.Bytes, size); err != nil {
			return err
		}
		if l.state.Bytes == 0 { // nothing is left of what was damaged
			l.state.Unreadable, l.state.badAt = 0, 0
		}
	}
	return l.endLineLocked()
}

// endLineLocked ends the last line, where its line feed was damaged.
func (l *log) endLineLocked() error {
	end := l.state.Bytes
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
	l.state.Bytes++
	l.state.tail, _ = tailOf(l.file, l.state.Bytes)
	return nil
}

// lastLine reads a part of a tape up to its last line.
func lastLine(r io.ReaderAt, from, to int64) (last line, err error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: r, next: from, end: to, buf: *buf}
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
			last.text = bytes.Clone(ln.text)
		}
	}
}

// moveTornLocked moves what lies behind the last whole batch to a file of its own, for somebody to look at, and cuts it off.
func (l *log) moveTornLocked(from, to int64) error {
	torn, err := l.store.disk.Open(l.name+tornEnd, os.O_RDWR|os.O_CREATE)
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
	l.store.log.Warn("moved away a tape's unfinished batch", "tape", l.name, "offset", from, "bytes", to-from)
	if err := l.file.Truncate(from); err != nil {
		return fmt.Errorf("cut off what a writer left unfinished: %w", err)
	}
	return nil
}

// write writes what is waiting in the queue, as its only writer.
func (l *log) write(ctx context.Context, r *request) (err error) {
	l.mu.Lock()
	l.queue = append(l.queue, r)
	l.mu.Unlock()
	if err := l.commit.lock(ctx); err != nil {
		if l.dequeue(r) {
			return err
		}
		_ = l.commit.lock(context.Background()) // it is being written in this moment
	}
	defer l.commit.unlock()
	if r.done { // somebody else did it, with one sync for all
		return r.err
	}
	err = l.own(ctx, r.batch.Create, func() error {
		l.flush()
		return nil
	})
	if !r.done {
		l.dequeue(r)
		return err
	}
	return errors.Join(r.err, err)
}

// dequeue takes a batch back that nobody has begun to write.
func (l *log) dequeue(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, r)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return i >= 0
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

// flush writes the batches of the queue, each with one write, and then, where that is the policy, makes them durable together. The
// caller holds the locks.
func (l *log) flush() {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.writing = true
	before := l.state
	l.mu.Unlock()

	next := before
	var extra []byte
	for _, r := range queue {
		var marks []byte
		at := next.Bytes
		next, marks, r.err = l.append(next, r)
		if r.size = next.Bytes - at; r.err != nil {
			r.err = fmt.Errorf("tape %s: %w", l.name, vfs.Explain(r.err))
		}
		extra = append(extra, marks...)
	}
	written := next.Bytes > before.Bytes
	if written && l.store.sync == SyncAlways {
		if err := l.store.syncNow(l.file, before.Entries == 0); err != nil {
			err = fmt.Errorf("tape %s: what was written cannot be made durable: %w", l.name, vfs.Explain(err))
			err = errors.Join(err, l.file.Truncate(before.Bytes))
			for _, r := range queue {
				if r.err == nil {
					r.first, r.size, r.err = 0, 0, err
				}
			}
			next, extra, written = before, nil, false
			l.store.fail(l.name, err)
		}
	}
	l.mu.Lock()
	l.state = next
	l.extra = append(l.extra, extra...)
	l.writing = false
	l.stale = l.stale || written
	kept := l.sideKept
	if l.stale {
		l.writeIndexLocked()
	}
	named := kept != l.sideKept
	l.mu.Unlock()
	if named { // the name of a session is nowhere else
		l.store.touched(l.name, l.name+sessionEnd)
		if l.store.sync == SyncAlways {
			if err := errors.Join(l.store.syncer.syncFile(l.name+sessionEnd), l.store.disk.SyncFolder(".")); err != nil {
				l.store.log.Warn("cannot sync a session's name", "tape", l.name, "error", err)
			}
		}
	}
	if written {
		l.store.directory.put(next)
	}
	for _, r := range queue {
		r.done = true
	}
	if next.Entries == 0 { // nobody shall find a tape that was never begun
		_ = l.store.disk.Remove(l.name + tapeEnd)
	} else if written {
		l.store.touched(l.name, l.name+tapeEnd)
	}
}

// append writes one batch behind the state and returns the state behind it, with a record for each anchor.
func (l *log) append(s state, r *request) (state, []byte, error) {
	if err := l.store.failure(l.name); err != nil {
		return s, nil, err
	}
	written, err := r.batch.Number(r.entries, s.Info, time.Now(), func(after int64) iter.Seq2[tape.Entry, error] {
		return (&source{file: l.file, state: s}).Entries(after, math.MaxInt64, false)
	})
	if err != nil {
		return s, nil, err
	}
	if written != 0 {
		r.first = written
		return s, nil, nil
	}
	buf := getBuffer()
	defer putBuffer(buf)
	text := *buf
	next := s
	var marks []state
	for i, e := range r.entries {
		start := int64(len(text))
		text = appendLine(text, e, next.LastID, i < len(r.entries)-1)
		if next.Add(e); e.Kind == tape.KindAnchor {
			next.anchor = span{s.Bytes + start, s.Bytes + int64(len(text))}
			marks = append(marks, next)
		}
	}
	*buf = text
	if r.batch.Create && r.batch.Session != "" {
		next.Session, next.Workspace = r.batch.Session, r.batch.Workspace
	}
	if _, err := l.file.WriteAt(text, s.Bytes); err != nil {
		if undo := l.file.Truncate(s.Bytes); undo != nil {
			// It stands behind the end, where no reader looks; the next batch tries again.
			if info, stat := l.file.Stat(); stat == nil {
				l.cut = info.Size()
			}
			err = errors.Join(err, undo)
		}
		return s, nil, err
	}
	r.first = r.entries[0].ID
	next.Bytes += int64(len(text))
	next.tail = hashOf(text[max(0, len(text)-tailSize):])
	if len(text) < tailSize {
		next.tail, _ = tailOf(l.file, next.Bytes)
	}
	if next.side == 0 || next.Session != s.Session || next.Workspace != s.Workspace || next.Title != s.Title || next.Agent != s.Agent {
		next.side = hashOf(appendSession(nil, &next.Info))
	}
	if len(marks) == 0 && next.Bytes/markEvery != s.Bytes/markEvery {
		marks = append(marks, next)
	}
	return next, appendMarks(nil, marks, &next), nil
}

// writeIndexLocked brings the index up to the state, with the tape's lock held. It may fail: then the index is emptied, and the
// tape is read from its beginning the next time that it is opened.
func (l *log) writeIndexLocked() {
	if l.state.Entries == 0 {
		return
	}
	err := l.tryWriteIndexLocked()
	if err == nil {
		return
	}
	l.store.log.Warn("cannot write a tape's index", "tape", l.name, "error", err)
	l.stale, l.broken = true, true
	if l.index != nil {
		_ = l.index.Truncate(0) // it holds nothing that the tape does not
	}
}

func (l *log) tryWriteIndexLocked() error {
	if l.broken { // records are missing: only a reading from the beginning brings them back
		t, err := take(l.file, state{Info: tape.Info{Tape: l.name}}, l.state.Bytes)
		if err != nil {
			return err
		}
		if t.Entries != l.state.Entries {
			return errCut
		}
		l.kept, l.extra = 0, t.extra
	}
	if l.openIndexLocked(os.O_CREATE); l.index == nil {
		return errors.New("it cannot be opened")
	}
	if l.state.side != l.sideKept {
		if err := l.writeSession(); err != nil {
			return err
		}
		l.sideKept = l.state.side
	}
	if len(l.extra) > 0 {
		if err := l.index.Truncate(offsetOf(l.kept)); err != nil { // what a dying writer left behind the last record
			return err
		}
		if _, err := l.index.WriteAt(l.extra, offsetOf(l.kept)); err != nil {
			return err
		}
	}
	slot := 1 - l.slot
	l.record = l.state.appendTo(l.record[:0])
	if _, err := l.index.WriteAt(l.record, int64(slot)*recordSize); err != nil {
		return err
	}
	l.kept += int64(len(l.extra)) / recordSize
	l.slot, l.extra, l.stale, l.broken = slot, nil, false, false
	return nil
}

func (l *log) writeSession() error {
	f, err := l.store.disk.Open(l.name+sessionEnd, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	text := appendSession(nil, &l.state.Info)
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	return errors.Join(err, f.Close())
}

// Package tables has the tables of package file: each is a file to which changes are appended.
package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

const (
	lockPause = time.Millisecond // between attempts to lock a file that a command writes to
	lockWait  = 5 * time.Second
	// Unsynced revisions that readers have seen may be lost with the machine. The next process skips so many, and gives none twice.
	revGap = 1 << 16
	// Most frames are read at once, without their bodies.
	headRead = 512
	// Most changes are of a record that has changed a moment ago.
	mostRecent = 512
)

// slot is where the last frame of a record is.
type slot struct {
	off     int64
	rev     uint64
	size    uint32
	expires uint32 // Unix seconds, rounded up; 0: never
}

// place stands for a key. Two keys with one place are 2^128 to one against.
type place [2]uint64

// span is a frame whose content is to be erased.
type span struct {
	off  int64
	body bool // its body too
}

// End is the ending of the files of tables.
const End = ".table"

// Folder is where tables lie.
type Folder struct {
	Dir   vfs.Folder
	Log   *slog.Logger
	Owner bool // no other server uses it
}

// Table is a [store.Table].
type Table struct {
	in    Folder
	o     store.TableOptions
	name  string // of the file
	seeds [2]maphash.Seed

	end     context.Context
	stop    context.CancelCauseFunc
	running sync.WaitGroup

	waiting sync.Mutex
	calls   []*call // that are not yet written

	mu       sync.RWMutex // also of f, with syncs.mu
	f        vfs.File
	info     fs.FileInfo
	size     int64 // up to here the file has frames
	behind   int64 // bytes behind them, when the file was locked
	rev      uint64
	index    map[place]slot
	recent   map[place]staged // frames that this process has written last; those that are not in the index are outdated
	bytes    int64
	oldest   int64 // no record has a frame before it
	expiring bool
	swept    time.Time
	erase    []span // of replaced and deleted records
	graves   []span // deletions of what is in erase
	deleted  deletions
	watchers map[*watcher]bool
	keeping  bool // a goroutine keeps house
	slow     bool // it does so each eraseEvery
	wake     chan struct{}
	broken   error // puts are refused until the file has been rewritten
	buf      []byte
	write    write // the last one, for its memory

	syncs syncs
}

// syncs are the syncs of a file: whoever waits for one shares it with all others that wait.
type syncs struct {
	written atomic.Uint64 // number of writes
	mu      sync.Mutex
	done    sync.Cond
	synced  uint64
	busy    bool
	failed  error // of a sync: nobody can tell what of the file is durable
	named   bool  // the name of the file is durable
}

// Open opens a table, and makes it if it does not exist.
func Open(ctx context.Context, in Folder, o store.TableOptions) (*Table, error) {
	t := &Table{
		in: in, o: o, name: strings.ReplaceAll(o.Name, "/", ".") + End, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		watchers: map[*watcher]bool{}, wake: make(chan struct{}, 1), write: write{last: map[place]int{}},
	}
	t.syncs.done.L = &t.syncs.mu
	t.end, t.stop = context.WithCancelCause(context.Background())
	if _, err := in.Dir.Stat(t.name); errors.Is(err, fs.ErrNotExist) {
		if err := vfs.WriteFile(in.Dir, t.name, appendFileHead(nil, 0)); err != nil {
			return nil, vfs.Explain(err)
		}
	} else if err != nil {
		return nil, vfs.Explain(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	unlock, err := t.lockFile(ctx)
	if err != nil {
		if t.f != nil {
			_ = t.f.Close()
		}
		return nil, err
	}
	defer unlock()
	if t.in.Owner {
		if o.Durability == store.Async {
			t.rev += revGap
		} else if err := t.writeAgain(); err != nil {
			return nil, errors.Join(vfs.Explain(err), t.f.Close())
		}
	}
	t.keep()
	return t, nil
}

// writeAgain writes what is in the file over itself, and makes it durable. If a sync of an earlier process has failed, the system may have
// bytes in its memory that no later sync would bring to the disk. A lock is held.
func (t *Table) writeAgain() error {
	buf := make([]byte, min(t.size, 1<<20))
	for at := int64(0); at < t.size; at += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), t.size-at)]
		n, err := t.f.ReadAt(part, at)
		if n == len(part) {
			_, err = t.f.WriteAt(part, at)
		}
		if err != nil {
			return err
		}
	}
	return t.f.Sync()
}

func (t *Table) placeOf(key string) place {
	return place{maphash.String(t.seeds[0], key), maphash.String(t.seeds[1], key)}
}

// lockFile locks the file for this process, and reads what others have appended. The write lock is held, but not while it waits.
func (t *Table) lockFile(ctx context.Context) (unlock func(), err error) {
	for begin := time.Now(); ; {
		if t.f == nil {
			if err := t.reload(); err != nil {
				return nil, err
			}
		}
		ok, err := t.f.TryLock()
		if err != nil {
			return nil, vfs.Explain(err)
		}
		if ok {
			f := t.f
			unlock = func() { _ = f.Unlock() } // closing does it, too
			size, err := t.refresh()
			if err != nil {
				unlock()
				return nil, err
			}
			if t.f != f { // another process has replaced it meanwhile
				unlock()
				continue
			}
			if size != t.size { // what was cut off, or damaged
				if err := t.readOn(true); err != nil {
					unlock()
					return nil, err
				}
			}
			t.behind = size - t.size
			return unlock, nil
		}
		if time.Since(begin) > lockWait {
			return nil, errors.New("another process has locked the file " + t.name)
		}
		t.mu.Unlock()
		err = backoff.Sleep(ctx, lockPause)
		t.mu.Lock()
		if err = errors.Join(err, t.closed()); err != nil {
			return nil, err
		}
	}
}

// fresh reports whether the index has all that is in the file.
func (t *Table) fresh() (bool, error) {
	info, err := t.in.Dir.Stat(t.name)
	if err != nil {
		return false, vfs.Explain(err)
	}
	return t.f != nil && vfs.SameFile(info, t.info) && info.Size() == t.size, nil
}

// refresh opens the file again where another process has replaced it, and reads what was appended. It returns the size that the file had.
// The write lock is held.
func (t *Table) refresh() (size int64, err error) {
	info, err := t.in.Dir.Stat(t.name)
	switch {
	case err != nil:
		return 0, vfs.Explain(err)
	case t.f == nil || !vfs.SameFile(info, t.info) || info.Size() < t.size:
		err = t.reload()
	case info.Size() > t.size:
		err = t.readOn(false)
	}
	return info.Size(), err
}

// reload reads a file that another process may have written, and tells watchers what it has changed. The write lock is held.
func (t *Table) reload() error {
	before := t.index
	if err := t.read(); err != nil {
		return err
	}
	if before != nil && len(t.watchers) > 0 {
		t.compare(before)
	}
	return nil
}

// read reads the file from its beginning, and tells watchers nothing. The write lock is held.
func (t *Table) read() error {
	f, err := t.in.Dir.Open(t.name, os.O_RDWR)
	if err != nil {
		return vfs.Explain(err)
	}
	info, err := f.Stat()
	head := make([]byte, fileHead)
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	rev, ok := parseFileHead(head)
	if err == nil && !ok || errors.Is(err, io.EOF) {
		err = errors.Join(store.ErrDamaged, errors.New("the file "+t.name+" is not a table: move it away"))
	}
	if err != nil {
		return errors.Join(vfs.Explain(err), f.Close())
	}
	t.use(f, info, rev)
	watchers := t.watchers
	t.watchers = nil
	err = t.readOn(false)
	t.watchers = watchers
	return err
}

// use takes a file. The write lock is held.
func (t *Table) use(f vfs.File, info fs.FileInfo, rev uint64) {
	t.syncs.mu.Lock()
	defer t.syncs.mu.Unlock()
	for t.syncs.busy {
		t.syncs.done.Wait()
	}
	if t.f != nil {
		_ = t.f.Close() // what was written there is no more
	}
	t.f, t.info, t.broken, t.syncs.failed, t.syncs.named = f, info, nil, nil, false
	t.rev = max(t.rev, rev)
	t.size, t.oldest, t.index, t.bytes, t.expiring = int64(fileHead), int64(fileHead), map[place]slot{}, 0, false
	t.erase, t.graves, t.deleted, t.recent = nil, nil, deletions{}, map[place]staged{}
}

// readOn reads the frames behind those that were read. What is no frame is skipped if nobody else can be writing it.
func (t *Table) readOn(locked bool) error {
	end, skipped, err := t.scan(t.size, locked, func(f *frame, off int64) bool { t.apply(f, off); return true })
	t.size = end
	if skipped > 0 {
		t.in.Log.LogAttrs(context.Background(), slog.LevelError, "a damaged part of a table was skipped", slog.String("file", t.name), slog.Int64("bytes", skipped))
	}
	return err
}

// A scan reads so much at a time, at first and at last.
const firstChunk, lastChunk = 4 << 10, 64 << 10

// scan calls do for each frame from an offset on, while it returns true, and returns where the last one ends.
func (t *Table) scan(from int64, resync bool, do func(f *frame, off int64) bool) (end, skipped int64, err error) {
	var text []byte // of the file from at on
	at, chunk := from, firstChunk
	fill := func(off int64, n int) (ok bool) { // text begins at off and has n bytes
		if off < at || off > at+int64(len(text)) {
			text, at = text[:0], off
		}
		text = text[off-at:]
		at = off
		if len(text) >= n || err != nil {
			return len(text) >= n
		}
		grown := make([]byte, max(n, chunk))
		chunk = min(2*chunk, lastChunk)
		have := copy(grown, text)
		read, e := t.f.ReadAt(grown[have:], off+int64(have))
		if e != nil && !errors.Is(e, io.EOF) {
			err = vfs.Explain(e)
		}
		text = grown[:have+read]
		return len(text) >= n
	}
	end = from
	for off := from; ; {
		f, n, ok := frame{}, 0, fill(off, frameHead)
		if ok {
			var key, meta int
			if key, meta, ok = parseLens(text[:frameHead]); ok {
				n = frameHead + key + meta
				if ok = fill(off, n); ok {
					f, ok = parseHead(text[:n], off)
				}
			}
		}
		if ok {
			next := off + f.len(off)
			if f.bodyAt == off+f.headLen() && next-off > int64(len(text)) { // all of its body is there
				var last [1]byte
				if _, e := t.f.ReadAt(last[:], next-1); e != nil {
					ok = false
					if !errors.Is(e, io.EOF) { // the frame is not damaged: the disk has failed
						err = vfs.Explain(e)
					}
				}
			}
			if ok {
				skipped += off - end
				end = next
				if !do(&f, off) {
					return end, skipped, err
				}
				off = next
				continue
			}
		}
		if !resync || err != nil || !fill(off, frameHead) {
			return end, skipped, err
		}
		// Something is damaged: look for the next frame.
		if i := bytes.Index(text[1:], frameMark); i >= 0 {
			off += int64(1 + i)
		} else {
			off += int64(max(1, len(text)-len(frameMark)+1))
		}
	}
}

// deletions are the last ones of a table, without keys. One that is sent again is answered as before, and what it has deleted does not come
// back when its put is sent again.
type deletions struct {
	frames []frame
	byID   map[[16]byte]*frame // of the deletion, and of the put that it has deleted
}

// mostDeletions bounds the deletions that are known.
const mostDeletions = 1024

// add adds the frame of a deletion, whose meta is the ID of the put that was deleted.
func (d *deletions) add(f *frame) {
	if d.byID == nil || len(d.frames) == mostDeletions {
		kept := slices.Clone(d.frames[len(d.frames)/2:])
		*d = deletions{make([]frame, 0, mostDeletions), map[[16]byte]*frame{}}
		for i := range kept {
			d.add(&kept[i])
		}
	}
	d.frames = append(d.frames, *f)
	kept := &d.frames[len(d.frames)-1]
	kept.kind, kept.key, kept.meta = kindDead, nil, bytes.Clone(f.meta)
	d.byID[f.id] = kept
	if len(f.meta) == len(f.id) {
		d.byID[[16]byte(f.meta)] = kept
	}
}

// apply takes a frame of the file. The write lock is held.
func (t *Table) apply(f *frame, off int64) {
	t.rev = max(t.rev, f.rev)
	if f.kind != kindPut && f.id != [16]byte{} {
		t.deleted.add(f)
	}
	if f.kind == kindDead {
		return
	}
	at := t.placeOf(string(f.key))
	old, had := t.index[at]
	if had {
		t.bytes -= int64(old.size)
		t.erase = append(t.erase, span{old.off, f.kind == kindDelete || f.bodyAt == off+f.headLen()})
	}
	if f.kind == kindDelete {
		delete(t.index, at)
		t.graves = append(t.graves, span{off: off})
	} else {
		s := slot{off: off, rev: f.rev, size: uint32(f.size())}
		if f.expires != 0 {
			s.expires = uint32((f.expires + 999) / 1000)
			t.expiring = true
		}
		t.index[at] = s
		t.bytes += int64(s.size)
	}
	t.tell(f)
}

// readHead reads the frame of a slot without its body. A lock is held.
func (t *Table) readHead(off int64) (f frame, err error) {
	text := make([]byte, headRead)
	n, err := t.f.ReadAt(text, off)
	if err != nil && (n < frameHead || !errors.Is(err, io.EOF)) {
		return f, vfs.Explain(err)
	}
	key, meta, ok := parseLens(text)
	if ok {
		size := frameHead + key + meta
		if size > n {
			text = append(text[:n], make([]byte, size-n)...)
			if _, err := t.f.ReadAt(text[n:], off+int64(n)); err != nil {
				return f, vfs.Explain(err)
			}
		}
		f, ok = parseHead(text[:size], off)
	}
	if !ok {
		return f, store.ErrDamaged
	}
	return f, nil
}

// find returns the frame of a key; ok is false if there is no record. A lock is held.
func (t *Table) find(key string) (f frame, off int64, ok bool, err error) {
	at := t.placeOf(key)
	s, ok := t.index[at]
	if !ok {
		return f, 0, false, nil
	}
	if known, ok := t.recent[at]; ok && known.off == s.off {
		f = known.frame
	} else if f, err = t.readHead(s.off); err != nil {
		return f, 0, false, err
	}
	return f, s.off, f.kind == kindPut && !f.expired(time.Now()), nil
}

// Get implements [store.Table].
func (t *Table) Get(ctx context.Context, key string) (store.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Record{}, err
	}
	t.mu.RLock()
	fresh, err := t.checkFresh()
	if err == nil && !fresh {
		t.mu.RUnlock()
		t.mu.Lock()
		if err = t.closed(); err == nil {
			_, err = t.refresh()
		}
		t.mu.Unlock()
		t.mu.RLock()
	}
	defer t.mu.RUnlock()
	if err != nil {
		return store.Record{}, err
	}
	return t.get(key)
}

func (t *Table) checkFresh() (bool, error) {
	if err := t.closed(); err != nil {
		return false, err
	}
	return t.fresh()
}

// Peek implements [store.Table].
func (t *Table) Peek(ctx context.Context, key string) (store.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Record{}, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if err := t.closed(); err != nil {
		return store.Record{}, err
	}
	return t.get(key)
}

func (t *Table) closed() error {
	if t.end.Err() != nil {
		return store.ErrClosed
	}
	return nil
}

// get reads a record. A lock is held.
func (t *Table) get(key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	f, _, ok, err := t.find(key)
	if err != nil {
		return store.Record{}, err
	}
	if !ok {
		return store.Record{}, store.ErrNotFound
	}
	r := f.record()
	r.Body = make([]byte, f.bodyLen)
	if _, err := t.f.ReadAt(r.Body, f.bodyAt); err != nil && f.bodyLen > 0 {
		return store.Record{}, vfs.Explain(err)
	}
	if crc32.Checksum(r.Body, castagnoli) != f.bodyCRC {
		return store.Record{}, store.ErrDamaged
	}
	return r, nil
}

// Range implements [store.Table].
func (t *Table) Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		t.mu.Lock()
		records, err := t.list(prefix)
		t.mu.Unlock()
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		slices.SortFunc(records, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
		for _, r := range records {
			if ctx.Err() != nil {
				yield(store.Record{}, context.Cause(ctx))
				return
			}
			if bodies {
				if r, err = t.Peek(ctx, r.Key); errors.Is(err, store.ErrNotFound) {
					continue
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// list returns the records below a prefix, without bodies, in the order of their revisions. The write lock is held.
func (t *Table) list(prefix string) (records []store.Record, err error) {
	if err := t.closed(); err != nil {
		return nil, err
	}
	if _, err := t.refresh(); err != nil {
		return nil, err
	}
	now := time.Now()
	_, _, err = t.scan(t.oldest, true, func(f *frame, off int64) bool {
		if strings.HasPrefix(string(f.key), prefix) && t.lives(f, off) && !f.expired(now) {
			records = append(records, f.record())
		}
		return off < t.size
	})
	return records, err
}

// lives reports whether the frame at an offset is the last of a record. A lock is held.
func (t *Table) lives(f *frame, off int64) bool {
	return f.kind == kindPut && t.index[t.placeOf(string(f.key))].off == off
}

// compare tells watchers what has changed since an index was read, where frames between are gone. The write lock is held.
func (t *Table) compare(before map[place]slot) {
	for w := range t.watchers {
		for at, key := range w.known {
			if _, there := t.index[at]; !there {
				w.tell(at, store.Change{Record: store.Record{Key: key, Rev: before[at].rev}, Gone: true})
			}
		}
	}
	_, _, _ = t.scan(int64(fileHead), true, func(f *frame, off int64) bool {
		if t.lives(f, off) && before[t.placeOf(string(f.key))].rev != f.rev {
			t.tell(f)
		}
		return off < t.size
	})
}

// sortByRev sorts changes by revision.
func sortByRev(changes []store.Change) {
	slices.SortFunc(changes, func(a, b store.Change) int { return cmp.Compare(a.Rev, b.Rev) })
}

package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file/internal/journal"
	"github.com/lingserve/lingserve/store/internal/recent"
)

// directory knows the order of the logs in an Indexed space, so that a list opens the files of those logs only that it shows. It begins
// with the first list. It learns of this process's changes from put and erase, and of those of other processes from their journals. From
// time to time it compares itself with the folder, for files that were put there by hand.
//
// It has nothing that the logs do not have. Its rows lie in the file .lists with the number of the last journal that they cover, so that a
// new process need not look at all logs.
type directory struct {
	s      *Space
	follow *journal.Reader

	turn  turn // guards what follows; held for moments, and for long while the directory begins
	rows  recent.Rows[mark]
	begun bool
	again []string // logs to look at with the next list
	saved bool     // the file has the rows

	mu        sync.Mutex
	recording bool
	own       map[string]change // what this process has changed, by name; rows does not have it yet

	sweeping sync.WaitGroup
	swept    time.Time     // when the last comparison with the folder ended
	took     time.Duration // how long it took
	busy     bool          // one goes on
}

// mark says what a log's file was like when the row was read. The time is 0 for what this process has written itself.
type mark struct{ size, modified int64 }

func markOf(at fs.FileInfo) mark { return mark{at.Size(), at.ModTime().UnixNano()} }

type change struct {
	label   string
	updated int64
	mark    mark
	erased  bool
}

// put takes in what this process has appended. The caller holds the log's lock.
func (d *directory) put(s *state) {
	d.change(s.name, change{label: s.label, updated: s.updated, mark: mark{size: s.bytes}})
}

// erase takes in that this process has deleted a log.
func (d *directory) erase(name string) { d.change(name, change{erased: true}) }

func (d *directory) change(name string, c change) {
	d.mu.Lock()
	if d.recording {
		if d.own == nil {
			d.own = map[string]change{}
		}
		d.own[name] = c
	}
	d.mu.Unlock()
	d.s.changes.Note(name)
}

// page returns the next logs of a listing, at most so many; 0: all.
func (d *directory) page(ctx context.Context, l *store.Listing, most int) ([]recent.Row[mark], error) {
	if err := d.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer d.turn.unlock()
	if err := d.refresh(ctx); err != nil {
		return nil, err
	}
	return d.rows.Page(l, most), nil
}

// count returns how many logs have names that begin with prefix.
func (d *directory) count(ctx context.Context, prefix string) (n int, err error) {
	if err := d.turn.lock(ctx); err != nil {
		return 0, err
	}
	defer d.turn.unlock()
	if err := d.refresh(ctx); err != nil {
		return 0, err
	}
	return d.rows.Count(&store.Listing{Prefix: prefix}), nil
}

// lookAgain remembers logs that were not as their rows say.
func (d *directory) lookAgain(names ...string) {
	_ = d.turn.lock(context.Background())
	defer d.turn.unlock()
	d.again = append(d.again, names...)
}

// refresh takes in all that has changed.
func (d *directory) refresh(ctx context.Context) error {
	d.takeOwn()
	missed := false
	if !d.begun {
		var err error
		if missed, err = d.begin(); err != nil {
			return vfs.Explain(err)
		}
	}
	names, lost, err := d.follow.Next(ctx)
	if err != nil {
		return vfs.Explain(err)
	}
	missed = missed || lost
	for name := range names {
		d.again = append(d.again, name)
	}
	if missed {
		if err := d.compare(ctx); err != nil {
			d.begun = false // what was missed is not known
			return err
		}
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	if d.begun = true; missed && !d.saved {
		d.save()
	}
	d.sweep()
	return nil
}

// begin makes the directory learn of changes from now on. missed says that all logs are to be compared.
func (d *directory) begin() (missed bool, err error) {
	d.mu.Lock()
	d.recording = true
	d.mu.Unlock()
	if d.rows.Len() == 0 {
		if at, ok := d.load(); ok {
			d.follow.Resume(at)
			return false, nil
		}
	}
	return true, d.follow.Begin()
}

// takeOwn takes in what this process has changed.
func (d *directory) takeOwn() {
	d.mu.Lock()
	own := d.own
	d.own = nil
	d.mu.Unlock()
	for name, c := range own {
		if d.saved = false; c.erased {
			d.rows.Remove(name)
		} else {
			d.rows.Put(recent.Row[mark]{Name: name, Label: c.label, Updated: c.updated, Value: c.mark})
		}
	}
}

// look reads the logs that are to be looked at. What this process has changed meanwhile is taken in afterwards, since it may be newer; it
// may be older as well, where another process was writing to the same log, so that log is looked at once more.
func (d *directory) look(ctx context.Context) (err error) {
	looked := map[string]bool{}
	for ; len(d.again) > 0 && err == nil; d.again = d.again[:len(d.again)-1] {
		name := d.again[len(d.again)-1]
		if looked[name] || store.CheckKey(name) != nil {
			continue
		}
		looked[name], d.saved = true, false
		var info store.Info
		var m mark
		switch info, m, err = d.s.listed(ctx, name); {
		case err == nil:
			d.rows.Put(recent.Row[mark]{Name: name, Label: info.Label, Updated: info.Updated.UnixMicro(), Value: m})
		case errors.Is(err, store.ErrNotFound): // deleted in this moment, or not yet begun
			d.rows.Remove(name)
			err = nil
		default:
			d.again = append(d.again, name) // instead of this one
		}
	}
	if len(d.again) == 0 {
		d.again = nil // it may have had all logs
	}
	d.mu.Lock()
	for name := range d.own {
		if looked[name] {
			d.again = append(d.again, name)
		}
	}
	d.mu.Unlock()
	d.takeOwn()
	return err
}

// list finds the logs of the folder.
func (d *directory) list(ctx context.Context) (all map[string]mark, err error) {
	all = map[string]mark{}
	list := d.s.disk.List(".", func(e fs.DirEntry) bool {
		name, ok := d.s.nameOf(e.Name())
		if !ok || !e.Type().IsRegular() || store.CheckKey(name) != nil {
			return true
		}
		if err = context.Cause(ctx); err != nil {
			return false
		}
		at, stat := d.s.disk.Stat(e.Name())
		if stat == nil {
			all[name] = markOf(at)
		} else if !errors.Is(stat, fs.ErrNotExist) {
			err = vfs.Explain(stat)
		}
		return err == nil
	})
	if err == nil {
		err = vfs.Explain(list)
	}
	return all, err
}

// compare finds the logs that are not as their rows say, to be looked at.
func (d *directory) compare(ctx context.Context) error {
	began := time.Now()
	all, err := d.list(ctx)
	if err != nil {
		return err
	}
	d.differ(all)
	d.swept, d.took = time.Now(), time.Since(began)
	return nil
}

func (d *directory) differ(all map[string]mark) {
	known := 0
	for name, m := range all {
		r, there := d.rows.Get(name)
		if there {
			known++
		}
		switch {
		case there && r.Value == m:
		case there && r.Value == mark{size: m.size}:
			r.Value = m
			d.rows.Put(r)
		default:
			d.again = append(d.again, name)
		}
	}
	if known == d.rows.Len() {
		return
	}
	for r := range d.rows.All() {
		if _, there := all[r.Name]; !there {
			d.again = append(d.again, r.Name)
		}
	}
}

// sweepEvery is how often the directory is compared with the folder while there are lists. A comparison takes sweepShare of the time at
// most.
const (
	sweepEvery = 10 * time.Second
	sweepShare = 100
)

// sweep begins a comparison, if it is time for one.
func (d *directory) sweep() {
	if d.busy || time.Since(d.swept) < max(sweepEvery, sweepShare*d.took) {
		return
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.s.closed {
		return
	}
	d.busy = true
	d.sweeping.Go(func() {
		began := time.Now()
		all, err := d.list(d.s.ending)
		if d.turn.lock(d.s.ending) != nil {
			return
		}
		defer d.turn.unlock()
		if d.busy = false; err == nil { // else the next list says so
			d.differ(all)
		}
		d.swept, d.took = time.Now(), time.Since(began)
	})
}

// close ends the directory. The space is closed already.
func (d *directory) close() error {
	d.sweeping.Wait()
	_ = d.turn.lock(context.Background())
	defer d.turn.unlock()
	err := d.s.changes.Close()
	if d.begun {
		if d.takeOwn(); !d.saved && len(d.again) == 0 {
			d.save()
		}
	}
	return err
}

const (
	listsFile  = ".lists"
	listsNew   = ".lists.new"
	listsMagic = "LSL1"
	listsMost  = 1 << 30 // bytes
	listsFew   = 100     // no file is written for fewer
)

// save writes the rows down. It may fail: a new process looks at all logs then.
func (d *directory) save() {
	if d.rows.Len() < listsFew {
		return
	}
	text := []byte(listsMagic)
	at := d.follow.Position()
	text = binary.AppendUvarint(text, uint64(at.Last))
	text = binary.AppendUvarint(text, uint64(len(at.Open)))
	for _, n := range at.Open {
		text = binary.AppendUvarint(text, uint64(n))
	}
	for r := range d.rows.All() {
		if r.Value.modified == 0 {
			path, end, _ := d.s.fileOf(r.Name)
			at, err := d.s.disk.Stat(path + end)
			if err != nil || at.Size() != r.Value.size {
				continue
			}
			r.Value = markOf(at)
		}
		text = appendRow(text, r)
	}
	text = binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
	if err := d.write(text); err != nil {
		d.s.log.Warn("cannot write the list of logs", "error", vfs.Explain(err))
		return
	}
	d.saved = true
}

func (d *directory) write(text []byte) error {
	f, err := d.s.disk.Open(listsNew, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	if ok, err := f.TryLock(); err != nil || !ok { // another process writes the same
		return err
	}
	defer func() { _ = f.Unlock() }()
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return errors.Join(err, d.s.disk.Remove(listsNew))
	}
	return d.s.disk.Rename(listsNew, listsFile)
}

// load reads what an earlier process has written down: the rows, and up to where they cover the journals.
func (d *directory) load() (at journal.Position, ok bool) {
	f, err := d.s.disk.Open(listsFile, os.O_RDONLY)
	if err != nil {
		return at, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, listsMost))
	if err != nil {
		return at, false
	}
	rest, ok := bytes.CutPrefix(text, []byte(listsMagic))
	end := len(text) - 4
	if !ok || len(rest) < 4 || binary.LittleEndian.Uint32(text[end:]) != crc32.Checksum(text[:end], castagnoli) {
		return at, false
	}
	r := reader{rest: rest[:len(rest)-4]}
	at.Last = int(r.uvarint())
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		at.Open = append(at.Open, int(r.uvarint()))
	}
	for row := range parseRows(&r) {
		if store.CheckKey(row.Name) == nil {
			d.rows.Put(row)
		}
	}
	d.saved = true
	return at, !r.bad
}

func appendRow(dst []byte, r recent.Row[mark]) []byte {
	dst = appendBytes(appendBytes(dst, []byte(r.Name)), []byte(r.Label))
	for _, n := range [...]int64{r.Updated, r.Value.size, r.Value.modified} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// parseRows yields the rows of a file.
func parseRows(r *reader) iter.Seq[recent.Row[mark]] {
	return func(yield func(recent.Row[mark]) bool) {
		for len(r.rest) > 0 && !r.bad {
			one := recent.Row[mark]{Name: string(r.bytes()), Label: string(r.bytes()), Updated: r.varint(), Value: mark{r.varint(), r.varint()}}
			if !r.bad && !yield(one) {
				return
			}
		}
	}
}

// List implements [store.Log].
func (s *Space) List(ctx context.Context, l store.Listing) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for left := l.Limit; ; {
			page, err := s.page(ctx, &l, left)
			if err != nil {
				yield(store.Info{}, err)
				return
			}
			for _, r := range page {
				l.After = r.After()
				info, _, err := s.listed(ctx, r.Name)
				if errors.Is(err, store.ErrNotFound) || err == nil && info.Label != r.Label {
					s.directory.lookAgain(r.Name) // deleted in this moment, or created again
					continue
				}
				// It stays at its place in the list, also where it has just been updated.
				if info.Updated.UnixMicro() != r.Updated {
					s.directory.lookAgain(r.Name)
					info.Updated = l.After.Updated
				}
				if !yield(info, err) || err != nil {
					return
				}
				left--
			}
			if l.Limit == 0 || left == 0 || len(page) == 0 { // else some were gone, and others may follow
				return
			}
		}
	}
}

func (s *Space) page(ctx context.Context, l *store.Listing, most int) ([]recent.Row[mark], error) {
	if err := s.listable(ctx); err != nil {
		return nil, err
	}
	return s.directory.page(ctx, l, most)
}

func (s *Space) listable(ctx context.Context) error {
	switch {
	case !s.o.Indexed:
		return store.ErrInvalid
	case s.isClosed():
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

// Count implements [store.Log].
func (s *Space) Count(ctx context.Context, prefix string) (int, error) {
	if err := s.listable(ctx); err != nil {
		return 0, err
	}
	return s.directory.count(ctx, prefix)
}

// listed tells about a log from its index, unless that is behind: then it is opened. m is what the log's file was like before.
func (s *Space) listed(ctx context.Context, name string) (i store.Info, m mark, err error) {
	path, end, _ := s.fileOf(name)
	at, err := s.disk.Stat(path + end)
	if errors.Is(err, fs.ErrNotExist) {
		return i, m, store.ErrNotFound
	}
	if err != nil {
		return i, m, vfs.Explain(err)
	}
	m = markOf(at)
	if f, err := s.disk.Open(path+indexEnd, os.O_RDONLY); err == nil {
		x := readIndex(f, name, nothing{}, 0)
		_ = f.Close() // it was only read
		if x.last.count > 0 && x.last.bytes == m.size {
			return x.last.info(), m, nil
		}
	}
	i, err = s.Info(ctx, name)
	return i, m, err
}

// nothing is a file without bytes.
type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

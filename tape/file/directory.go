package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/internal/recent"
)

// directory knows the order of the sessions in the folder, so that a listing opens the files of those sessions only that it shows. It
// begins with the first listing. It learns of this process's changes from put and erase, and of those of other processes from their
// journals. From time to time it compares itself with the folder, for files that were put there by hand.
//
// It holds nothing that the tapes do not say. What is read of it lies in the file .sessions, so that a new process need not open all tapes:
// it opens those whose size or time is another one.
type directory struct {
	store  *Store
	follow follower

	turn  turn // guards what follows; held for moments, and for long while the directory begins
	rows  recent.Index[mark]
	begun bool
	again []string // tapes to look at with the next listing
	saved bool     // the file has the rows

	mu        sync.Mutex
	recording bool
	own       map[string]change // what this process has changed, by tape; rows does not have it yet

	sweeping sync.WaitGroup
	swept    time.Time     // when the last comparison with the folder ended
	took     time.Duration // how long it took
	busy     bool          // one goes on
}

// mark says what a tape's file was like when the row was read. The time is 0 for what this process has written itself.
type mark struct{ size, modified int64 }

type row = recent.Session[mark]

type change struct {
	row    row
	erased bool
}

// put takes in what this process has appended. The caller holds the tape's lock.
func (d *directory) put(s state) {
	if tape.IsFork(s.Tape) {
		return
	}
	d.change(s.Tape, change{row: row{
		Tape: s.Tape, Session: s.Session, Workspace: s.Workspace, Updated: s.Updated.UnixMicro(), Value: mark{size: s.Bytes},
	}})
}

// erase takes in that this process has erased a tape.
func (d *directory) erase(name string) {
	if !tape.IsFork(name) {
		d.change(name, change{erased: true})
	}
}

func (d *directory) change(name string, c change) {
	d.mu.Lock()
	if d.recording {
		if d.own == nil {
			d.own = map[string]change{}
		}
		d.own[name] = c
	}
	d.mu.Unlock()
	d.store.changes.note(name)
}

// page returns the next sessions behind last, in order; most of them with 0 is all.
func (d *directory) page(ctx context.Context, q tape.SessionQuery, last tape.Info, most int) ([]row, error) {
	if err := d.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer d.turn.unlock()
	if err := d.refresh(ctx); err != nil {
		return nil, err
	}
	return d.rows.Page(q, last, most), nil
}

// lookAgain remembers tapes that were not as their rows say.
func (d *directory) lookAgain(names ...string) {
	_ = d.turn.lock(context.Background())
	defer d.turn.unlock()
	d.again = append(d.again, names...)
}

// refresh takes in all that has changed.
func (d *directory) refresh(ctx context.Context) error {
	d.takeOwn()
	var names map[string]bool
	missed := !d.begun
	if d.begun {
		var err error
		if names, missed, err = d.follow.next(ctx); err != nil {
			return vfs.Explain(err)
		}
	} else if err := d.begin(); err != nil {
		return vfs.Explain(err)
	}
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

// begin makes the directory learn of changes from now on.
func (d *directory) begin() error {
	d.mu.Lock()
	d.recording = true
	d.mu.Unlock()
	if d.rows.Len() == 0 {
		d.load()
	}
	return d.follow.begin()
}

// takeOwn takes in what this process has changed.
func (d *directory) takeOwn() {
	d.mu.Lock()
	own := d.own
	d.own = nil
	d.mu.Unlock()
	for name, c := range own {
		if d.saved = false; c.erased {
			d.rows.Delete(name)
		} else {
			d.rows.Put(c.row)
		}
	}
}

// look reads the tapes that are to be looked at. What this process has changed meanwhile is taken in afterwards, since it may be newer; it
// may be older as well, where another process was writing to the same tape, so that tape is looked at once more.
func (d *directory) look(ctx context.Context) (err error) {
	looked := map[string]bool{}
	for ; len(d.again) > 0 && err == nil; d.again = d.again[:len(d.again)-1] {
		name := d.again[len(d.again)-1]
		if looked[name] || tape.CheckName(name) != nil || tape.IsFork(name) {
			continue
		}
		looked[name], d.saved = true, false
		var info tape.Info
		var m mark
		switch info, m, err = d.store.listed(ctx, name); {
		case err == nil:
			d.rows.Put(row{Tape: name, Session: info.Session, Workspace: info.Workspace, Updated: info.Updated.UnixMicro(), Value: m})
		case errors.Is(err, tape.ErrNotFound): // erased in this moment, or not yet begun
			d.rows.Delete(name)
			err = nil
		default:
			d.again = append(d.again, name) // instead of this one
		}
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

// found is a tape in the folder.
type found struct {
	name string
	mark mark
}

// list finds the tapes of the folder, in the order of their names.
func (d *directory) list(ctx context.Context) (all []found, err error) {
	list := d.store.disk.List(".", func(e fs.DirEntry) bool {
		if !isSession(e) {
			return true
		}
		if err = context.Cause(ctx); err != nil {
			return false
		}
		at, stat := d.store.disk.Stat(e.Name())
		if stat == nil {
			all = append(all, found{strings.TrimSuffix(e.Name(), tapeEnd), markOf(at)})
		} else if !errors.Is(stat, fs.ErrNotExist) {
			err = vfs.Explain(stat)
		}
		return err == nil
	})
	if err == nil {
		err = vfs.Explain(list)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.name, b.name) })
	return all, err
}

func markOf(at fs.FileInfo) mark { return mark{at.Size(), at.ModTime().UnixNano()} }

// compare finds the tapes that are not as their rows say, to be looked at.
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

func (d *directory) differ(all []found) {
	known := 0
	for _, f := range all {
		r, there := d.rows.Get(f.name)
		if there {
			known++
		}
		switch old := r.Value; {
		case there && old == f.mark:
		case there && old == mark{size: f.mark.size}:
			r.Value = f.mark
			d.rows.Put(r)
		default:
			d.again = append(d.again, f.name)
		}
	}
	if known == d.rows.Len() {
		return
	}
	for r := range d.rows.All() {
		if _, there := slices.BinarySearchFunc(all, r.Tape, func(f found, name string) int { return cmp.Compare(f.name, name) }); !there {
			d.again = append(d.again, r.Tape)
		}
	}
}

// sweepEvery is how often the directory is compared with the folder while there are listings. A comparison takes sweepShare of the time at
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
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	if d.store.closed {
		return
	}
	d.busy = true
	d.sweeping.Go(func() {
		began := time.Now()
		all, err := d.list(d.store.ending)
		if d.turn.lock(d.store.ending) != nil {
			return
		}
		defer d.turn.unlock()
		if d.busy = false; err == nil { // else the next listing says so
			d.differ(all)
		}
		d.swept, d.took = time.Now(), time.Since(began)
	})
}

// close ends the directory. The store is closed already.
func (d *directory) close() error {
	d.sweeping.Wait()
	_ = d.turn.lock(context.Background())
	defer d.turn.unlock()
	if d.begun {
		if d.takeOwn(); !d.saved {
			d.save()
		}
	}
	return d.store.changes.close()
}

const (
	sessionsFile  = ".sessions"
	sessionsNew   = ".sessions.new"
	sessionsMagic = "LTS1"
	sessionsMost  = 1 << 30 // bytes
	sessionsFew   = 100     // no file is written for fewer
)

// save writes the rows down. It may fail: a new process opens all tapes then.
func (d *directory) save() {
	if d.rows.Len() < sessionsFew {
		return
	}
	text := []byte(sessionsMagic)
	for r := range d.rows.All() {
		if r.Value.modified == 0 {
			at, err := d.store.disk.Stat(r.Tape + tapeEnd)
			if err != nil || at.Size() != r.Value.size {
				continue
			}
			r.Value = markOf(at)
		}
		text = appendRow(text, r)
	}
	text = binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
	if err := d.write(text); err != nil {
		d.store.log.Warn("cannot write the list of sessions", "error", vfs.Explain(err))
		return
	}
	d.saved = true
}

func (d *directory) write(text []byte) error {
	f, err := d.store.disk.Open(sessionsNew, os.O_RDWR|os.O_CREATE)
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
		return errors.Join(err, d.store.disk.Remove(sessionsNew))
	}
	return d.store.disk.Rename(sessionsNew, sessionsFile)
}

// load reads what an earlier process has written down.
func (d *directory) load() {
	f, err := d.store.disk.Open(sessionsFile, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, sessionsMost))
	if err != nil {
		return
	}
	for r := range parseRows(text) {
		if tape.CheckName(r.Tape) == nil && !tape.IsFork(r.Tape) {
			d.rows.Put(r)
		}
	}
	d.saved = true
}

func appendRow(dst []byte, r row) []byte {
	for _, text := range [...]string{r.Tape, r.Session, r.Workspace} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	for _, n := range [...]int64{r.Updated, r.Value.size, r.Value.modified} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// parseRows yields the rows of a file. It yields none where the file is not whole.
func parseRows(text []byte) iter.Seq[row] {
	return func(yield func(row) bool) {
		rest, ok := bytes.CutPrefix(text, []byte(sessionsMagic))
		if !ok || len(rest) < 4 {
			return
		}
		end := len(text) - 4
		if binary.LittleEndian.Uint32(text[end:]) != crc32.Checksum(text[:end], castagnoli) {
			return
		}
		rest = rest[:len(rest)-4]
		for len(rest) > 0 {
			var texts [3]string
			var numbers [3]int64
			for i := range texts {
				size, n := binary.Uvarint(rest)
				if n <= 0 || size > uint64(len(rest)-n) {
					return
				}
				texts[i] = string(rest[n : n+int(size)])
				rest = rest[n+int(size):]
			}
			for i := range numbers {
				value, n := binary.Varint(rest)
				if n <= 0 {
					return
				}
				numbers[i], rest = value, rest[n:]
			}
			if !yield(row{Tape: texts[0], Session: texts[1], Workspace: texts[2], Updated: numbers[0], Value: mark{numbers[1], numbers[2]}}) {
				return
			}
		}
	}
}

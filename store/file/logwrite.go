package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// write writes a batch as the only writer. The revision that a batch names lets one of several writers succeed, so they do not share a write.
func (l *log) write(ctx context.Context, b store.Batch) (info store.Info, err error) {
	if err := l.commit.lock(ctx); err != nil {
		return info, err
	}
	defer l.commit.unlock()
	err = l.own(ctx, b.After == store.New || b.After == store.Any, func() (err error) {
		if l.s.o.Durability == store.Async && l.s.failure(l.name) != nil && l.replace() == nil {
			return errReplaced
		}
		info, err = l.writeOwned(b)
		return err
	})
	return info, err
}

// writeOwned writes a batch with one write and, in a Synced space, makes it durable. The caller holds the locks.
func (l *log) writeOwned(b store.Batch) (store.Info, error) {
	l.mu.Lock()
	l.writing = true
	before := l.state
	l.mu.Unlock()

	next, marks, err := l.append(before, b)
	written := next.count != before.count
	if written && l.s.o.Durability == store.Synced {
		if err = l.s.syncNow(l.file, !l.named); err != nil {
			err = l.undo(before, err)
			next, marks, written = before, nil, false
		} else {
			l.named = true
		}
	}
	l.mu.Lock()
	l.state = next
	l.extra = append(l.extra, marks...)
	l.stale = l.stale || written
	if l.stale && l.s.o.Indexed {
		if failed := l.writeIndexLocked(); failed != nil && next.bytes == before.bytes && written {
			// A batch without entries is nowhere else.
			l.state, written, err = before, false, fmt.Errorf("%w: %w", store.ErrUnsure, vfs.Explain(failed))
		}
	}
	l.writing = false
	if written {
		l.wakeLocked()
	}
	there := l.state.there()
	l.mu.Unlock()
	if written {
		l.s.wrote(l, &before, &next)
	}
	if !there && before.bytes == 0 { // a log that was never begun is not to be found
		_ = l.s.disk.Remove(l.full)
		l.useful.Store(false)
	}
	if err != nil {
		return store.Info{}, err
	}
	return next.info(), nil
}

// replace lets the log go on in another file, which is durable, where the sync of its file has failed (ST-07).
func (l *log) replace() error {
	if _, ok := l.framing.(own); !ok {
		return store.ErrInvalid
	}
	err := vfs.ReplaceFile(l.s.disk, l.full, func(to io.Writer) error {
		_, err := io.Copy(to, io.NewSectionReader(l.file, 0, l.state.bytes))
		return err
	})
	if err != nil {
		l.s.outdated(l) // the file may have been replaced nevertheless
		return err
	}
	l.s.mu.Lock()
	delete(l.s.failed, l.name)
	l.s.mu.Unlock()
	return nil
}

// undo takes back what could not be made durable. Whether the machine has it, is not known.
func (l *log) undo(before state, err error) error {
	err = vfs.Explain(errors.Join(err, l.file.Truncate(before.bytes)))
	l.s.fail(l.name, err)
	return fmt.Errorf("%w: what was written cannot be made durable: %w", store.ErrUnsure, err)
}

// append writes one batch behind the state and returns the state behind it, with its marks.
func (l *log) append(s state, b store.Batch) (state, []byte, error) {
	if again := s.there() && b.ID == s.id; again && (b.After == store.Any || s.isAt(b.After, s.count-1)) {
		return s, nil, nil
	}
	switch {
	case b.After != store.Any && !s.isAt(b.After, s.count):
		info := store.Info{Name: l.name}
		if s.there() {
			info = s.info()
		}
		return s, nil, &store.MovedLog{Info: info}
	}
	if err := lowNumber(b, s.last); err != nil {
		return s, nil, err
	}
	if err := l.s.failure(l.name); err != nil {
		return s, nil, fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	next := s
	if next.updated = b.Updated.UnixMicro(); b.Updated.IsZero() {
		next.updated = max(time.Now().UnixMicro(), s.updated)
	}
	if !s.there() {
		next.created, next.life = next.updated, newLife()
		next.label, next.head = b.Label, nil
	}
	buf := getBuffer()
	defer putBuffer(buf)
	text, next := l.framing.appendBatch(*buf, next, b)
	*buf = text
	if !l.s.fits(int64(len(text))) {
		return s, nil, store.ErrFull
	}
	marks, err := l.place(&s, &next, text)
	if err != nil {
		if l.cut != 0 {
			return s, nil, fmt.Errorf("%w: %w", store.ErrUnsure, vfs.Explain(err))
		}
		return s, nil, fmt.Errorf("%w: %w", store.ErrAway, vfs.Explain(err))
	}
	return next, marks, nil
}

// lowNumber is the error of a number that would be given twice.
func lowNumber(b store.Batch, last uint64) error {
	for _, e := range b.Entries {
		if e.N != 0 && e.N <= last {
			return fmt.Errorf("%w: entry %d behind %d", store.ErrInvalid, e.N, last)
		}
		last = max(e.N, last+1)
	}
	return nil
}

// place writes a text behind the state s, and returns the marks that next has more.
func (l *log) place(s, next *state, text []byte) (marks []byte, err error) {
	if len(text) > 0 {
		if _, err := l.file.WriteAt(text, s.bytes); err != nil {
			if undo := l.file.Truncate(s.bytes); undo != nil {
				// It lies behind the end, where no reader looks; the next batch tries again.
				l.cut = -1
				if info, stat := l.file.Stat(); stat == nil {
					l.cut = info.Size()
				}
				err = errors.Join(err, undo)
			}
			return nil, err
		}
	}
	next.bytes = s.bytes + int64(len(text))
	if next.tail = hashOf(text[max(0, len(text)-tailSize):]); len(text) < tailSize {
		next.tail, _ = tailOf(l.file, next.bytes)
	}
	if !l.s.o.Indexed || next.marks == s.marks {
		return nil, nil
	}
	return l.marksOf(s, next, text)
}

// marksOf finds the marks in a text that was written behind the state s.
func (l *log) marksOf(s, next *state, text []byte) (marks []byte, err error) {
	if next.marks == s.marks+1 {
		return appendMark(nil, spot{next.lastMark, next.mark}), nil
	}
	in := forward{r: bytes.NewReader(text), f: l.framing, end: int64(len(text))}
	for {
		ln, err := in.line()
		if err != nil {
			return marks, nil // behind the last
		}
		if r, err := ln.parse(l.framing); err == nil && r.kind == lineMark {
			marks = appendMark(marks, spot{r.N, extent{s.bytes + ln.offset, s.bytes + ln.end}})
		}
	}
}

// writeIndexLocked brings the index up to the state, with the log's lock held. It may fail: then the index is emptied, and the log is read
// from its beginning the next time that it is opened.
func (l *log) writeIndexLocked() error {
	if !l.state.there() {
		return nil
	}
	err := l.tryWriteIndexLocked()
	if err == nil {
		return nil
	}
	l.s.log.Warn("cannot write a log's index", "log", l.name, "error", err)
	l.stale, l.broken = true, true
	if l.index != nil {
		_ = l.index.Truncate(0) // it holds nothing that the log does not
		l.slotSize, l.seen = 0, [2]slotMark{}
	}
	return err
}

func (l *log) tryWriteIndexLocked() error {
	if err := l.writeSide(); err != nil {
		return err
	}
	if l.openIndexLocked(os.O_CREATE); l.index == nil {
		return errors.New("it cannot be opened")
	}
	l.record = l.state.appendTo(l.record[:0])
	size := max(l.slotSize, leastSlot)
	for size < len(l.record) {
		size *= 2
	}
	if l.broken || l.slotSize != size {
		if err := l.rebuildIndexLocked(size); err != nil {
			return err
		}
	}
	if n := l.state.marks - int64(len(l.extra))/markSize; len(l.extra) > 0 {
		if _, err := l.index.WriteAt(l.extra, int64(slots*size)+n*markSize); err != nil {
			return err
		}
	}
	if l.state.bytes/checkEvery != l.checked/checkEvery {
		check := 2 + l.state.bytes/checkEvery%2
		if _, err := l.index.WriteAt(l.record, check*int64(size)); err != nil {
			return err
		}
		l.checked = l.state.bytes
		l.s.touched(l.name, l.path+indexEnd)
	}
	slot := 1 - l.slot&1
	if _, err := l.index.WriteAt(l.record, int64(slot*size)); err != nil {
		return err
	}
	copy(l.seen[slot][:], l.record)
	l.slot, l.extra, l.stale, l.broken = slot, nil, false, false
	return nil
}

// rebuildIndexLocked empties the index, and collects all marks for it.
func (l *log) rebuildIndexLocked(size int) error {
	known := l.state.marks - int64(len(l.extra))/markSize
	if known > 0 { // marks are missing: only a reading from the beginning brings them back
		t, err := l.take(l.framing.begin(l.name, nil), l.state.bytes)
		if err != nil {
			return err
		}
		if t.last != l.state.last {
			return errCut
		}
		l.extra, l.state.marks = t.extra, int64(len(t.extra))/markSize
	}
	if err := l.index.Truncate(0); err != nil {
		return err
	}
	l.slotSize, l.slot, l.checked, l.seen = size, 1, 0, [2]slotMark{}
	l.record = l.state.appendTo(l.record[:0])
	return nil
}

// writeSide writes what no line says of the log, if it has changed.
func (l *log) writeSide() error {
	end := l.framing.sideEnd()
	if end == "" {
		return nil
	}
	l.record = l.framing.appendSide(l.record[:0], &l.state)
	text := l.record
	if hashOf(text) == l.state.side {
		return nil
	}
	f, err := l.s.disk.Open(l.path+end, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil && l.s.o.Durability == store.Synced {
		err = errors.Join(f.Sync(), l.s.disk.SyncFolder("."))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.state.side = hashOf(text)
	l.s.touched(l.name, l.path+end)
	return nil
}

// keepIndexLocked writes down what took long to read, if nobody is writing.
func (l *log) keepIndexLocked() {
	if !l.s.o.Indexed {
		return
	}
	ok, err := l.file.TryLock()
	if err != nil || !ok {
		return
	}
	if l.s.o.Durability == store.Synced { // the index has what is durable
		if err = l.rewriteDoubtLocked(); err == nil {
			err = l.s.syncNow(l.file, true)
		}
	}
	if err == nil {
		_ = l.writeIndexLocked() // it was logged
	}
	_ = l.file.Unlock()
}

// leastTrimmed is how many bytes must be trimmed before the file is written anew without them.
const leastTrimmed = 8 << 20

// trim removes the entries below a number. The caller holds commit.
func (l *log) trim(ctx context.Context, below uint64) error {
	f, ok := l.framing.(own)
	if !ok {
		return fmt.Errorf("%w: log %q cannot be trimmed", store.ErrInvalid, l.name)
	}
	return l.own(ctx, false, func() error {
		l.mu.Lock()
		before := l.state
		src := &source{log: l, file: l.file, state: before}
		l.mu.Unlock()
		if !before.there() || below <= before.first || before.entries == 0 {
			return nil
		}
		next := before
		var at int64
		first, entries, size := before.last+1, before.entries, before.size
		for e, err := range src.forward(before.first, 0, &at) {
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				return err
			}
			if e.N >= below {
				first = e.N
				break
			}
			entries, size = entries-1, size-int64(len(e.Data))
		}
		next.trimTo(first, max(0, entries), max(0, size))
		if first > before.last {
			at = before.bytes
		}
		err := l.writeTrim(f, &before, &next, at)
		if err != nil {
			return fmt.Errorf("trim %s: %w", l.name, vfs.Explain(err))
		}
		return nil
	})
}

// writeTrim writes down that the log has been trimmed; at is where the first entry that is kept lies.
func (l *log) writeTrim(f own, before, next *state, at int64) error {
	if at >= leastTrimmed && at > before.bytes/2 {
		return l.rewrite(f, next, at)
	}
	text := f.trimLine(nil, next)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.place(before, next, text); err != nil {
		return err
	}
	if l.s.o.Durability == store.Synced {
		if err := l.s.syncNow(l.file, !l.named); err != nil {
			l.s.fail(l.name, err)
			return err
		}
	}
	l.state, l.stale = *next, true
	l.wakeLocked()
	if l.s.o.Indexed {
		_ = l.writeIndexLocked() // it was logged
	}
	l.s.touched(l.name, l.full)
	return nil
}

// rewrite replaces the file by one that begins with the line at an offset.
func (l *log) rewrite(f own, next *state, at int64) error {
	start := *next
	start.last = start.first - 1
	if at < next.bytes {
		in := forward{r: l.file, f: f, next: at, end: next.bytes}
		if ln, err := in.line(); err == nil {
			if r, err := ln.parse(f); err == nil {
				start.last = uint64(max(0, r.Before))
			}
		}
	}
	text := f.stateLine(f.beginLine(nil, next), &start)
	if at == next.bytes { // no line follows that ends a batch
		text = f.trimLine(text, next)
	}
	err := vfs.ReplaceFile(l.s.disk, l.full, func(to io.Writer) error {
		if _, err := to.Write(text); err != nil {
			return err
		}
		_, err := io.Copy(to, io.NewSectionReader(l.file, at, next.bytes-at))
		return err
	})
	if err != nil {
		l.s.outdated(l) // the file may have been replaced nevertheless
		return err
	}
	l.s.wrote(l, &state{bytes: at - int64(len(text))}, &state{name: l.name, updated: next.updated, label: next.label})
	l.s.outdated(l)
	l.mu.Lock()
	l.wakeLocked()
	l.mu.Unlock()
	return nil
}

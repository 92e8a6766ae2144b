package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

const (
	keepEvery  = time.Second      // how often written bytes are synced, and other processes' changes are read for watchers
	eraseEvery = 20 * time.Second // for what was deleted, and what has expired
	// Fewer bytes that are not in use are not worth a new file.
	minUnused = 256 << 10
	mostSpans = 1 << 16
)

// sync returns when a write is durable.
func (t *Table) sync(number uint64) error {
	s := &t.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.synced < number && s.failed == nil {
		if s.busy {
			s.done.Wait()
			continue
		}
		s.busy = true
		f, upTo, named := t.f, s.written.Load(), s.named
		s.mu.Unlock()
		err := f.Sync()
		if err == nil && !named { // whoever made the file may have failed to make its name durable
			err = t.in.Dir.SyncFolder(".")
		}
		s.mu.Lock()
		s.busy, s.named = false, named || err == nil
		s.done.Broadcast()
		if err != nil { // ST-07: the file is not used again
			s.failed = cmp.Or(s.failed, vfs.Explain(err))
		}
		if s.failed == nil {
			s.synced = max(s.synced, upTo)
		}
	}
	if s.synced < number {
		return s.failed
	}
	return nil
}

// keep starts the goroutine that keeps house, where there is something to do and none runs. The write lock is held.
func (t *Table) keep() {
	if t.keeping && t.slow {
		t.slow = false
		select {
		case t.wake <- struct{}{}:
		default: // it is about to be quick
		}
	}
	if t.keeping || t.end.Err() != nil || !t.busy() {
		return
	}
	t.keeping, t.slow = true, false
	t.running.Go(t.keepHouse)
}

// busy reports whether there is something to do later. A lock is held.
func (t *Table) busy() bool {
	return len(t.watchers) > 0 || len(t.erase) > 0 || len(t.graves) > 0 || t.expiring || t.dirty() || t.broken != nil
}

// dirty reports whether there is something to sync.
func (t *Table) dirty() bool {
	t.syncs.mu.Lock()
	defer t.syncs.mu.Unlock()
	return t.syncs.synced < t.syncs.written.Load() || t.syncs.failed != nil
}

// keepHouse syncs, sweeps, erases and rewrites while there is something to do.
func (t *Table) keepHouse() {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	erased, swept := time.Now(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-t.wake:
			tick.Reset(keepEvery)
			continue
		case <-t.end.Done():
			return
		}
		err := t.sync(t.syncs.written.Load())
		t.mu.Lock()
		if len(t.watchers) > 0 {
			_, again := t.refresh()
			err = errors.Join(err, again)
		}
		if now := time.Now(); now.Sub(swept) >= eraseEvery {
			swept = now
			t.sweep(now)
		}
		switch {
		case t.unusable() != nil || t.wasteful() || len(t.erase) > mostSpans:
			err = errors.Join(err, t.rewrite())
			t.mu.Unlock()
		case time.Since(erased) >= eraseEvery:
			erased = time.Now()
			t.mu.Unlock()
			err = errors.Join(err, t.eraseSpans())
		default:
			t.mu.Unlock()
		}
		if err != nil {
			t.in.Log.LogAttrs(t.end, slog.LevelError, "a table cannot be kept", slog.String("file", t.name), slog.String("error", err.Error()))
		}
		t.mu.Lock()
		if !t.busy() {
			t.keeping = false
			t.mu.Unlock()
			return
		}
		if !t.slow && len(t.watchers) == 0 && !t.dirty() && t.broken == nil { // there is something to erase alone, or that expires
			t.slow = true
			tick.Reset(eraseEvery)
		}
		t.mu.Unlock()
	}
}

// wasteful reports whether less than half of the file is in use. A lock is held.
func (t *Table) wasteful() bool {
	used := t.bytes + int64(len(t.index))*frameHead
	unused := t.size - int64(fileHead) - used
	return unused > max(used, minUnused)
}

// sweep removes records that have expired. The write lock is held.
func (t *Table) sweep(now time.Time) {
	t.swept = now
	if !t.expiring {
		return
	}
	t.expiring = false
	seconds := uint32(now.Unix())
	for at, s := range t.index {
		if s.expires == 0 || s.expires > seconds {
			t.expiring = t.expiring || s.expires != 0
			continue
		}
		t.tellGone(at, s.rev)
		t.bytes -= int64(s.size)
		delete(t.index, at)
		t.erase = append(t.erase, span{s.off, true})
	}
}

// eraseSpans overwrites what was deleted and replaced. What has replaced it is durable before, and the deletions go a round later, so that
// a loss of power brings nothing back.
func (t *Table) eraseSpans() error {
	t.mu.Lock()
	spans, graves := t.erase, t.graves
	t.erase, t.graves = nil, nil
	number, f := t.syncs.written.Load(), t.f
	t.mu.Unlock()
	err := t.sync(number)
	t.mu.RLock()
	if t.f == f { // else the file is another one, which has none of it
		for i := 0; err == nil && i < len(spans); i++ {
			err = t.eraseSpan(spans[i])
		}
	} else {
		spans, graves = nil, nil
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.f != f:
	case err != nil:
		t.erase, t.graves = append(spans, t.erase...), append(graves, t.graves...)
	default:
		t.erase = append(graves, t.erase...)
		if len(spans) > 0 {
			t.syncs.written.Add(1)
		}
	}
	return err
}

// eraseSpan overwrites a frame's key and meta, and perhaps its body. A lock is held.
func (t *Table) eraseSpan(s span) error {
	f, err := t.readHead(s.off)
	if errors.Is(err, store.ErrDamaged) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.body {
		zeros := make([]byte, min(int(f.bodyLen), lastChunk))
		for n := 0; n < int(f.bodyLen); n += len(zeros) {
			if _, err := t.f.WriteAt(zeros[:min(len(zeros), int(f.bodyLen)-n)], f.bodyAt+int64(n)); err != nil {
				return vfs.Explain(err)
			}
		}
	}
	if f.kind != kindDelete {
		f.id, f.meta = [16]byte{}, make([]byte, len(f.meta))
	}
	f.kind, f.key = kindDead, make([]byte, len(f.key))
	_, err = t.f.WriteAt(f.appendHead(nil, s.off), s.off)
	if err != nil {
		return vfs.Explain(err)
	}
	return nil
}

// rewrite writes a file that has the records and the last deletions alone, and takes its place. The write lock is held.
func (t *Table) rewrite() error {
	unlock, err := t.lockFile(t.end)
	if err != nil {
		return err
	}
	defer unlock()
	if err = vfs.ReplaceFile(t.in.Dir, t.name, t.copyTo); err != nil {
		return vfs.Explain(err)
	}
	if err := t.read(); err != nil {
		return err
	}
	t.syncs.mu.Lock()
	t.syncs.synced = t.syncs.written.Load()
	t.syncs.mu.Unlock()
	return nil
}

// copyTo writes records. The write lock is held.
func (t *Table) copyTo(to io.Writer) error {
	buf := appendFileHead(nil, t.rev)
	for i := range t.deleted.frames {
		buf = t.deleted.frames[i].appendHead(buf, int64(len(buf)))
	}
	off, left := int64(len(buf)), len(t.index)
	var failed error
	_, _, err := t.scan(int64(fileHead), true, func(f *frame, at int64) bool {
		if !t.lives(f, at) {
			return at < t.size
		}
		from := f.bodyAt
		f.bodyAt = off + f.headLen()
		buf = f.appendHead(buf, off)
		body := len(buf)
		buf = append(buf, make([]byte, f.bodyLen)...)
		if _, err := t.f.ReadAt(buf[body:], from); err != nil && f.bodyLen > 0 {
			failed = fmt.Errorf("body of %s: %w", bytes.ToValidUTF8(f.key, nil), err)
		}
		off, left = f.bodyAt+int64(f.bodyLen), left-1
		if failed == nil && len(buf) > 1<<20 {
			_, failed = to.Write(buf)
			buf = buf[:0]
		}
		return failed == nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	if left > 0 {
		t.in.Log.LogAttrs(context.Background(), slog.LevelError, "a damaged record was dropped", slog.String("file", t.name), slog.Int("records", left))
	}
	_, err = to.Write(buf)
	return err
}

// Close ends the table, and erases what was deleted and replaced.
func (t *Table) Close() error {
	t.mu.Lock()
	t.stop(store.ErrClosed)
	t.mu.Unlock()
	t.running.Wait()
	// A command that ends at once erases, too; the second round erases the deletions.
	err := t.eraseSpans()
	if err == nil && len(t.erase) > 0 {
		err = t.eraseSpans()
	}
	err = errors.Join(err, t.sync(t.syncs.written.Load()))
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(err, t.f.Close())
}

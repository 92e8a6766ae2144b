package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

var _ store.Filler = (*Space)(nil)

const fillEnd = ".import" // a log that is being filled

// Fill implements [store.Filler]. The lines are written beside the log, which is there with one rename.
func (s *Space) Fill(
	ctx context.Context, name, label string, entries iter.Seq2[store.Entry, error], head func() ([]byte, time.Time),
) (info store.Info, err error) {
	var filled state
	err = s.withTurn(ctx, name, func(l *log) error {
		err := l.own(ctx, true, func() (err error) {
			l.mu.Lock()
			now := l.state
			l.mu.Unlock()
			if now.there() {
				return &store.MovedLog{Info: now.info()}
			}
			if filled, err = l.fill(ctx, label, entries, head); err != nil {
				_ = s.disk.Remove(l.path + fillEnd)
				_ = s.disk.Remove(l.full) // the empty log that it began with
			}
			return err
		})
		if err == nil {
			s.outdated(l)
		}
		return err
	})
	if err != nil {
		return store.Info{}, err
	}
	// The new file has another log, which takes from here what no line says.
	err = s.withTurn(ctx, name, func(l *log) error {
		return l.own(ctx, false, func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.state.label, l.state.head, l.state.updated, l.stale = filled.label, filled.head, filled.updated, true
			_ = l.writeIndexLocked() // it was logged
			s.wrote(l, &state{}, &l.state)
			info = l.state.info()
			return nil
		})
	})
	if err != nil {
		path, end, _ := s.fileOf(name)
		_ = s.disk.Remove(path + end)
	}
	return info, err
}

// fill writes a file beside the log and renames it.
func (l *log) fill(
	ctx context.Context, label string, entries iter.Seq2[store.Entry, error], head func() ([]byte, time.Time),
) (next state, err error) {
	f, err := l.s.disk.Open(l.path+fillEnd, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return next, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(0); err != nil { // of one that a crash has cut off
		return next, err
	}
	next = l.framing.begin(l.name, nil)
	next.label, next.life, next.created = label, newLife(), time.Now().UnixMicro()
	buf := getBuffer()
	defer putBuffer(buf)
	var chunk store.Batch
	size := 0
	flush := func() error {
		at := next.bytes
		*buf, next = l.framing.appendBatch((*buf)[:0], next, chunk)
		next.bytes = at + int64(len(*buf))
		if !l.s.fits(next.bytes) {
			return store.ErrFull
		}
		_, err := f.WriteAt(*buf, at)
		chunk.Entries, size = chunk.Entries[:0], 0
		return err
	}
	for e, err := range entries {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil && (len(e.Data) > store.MaxEntry || e.N != 0 && e.N <= next.last) {
			err = fmt.Errorf("%w: entry %d of %q", store.ErrInvalid, e.N, l.name)
		}
		if err != nil {
			return next, err
		}
		chunk.Entries = append(chunk.Entries, e)
		if size += len(e.Data); size >= blockSize {
			if err := flush(); err != nil {
				return next, err
			}
		}
	}
	var updated time.Time
	chunk.Head, updated = head()
	next.updated = updated.UnixMicro()
	if err := flush(); err != nil {
		return next, err
	}
	if !l.s.e.unsynced {
		if err := l.s.synced(f); err != nil {
			return next, err
		}
	}
	if err = l.s.disk.Rename(l.path+fillEnd, l.full); err == nil && l.s.o.Durability == store.Synced {
		err = l.s.disk.SyncFolder(".")
	}
	return next, vfs.Explain(err)
}

package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// Import implements tape.Importer. The entries are written beside the tape, which is there with one rename.
func (s *Store) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	return s.explain(name, s.with(name, func(l *log) error {
		if err := l.commit.lock(ctx); err != nil {
			return err
		}
		defer l.commit.unlock()
		var owner tape.Info
		err := l.own(ctx, true, func() (err error) {
			if n := l.entries(); n > 0 {
				return fmt.Errorf("%w: the tape has %d entries", tape.ErrNotEmpty, n)
			}
			owner, err = s.importFile(ctx, name, session, workspace, entries)
			if err == nil {
				err = s.disk.Rename(name+importEnd, name+tapeEnd)
			}
			if err == nil && s.sync == SyncAlways {
				err = s.disk.SyncFolder(".")
			}
			if err != nil {
				s.undoImport(name)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.outdated(l)
		s.touched(name, name+tapeEnd)
		// The new file has another log, which takes the session from here.
		err = s.with(name, func(l *log) error {
			if err := l.commit.lock(ctx); err != nil {
				return err
			}
			defer l.commit.unlock()
			return l.own(ctx, false, func() error {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.state.Session, l.state.Workspace = owner.Session, owner.Workspace
				l.state.side = hashOf(appendSession(nil, &l.state.Info))
				l.writeIndexLocked()
				s.directory.put(l.state)
				return nil
			})
		})
		if err != nil {
			s.undoImport(name)
		}
		return err
	}))
}

// undoImport removes the files of an import that has failed, and the empty tape that it began with.
func (s *Store) undoImport(name string) {
	_ = s.disk.Remove(name + importEnd)
	_ = s.disk.Remove(name + tapeEnd)
}

// importFile writes the entries to a file of their own.
func (s *Store) importFile(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) (info tape.Info, err error) {
	f, err := s.disk.Open(name+importEnd, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(0); err != nil { // of one that a crash has cut off
		return info, err
	}
	buf := getBuffer()
	defer putBuffer(buf)
	at := int64(0)
	flush := func() error {
		_, err := f.WriteAt(*buf, at)
		at += int64(len(*buf))
		*buf = (*buf)[:0]
		return err
	}
	for e, err := range entries {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return info, err
		}
		checked, err := tape.Batch{Entries: []tape.Entry{e}}.Check()
		if err != nil {
			return info, fmt.Errorf("entry %d: %w", e.ID, err)
		}
		if e = checked[0]; e.ID <= info.LastID {
			return info, fmt.Errorf("%w: id %d follows %d; expected rising ids", tape.ErrInvalid, e.ID, info.LastID)
		}
		if e.Date.IsZero() {
			e.Date = time.Now()
		}
		*buf = appendLine(*buf, e, info.LastID, false)
		info.Add(e)
		if len(*buf) >= blockSize {
			if err := flush(); err != nil {
				return info, err
			}
		}
	}
	if info.Entries == 0 {
		return info, fmt.Errorf("%w: expected at least one entry in an import", tape.ErrInvalid)
	}
	if session != "" {
		info.Session, info.Workspace = session, workspace
	}
	err = flush()
	if err == nil && s.sync != SyncNone {
		err = f.Sync()
	}
	return info, err
}

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// A lease is a locked file. The system unlocks it when its process ends, however it ends, so a dead holder's lease is free at
// once, and one that is alive never loses it: no clock decides.

// lease implements tape.Lease.
type lease struct {
	store *Store
	path  string
	file  vfs.File
	once  sync.Once
}

// never is the lost of leases that cannot be lost.
var never = make(chan struct{})

func (l *lease) Lost() <-chan struct{} { return never }

// Release removes the file before it unlocks it: who waits for it sees that it is no longer at its path.
func (l *lease) Release() {
	l.once.Do(func() {
		if err := errors.Join(l.store.disk.Remove(l.path), l.file.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.store.log.Warn("cannot remove a lease's file", "file", l.path, "error", err)
		}
	})
}

// Lease implements tape.Leaser.
func (s *Store) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, err
	}
	const longest = 50 * time.Millisecond // a turn takes seconds
	path := name + leaseEnd
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		f, err := s.takeLease(path)
		if err != nil {
			return nil, s.explain(name, err)
		}
		if f != nil {
			return &lease{store: s, path: path, file: f}, nil
		}
		if !wait {
			return nil, tape.ErrLeased
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// takeLease opens and locks the file; it is nil when another one has it.
func (s *Store) takeLease(path string) (vfs.File, error) {
	for range attempts {
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return nil, tape.ErrClosed
		}
		f, err := s.disk.Open(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		ok, err := f.TryLock()
		if err != nil || !ok {
			return nil, errors.Join(err, f.Close())
		}
		// Its last holder may have removed it since it was opened.
		opened, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		at, err := s.disk.Stat(path)
		if err == nil && vfs.SameFile(at, opened) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, nil // others take and release it all the time
}

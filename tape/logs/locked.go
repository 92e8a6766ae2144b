package logs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// lockedFiles are leases of the processes that use a folder. A lease is a locked file. The system unlocks it when its process ends, however
// it ends, so a dead holder's lease is free at once, and one that is alive never loses it: no clock decides.
type lockedFiles struct {
	disk vfs.Folder
	log  *slog.Logger
}

const (
	leaseEnd = ".lease"
	// attempts bounds how often a file is opened again that was removed in that moment.
	attempts = 100
)

// fileLease implements [tape.Lease].
type fileLease struct {
	of   *lockedFiles
	path string
	file vfs.File
	once sync.Once
}

// Lost implements [tape.Lease]: the lease cannot be lost.
func (l *fileLease) Lost() <-chan struct{} { return nil }

// Release removes the file before it unlocks it: a process that waits for it sees that it is no longer at its path.
func (l *fileLease) Release() {
	l.once.Do(func() {
		if err := errors.Join(l.of.disk.Remove(l.path), l.file.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.of.log.Warn("cannot remove a lease's file", "file", l.path, "error", err)
		}
	})
}

// Lease implements [tape.Leaser].
func (s *lockedFiles) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	const longest = 50 * time.Millisecond // a turn takes seconds
	path := name + leaseEnd
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		f, err := s.take(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return &fileLease{of: s, path: path, file: f}, nil
		}
		if !wait {
			return nil, tape.ErrLeased
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// take opens and locks the file; it is nil if another holder has it.
func (s *lockedFiles) take(path string) (vfs.File, error) {
	for range attempts {
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

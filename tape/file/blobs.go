package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lingserve/lingserve/tape"
)

// A blob is a file in the tape's folder of blobs, named by the hash of what it holds.

// partEnd is the ending of a blob that is being written.
const partEnd = ".part"

// PutBlob implements tape.Blobs.
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	sum := sha256.Sum256(data)
	handle = hex.EncodeToString(sum[:])
	err = s.with(name, func(l *log) error {
		if err := l.commit.lock(ctx); err != nil {
			return err
		}
		defer l.commit.unlock()
		// As the writer of the tape, so that it is not erased meanwhile.
		return l.own(ctx, false, func() error {
			if l.entries() == 0 {
				return fmt.Errorf("%w: unknown tape %s", tape.ErrNotFound, name)
			}
			return s.writeBlob(name, handle, data)
		})
	})
	if err != nil {
		return "", s.explain(name, err)
	}
	return handle, nil
}

func (s *Store) writeBlob(name, handle string, data []byte) error {
	folder := name + blobsEnd
	path := folder + "/" + handle
	if at, err := s.disk.Stat(path); err != nil || !at.Mode().IsRegular() || at.Size() != int64(len(data)) || !s.holds(path, handle) {
		if err := s.newBlob(folder, path, data); err != nil {
			return err
		}
	}
	// Also of a blob that exists: its writer may have failed here.
	if s.sync == SyncAlways {
		return errors.Join(s.disk.SyncFolder(folder), s.disk.SyncFolder("."))
	}
	s.touched(name, path)
	return nil
}

// newBlob writes a blob beside its place and renames it.
func (s *Store) newBlob(folder, path string, data []byte) error {
	if err := s.disk.Mkdir(folder); err != nil {
		return err
	}
	f, err := s.disk.Open(path+partEnd, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && s.sync == SyncAlways {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.disk.Rename(path+partEnd, path)
	}
	if err != nil {
		_ = s.disk.Remove(path + partEnd)
	}
	return err
}

// holds says whether a blob that is there is not damaged.
func (s *Store) holds(path, handle string) bool {
	f, err := s.disk.Open(path, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	return checkBlob(f, handle) == nil
}

// ReadBlob implements tape.Blobs. A blob is read as a whole, whatever is asked of it, to see whether it is what was written.
func (s *Store) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	if _, err := s.Info(ctx, name); err != nil {
		return nil, 0, err
	}
	unknown := fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
	if raw, err := hex.DecodeString(handle); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != handle {
		return nil, 0, unknown
	}
	f, err := s.disk.Open(name+blobsEnd+"/"+handle, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, unknown
	}
	if err != nil {
		return nil, 0, s.explain(name, err)
	}
	defer f.Close()
	at, err := f.Stat()
	if err != nil {
		return nil, 0, s.explain(name, err)
	}
	if err := checkBlob(f, handle); err != nil {
		if errors.Is(err, tape.ErrDamaged) {
			s.log.WarnContext(ctx, "blob is damaged", "tape", name, "blob", handle)
		}
		return nil, 0, s.explain(name, err)
	}
	size = at.Size()
	if offset >= size || limit <= 0 {
		return nil, size, nil
	}
	data = make([]byte, min(limit, size-offset))
	if _, err := f.ReadAt(data, offset); err != nil {
		return nil, 0, s.explain(name, err)
	}
	return data, size, nil
}

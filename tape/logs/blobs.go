package logs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// A blob is a log below its tape whose name has the hash of what it holds. Its entries are parts of equal size, but for the last.

const blobBytes = 512 << 10 // of a part

func blobKey(st *state, handle string) string { return st.key + "/" + blobPart + "/" + handle }

// PutBlob implements [tape.Blobs].
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return "", err
	}
	defer done()
	st, err := s.load(ctx, name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	handle = hex.EncodeToString(sum[:])
	key := blobKey(st, handle)
	if err := s.putBlob(ctx, key, data); err != nil {
		return "", s.explain(name, err)
	}
	// If the tape was erased before the blob came, the blob belongs to nobody.
	now, err := s.look(ctx, name)
	if err == nil && (!now.exists() || !now.info.Created.Equal(st.info.Created)) {
		if err = s.space.Delete(ctx, key); err == nil {
			err = missing(name)
		}
	}
	if err != nil {
		return "", s.explain(name, err)
	}
	return handle, nil
}

// putBlob stores a blob, unless it is there and is not damaged.
func (s *Store) putBlob(ctx context.Context, key string, data []byte) error {
	var b store.Batch
	_, _ = rand.Read(b.ID[:]) // never fails
	for part := range slices.Chunk(data, blobBytes) {
		b.Entries = append(b.Entries, store.Entry{Data: part})
	}
	if len(b.Entries) == 0 {
		b.Entries = []store.Entry{{}}
	}
	_, err := s.space.Append(ctx, key, b)
	if !errors.Is(err, store.ErrMoved) {
		return err
	}
	there, err := s.readParts(ctx, key, 1, uint64(len(b.Entries)))
	if err == nil && bytes.Equal(there, data) || err != nil && !errors.Is(err, store.ErrDamaged) && !isNotFound(err) {
		return err
	}
	if err = s.space.Delete(ctx, key); err == nil {
		_, err = s.space.Append(ctx, key, b)
	}
	return err
}

// readParts reads the parts of a blob from one number to another.
func (s *Store) readParts(ctx context.Context, key string, from, to uint64) (data []byte, err error) {
	next := from
	for e, err := range s.space.Read(ctx, key, store.Range{From: from, Before: to + 1}) {
		if err == nil && e.N != next {
			err = fmt.Errorf("%w: part %d is missing", store.ErrDamaged, next)
		}
		if err != nil {
			return nil, err
		}
		data = append(data, e.Data...)
		next++
	}
	return data, nil
}

// ReadBlob implements [tape.Blobs].
func (s *Store) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	st, err := s.load(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	if raw, err := hex.DecodeString(handle); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != handle {
		return nil, 0, noBlob(handle)
	}
	key := blobKey(st, handle)
	in, err := s.space.Info(ctx, key)
	if isNotFound(err) {
		return nil, 0, noBlob(handle)
	}
	if err != nil {
		return nil, 0, s.explain(name, err)
	}
	size = in.Bytes
	from := min(offset, size)
	to := from + min(limit, size-from)
	if from == to {
		return nil, size, nil
	}
	first, last := from/blobBytes, (to-1)/blobBytes
	data, err = s.readParts(ctx, key, uint64(first)+1, uint64(last)+1)
	if isNotFound(err) { // erased in this moment
		return nil, 0, noBlob(handle)
	}
	from, to = from-first*blobBytes, to-first*blobBytes
	if err == nil && int64(len(data)) < to {
		err = fmt.Errorf("%w: blob %s is too short", store.ErrDamaged, handle)
	}
	if errors.Is(err, store.ErrDamaged) {
		s.options.Log.WarnContext(ctx, "blob is damaged", "tape", name, "blob", handle)
	}
	if err != nil {
		return nil, 0, s.explain(name, err)
	}
	return data[from:to:to], size, nil
}

func noBlob(handle string) error {
	return fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
}

package db

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

const (
	blobBytes = 512 << 10 // of a part
	blobParts = 8         // read at once
)

// PutBlob implements [tape.Blobs].
func (t *Tapes) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	s, err := t.load(ctx, name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	handle = hex.EncodeToString(sum[:])
	_, exists, err := t.blobSize(ctx, &s, handle)
	for part := max(len(data)-1, 0) / blobBytes; part >= 0 && err == nil && !exists; part-- { // part 0, which makes the blob visible, last
		chunk := data[part*blobBytes : min((part+1)*blobBytes, len(data))]
		if chunk == nil {
			chunk = []byte{}
		}
		err = t.db.Update(ctx, func(tx *Tx) error {
			found, err := s.key().exists(tx.querier, tx.db.share)
			if err == nil && !found {
				err = missingTape()
			}
			if err == nil {
				_, err = tx.exec("INSERT INTO blobs (tape, incarnation, hash, part, size, data) VALUES ("+parameters(1, 6)+") ON CONFLICT DO NOTHING",
					s.Tape, s.incarnation, handle, part, len(data), chunk)
			}
			return err
		})
	}
	if err != nil {
		return "", explain(name, err)
	}
	return handle, nil
}

// blobSize returns the size of a blob in bytes; found is false if it does not exist.
func (t *Tapes) blobSize(ctx context.Context, s *session, handle string) (size int64, found bool, err error) {
	err = t.db.view(ctx, func(q querier) (err error) {
		found, err = q.scanOne([]any{&size}, "SELECT size FROM blobs WHERE tape = $1 AND incarnation = $2 AND hash = $3 AND part = 0", s.Tape, s.incarnation, handle)
		return err
	})
	return size, found, err
}

// ReadBlob implements [tape.Blobs].
func (t *Tapes) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	s, err := t.load(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	size, found := int64(0), false
	if raw, err := hex.DecodeString(handle); err == nil && len(raw) == sha256.Size {
		if size, found, err = t.blobSize(ctx, &s, handle); err != nil {
			return nil, 0, explain(name, err)
		}
	}
	if !found {
		return nil, 0, fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
	}
	from := min(offset, size)
	to := from + min(limit, size-from)
	if from == to {
		return nil, size, nil
	}
	data = make([]byte, 0, to-from)
	first, last := from/blobBytes, (to-1)/blobBytes
	for next := first; next <= last && err == nil; next += blobParts {
		want := next
		err = t.db.view(ctx, func(q querier) error {
			return q.collect(func(rows *sql.Rows) (bool, error) {
				var part int64
				var bytes []byte
				if err := rows.Scan(&part, &bytes); err != nil {
					return false, err
				}
				begin := part * blobBytes
				if part != want || begin+int64(len(bytes)) != min(begin+blobBytes, size) {
					return false, fmt.Errorf("%w: part %d of blob %s", store.ErrDamaged, want, handle)
				}
				data = append(data, bytes[max(from-begin, 0):min(to-begin, int64(len(bytes)))]...)
				want++
				return true, nil
			}, "SELECT part, data FROM blobs WHERE tape = $1 AND incarnation = $2 AND hash = $3 AND part >= $4 AND part < $5 ORDER BY part",
				s.Tape, s.incarnation, handle, next, min(next+blobParts, last+1))
		})
	}
	if err == nil && int64(len(data)) < to-from { // erased, or damaged
		err = fmt.Errorf("%w: blob %s is too short", store.ErrDamaged, handle)
		if gone, loadErr := t.load(ctx, name); loadErr != nil || gone.incarnation != s.incarnation {
			err = fmt.Errorf("%w: the session was erased", tape.ErrNotFound)
		}
	}
	if err != nil {
		return nil, 0, explain(name, err)
	}
	return data, size, nil
}

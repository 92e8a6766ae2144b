package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

const blobBytes = 512 << 10 // of a part

// PutBlob implements [tape.Store].
func (t *Tapes) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	s, err := t.load(ctx, name)
	if err != nil {
		return "", err
	}
	handle = hashOf(data)
	return handle, t.db.writeBlob(ctx, s.key(), handle, data, func(tx *Tx) {
		if !tx.tapeExists(s.key(), tx.db.lock) {
			tx.fail(missingTape())
		}
	})
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// writeBlob writes a blob in parts, unless it exists. Each part has a transaction, in which check may refuse it.
func (db *DB) writeBlob(ctx context.Context, of incarnation, hash string, data []byte, check func(*Tx)) error {
	tx := db.reader(ctx)
	_, exists := tx.blobSize(of, hash)
	err := tx.err
	for part := max(len(data)-1, 0) / blobBytes; part >= 0 && err == nil && !exists; part-- { // part 0, which makes the blob visible, last
		chunk := notNil(data[part*blobBytes : min((part+1)*blobBytes, len(data))])
		err = db.Update(ctx, func(tx *Tx) {
			check(tx)
			tx.exec("INSERT INTO blobs (tape, incarnation, hash, part, size, data) VALUES ("+parameters(1, 6)+") ON CONFLICT DO NOTHING",
				of.tape, of.number, hash, part, len(data), chunk)
		})
	}
	return err
}

// blobSize returns the size of a blob in bytes; found is false if it does not exist.
func (tx *Tx) blobSize(of incarnation, hash string) (size int64, found bool) {
	found = tx.scanOne([]any{&size}, "SELECT size FROM blobs WHERE tape = $1 AND incarnation = $2 AND hash = $3 AND part = 0", of.tape, of.number, hash)
	return size, found
}

// ReadBlob implements [tape.Store].
func (t *Tapes) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	s, err := t.load(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	data, size, err = t.db.readBlob(ctx, s.key(), handle, offset, limit)
	if errors.Is(err, store.ErrDamaged) {
		if tx := t.db.reader(ctx); !tx.tapeExists(s.key(), "") && tx.err == nil {
			err = fmt.Errorf("%w: the session was erased", tape.ErrNotFound)
		}
	}
	return data, size, err
}

// readBlob returns at most limit bytes of a blob from an offset on, and its size.
func (db *DB) readBlob(ctx context.Context, of incarnation, hash string, offset, limit int64) (data []byte, size int64, err error) {
	hash = plainText(hash)
	tx := db.reader(ctx)
	size, found := tx.blobSize(of, hash)
	if !found {
		tx.fail(fmt.Errorf("%w: there is no blob %.80q", tape.ErrNotFound, hash))
		return nil, 0, tx.err
	}
	from := min(offset, size)
	to := from + min(limit, size-from)
	data = slices.Grow(data, int(to-from))
	for part := from / blobBytes; part*blobBytes < to; part++ {
		var bytes []byte
		tx.scanOne([]any{&bytes}, "SELECT data FROM blobs WHERE tape = $1 AND incarnation = $2 AND hash = $3 AND part = $4", of.tape, of.number, hash, part)
		begin := part * blobBytes
		if int64(len(bytes)) != min(blobBytes, size-begin) { // erased, or damaged
			tx.fail(fmt.Errorf("%w: part %d of blob %s", store.ErrDamaged, part, hash))
		}
		if tx.err != nil {
			return nil, 0, tx.err
		}
		data = append(data, bytes[max(from-begin, 0):min(to-begin, int64(len(bytes)))]...)
	}
	return data, size, nil
}

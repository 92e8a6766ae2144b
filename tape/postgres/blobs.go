package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/tape"
)

// blobMost bounds a blob: one goes to the database in one message, which has at most 1 GiB.
const blobMost = 512 << 20

// PutBlob implements tape.Blobs.
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) (string, error) {
	if err := tape.CheckName(name); err != nil {
		return "", err
	}
	if len(data) > blobMost {
		return "", fmt.Errorf("%w: expected at most %d bytes in a blob, found %d", tape.ErrTooLarge, blobMost, len(data))
	}
	sum := sha256.Sum256(data)
	if data == nil {
		data = []byte{} // nil would be no value
	}
	err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var tapes int
		// The tape is not erased until the blob is there.
		err := conn.QueryRow(ctx, `WITH t AS (SELECT id FROM tapes WHERE name = $1 FOR KEY SHARE),
			put AS (INSERT INTO blobs (tape, handle, data) SELECT id, $2, $3 FROM t ON CONFLICT DO NOTHING)
			SELECT count(*) FROM t`, name, sum[:], data).Scan(&tapes)
		if err == nil && tapes == 0 {
			err = unknown(name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

// ReadBlob implements tape.Blobs.
func (s *Store) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	if err := tape.CheckName(name); err != nil {
		return nil, 0, err
	}
	sum, err := hex.DecodeString(handle)
	if err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != handle {
		sum = []byte{} // which none has; whether there is the tape is looked at first
	}
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var length *int64
		err := conn.QueryRow(ctx, `SELECT length(b.data)::bigint,
				substring(b.data FROM least($3::bigint, length(b.data))::integer + 1 FOR least($4::bigint, length(b.data))::integer)
			FROM tapes t LEFT JOIN blobs b ON b.tape = t.id AND b.handle = $2 WHERE t.name = $1`,
			name, sum, offset, limit).Scan(&length, &data)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return unknown(name)
		case err != nil:
			return err
		case length == nil:
			return fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
		}
		size = *length
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return data, size, nil
}

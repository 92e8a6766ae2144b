package db

import (
	"context"
	"math"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Files are uploaded files in the database. Errors: those of [Tapes], and [store.ErrNotFound].
type Files struct{ db *DB }

// Files returns the store of files.
func (db *DB) Files() *Files { return &Files{db} }

// fileTime is how long the writing of a file may take. What is left of it then is removed.
const fileTime = time.Hour

// fileKey is where the content of a file is.
func fileKey(id string) incarnation { return incarnation{id, 0} }

// Add stores a file, whole or not at all.
func (f *Files) Add(ctx context.Context, file store.File, data []byte) error {
	key := fileKey(file.ID)
	err := f.db.Update(ctx, func(tx *Tx) { tx.scheduleRemoval(key, f.db.clock().Add(fileTime)) })
	if err == nil {
		err = f.db.writeBlob(ctx, key, file.SHA256, data, func(*Tx) {})
	}
	if err != nil {
		return err
	}
	return f.db.Update(ctx, func(tx *Tx) {
		tx.exec("INSERT INTO files (id, owner, name, type, size, sha256, created, expires) VALUES ("+parameters(1, 8)+")", file.ID, plainText(file.Owner),
			plainText(file.Name), plainText(file.Type), file.Size, file.SHA256, file.Created.UnixMicro(), file.Expires.UnixMicro())
		tx.cancelRemoval(key)
	})
}

// Find finds a file of an owner that has not expired.
func (f *Files) Find(ctx context.Context, owner, id string) (file store.File, err error) {
	tx := f.db.reader(ctx)
	if !tx.scanOne([]any{&file.ID, &file.Owner, &file.Name, &file.Type, &file.Size, &file.SHA256, date{&file.Created}, date{&file.Expires}},
		"SELECT id, owner, name, type, size, sha256, created, expires FROM files WHERE id = $1 AND owner = $2 AND expires > $3",
		id, plainText(owner), f.db.clock().UnixMicro()) {
		tx.fail(store.ErrNotFound)
	}
	return file, tx.err
}

// Read returns what is in a file.
func (f *Files) Read(ctx context.Context, file store.File) ([]byte, error) {
	data, _, err := f.db.readBlob(ctx, fileKey(file.ID), file.SHA256, 0, math.MaxInt64)
	return data, err
}

// Held returns how many files an owner has, and their size in bytes.
func (f *Files) Held(ctx context.Context, owner string) (count int, size int64, err error) {
	tx := f.db.reader(ctx)
	tx.scanOne([]any{&count, &size}, "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM files WHERE owner = $1 AND expires > $2",
		plainText(owner), f.db.clock().UnixMicro())
	return count, size, tx.err
}

// Remove erases a file of an owner.
func (f *Files) Remove(ctx context.Context, owner, id string) error {
	err := f.db.Update(ctx, func(tx *Tx) {
		if tx.exec("DELETE FROM files WHERE id = $1 AND owner = $2", id, plainText(owner)) == 0 {
			tx.fail(store.ErrNotFound)
		}
		tx.scheduleRemoval(fileKey(id), time.UnixMicro(0))
	})
	if err == nil {
		err = f.db.finishErasing(context.WithoutCancel(ctx), true)
	}
	return err
}

// expireFiles makes files that have expired invisible, and counts them.
func (db *DB) expireFiles(ctx context.Context) (removed int64, err error) {
	for n := int64(removeRows); n == removeRows && err == nil; removed += n {
		const expired = " FROM files WHERE expires <= $1 ORDER BY expires, id LIMIT $2"
		now := db.clock().UnixMicro()
		err = db.Update(ctx, func(tx *Tx) {
			tx.exec("INSERT INTO removals (tape, incarnation, due) SELECT id, 0, 0"+expired+" ON CONFLICT DO NOTHING", now, removeRows)
			n = tx.exec("DELETE FROM files WHERE id IN (SELECT id"+expired+")", now, removeRows)
		})
	}
	return removed, err
}

// Package store has the rows that the server keeps, and the errors of their stores. Package db stores them.
//
// If the answer to a write is lost, the write fails with [ErrUnsure].
package store

import (
	"errors"
	"time"
)

// Errors of stores; compare with [errors.Is].
var (
	ErrNotFound = errors.New("not found")
	ErrMoved    = errors.New("it has changed meanwhile")
	ErrDeleted  = errors.New("deleted")
	ErrExpired  = errors.New("expired")
	ErrFull     = errors.New("the store is full")
	ErrTooLarge = errors.New("too large")
	ErrInvalid  = errors.New("invalid")
	ErrDamaged  = errors.New("damaged")
	ErrAway     = errors.New("the store cannot be reached; nothing was written")
	ErrUnsure   = errors.New("the store did not answer; the change may have been written")
	ErrInUse    = errors.New("another server uses it")
	ErrClosed   = errors.New("the store is closed")
)

// File describes an uploaded file.
type File struct {
	ID      string
	Owner   string // "" is everyone without a key
	Name    string
	Type    string // media type
	Size    int64  // bytes
	SHA256  string // hexadecimal
	Created time.Time
	Expires time.Time
}

// Package disk says what has failed where a disk has.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Error is the failure of a disk: it is full, it cannot be written, or it is broken. A caller may try again later.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return e.what + e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// ErrorCode is the code of what comes of it for a request.
func (e *Error) ErrorCode() string { return "overloaded" }

// Failed reports whether err is the failure of a disk.
func Failed(err error) bool {
	_, failed := errors.AsType[*Error](err)
	return failed
}

// Explain adds to an error of the disk what a user can do about it.
func Explain(err error) error {
	switch {
	case Failed(err):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{"the disk is full; make room: ", err}
	case errors.Is(err, syscall.EROFS):
		return &Error{"the disk is mounted read-only; look at the system's log: ", err}
	case errors.Is(err, syscall.EIO):
		return &Error{"the disk is broken; look at the system's log: ", err}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not use the data folder; check who owns it: %w", err)
	}
	return err
}

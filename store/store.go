// Package store has the two primitives under everything that the server keeps, and their errors. A [Log] is a named sequence of entries
// that is only appended to. A [Table] holds small records by key. Engines implement them: package file on a folder, package postgres
// on PostgreSQL. Package storetest tests each engine against every rule of this package.
//
// # Revisions
//
// Each change of a table gets a revision, which rises over the table in the order of commit: a reader that has seen one revision can read
// all lower ones. A [Put] names the revision that it expects at its key, so of all writers that expect the same one, one succeeds and the
// others get [ErrMoved].
//
// # Doubt
//
// If the answer of an engine is lost, the write fails with [ErrUnsure]. The same batch or put, with the same ID, may be sent again: it is
// written once. A put that has been written and then deleted gets [ErrMoved] if it is sent again. Engines know that for some minutes.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Engine opens tables. It is safe for concurrent use.
type Engine interface {
	// Table opens a table and creates it if it does not exist. Everyone who opens it must give the same options.
	Table(ctx context.Context, o TableOptions) (Table, error)
	// Close makes lazy puts durable, ends all watchers, and refuses later calls with ErrClosed.
	Close() error
}

// Durability says what an acknowledged write outlasts.
type Durability int

const (
	// Async outlasts the process. It outlasts the machine after the engine's interval: 1 s with files.
	Async Durability = iota
	// Synced outlasts the machine.
	Synced
)

// TableOptions are the settings of a table.
type TableOptions struct {
	Name       string // a part of a name; see [CheckKey]
	Durability Durability
	MaxRecords int64 // 0: no bound
	MaxBytes   int64 // of keys, metas and bodies; 0: no bound
	Oldest     bool  // beyond a bound, the record that was changed longest ago is removed; without Oldest, the put gets ErrFull
}

// Record is what a table has for a key.
type Record struct {
	Key     string
	Made    uint64 // the revision that created the record
	Rev     uint64 // the revision of its last change
	Meta    []byte
	Body    []byte // nil from Range without bodies
	At      time.Time
	Expires time.Time // zero: never
}

// AnyRev lets a put succeed whatever its key has.
const AnyRev = ^uint64(0)

// Put is a change of one record.
type Put struct {
	Key    string
	ID     [16]byte      // random, and the same at each attempt
	After  uint64        // the revision that the key must have; 0: there is no record; or AnyRev
	Meta   []byte        // at most MaxMeta bytes
	Body   []byte        // at most MaxBody bytes; nil: the body stays as it is
	Life   time.Duration // 0: forever
	Delete bool          // removes the record; Meta, Body and Life are ignored
	Lazy   bool          // durable together with the next put that is not lazy, or after a second
}

// Limits of a put.
const (
	MaxMeta = 4 << 10
	MaxBody = 4 << 20
)

// Table holds small records by key. It is safe for concurrent use. Callers must not change the slices that they pass or get.
type Table interface {
	// Get returns a record, or ErrNotFound. It sees every change that was acknowledged to anyone before the call.
	Get(ctx context.Context, key string) (Record, error)
	// Peek is a cheap Get. What it returns may be a moment old.
	Peek(ctx context.Context, key string) (Record, error)
	// Put makes changes that succeed or fail each by itself. They share one write. Those of one key are made in the order of the call, those
	// of different keys in any order. The slices have an element for each put: the new record without its body (of a deletion, the record
	// that was removed; of one that is sent again, at least its key and revisions), and the error.
	Put(ctx context.Context, puts ...Put) ([]Record, []error)
	// Range yields the records whose keys begin with prefix, by key. An error is the last that it yields.
	Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[Record, error]
	// Watch yields the records whose keys begin with prefix, then one change with Live alone, then each further change in the order of
	// revisions; of several changes of a key it may skip all but the last. Records have no bodies. It ends with an error: the cause of
	// ctx or ErrClosed.
	Watch(ctx context.Context, prefix string) iter.Seq2[Change, error]
}

// Change is what a watcher is told.
type Change struct {
	Record
	Gone bool // the record was deleted, removed or has expired; only Key and perhaps Rev are set
	Live bool // all records that were there have been yielded; no other field is set
}

// Errors of engines; compare with [errors.Is].
var (
	ErrNotFound = errors.New("not found")
	ErrMoved    = errors.New("it has changed meanwhile") // of tables and logs: is always a [Moved] or a [MovedLog]
	ErrDeleted  = errors.New("deleted")
	ErrExpired  = errors.New("expired")
	ErrFull     = errors.New("the table is full")
	ErrTooLarge = errors.New("too large")
	ErrInvalid  = errors.New("invalid")
	ErrDamaged  = errors.New("damaged")
	ErrAway     = errors.New("the store cannot be reached; nothing was written")
	ErrUnsure   = errors.New("the store did not answer; the change may have been written")
	ErrInUse    = errors.New("another server uses it")
	ErrClosed   = errors.New("the store is closed")
)

// Moved is the [ErrMoved] of a put, and has the record that the key has, without its body. A zero Rev means that there is none.
type Moved struct{ Record }

func (m *Moved) Error() string {
	if m.Rev == 0 {
		return fmt.Sprintf("key %q: %v: it is gone", m.Key, ErrMoved)
	}
	return fmt.Sprintf("key %q: %v, at revision %d", m.Key, ErrMoved, m.Rev)
}

// Unwrap returns ErrMoved.
func (m *Moved) Unwrap() error { return ErrMoved }

// Bounds of keys.
const (
	maxParts = 4
	maxPart  = 128
)

// CheckKey returns an ErrInvalid if a name is not 1 to 4 parts joined by "/", each of 1 to 128 of the characters A–Z a–z 0–9 _ . ~ - and
// without a leading dot.
func CheckKey(key string) error {
	parts := 0
	for part := range strings.SplitSeq(key, "/") {
		parts++
		if part == "" || len(part) > maxPart || part[0] == '.' || parts > maxParts || strings.IndexFunc(part, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.~-", r))
		}) >= 0 {
			return fmt.Errorf("%w name %q: want 1 to %d parts joined by \"/\", each of 1 to %d letters, digits, _ . ~ or -, without a leading dot", ErrInvalid, key, maxParts, maxPart)
		}
	}
	return nil
}

// Check returns what is wrong with a put: an ErrInvalid or ErrTooLarge.
func (p *Put) Check() error {
	switch {
	case len(p.Meta) > MaxMeta:
		return fmt.Errorf("%w: the meta of %q has %d bytes, at most %d are allowed", ErrTooLarge, p.Key, len(p.Meta), MaxMeta)
	case len(p.Body) > MaxBody:
		return fmt.Errorf("%w: the body of %q has %d bytes, at most %d are allowed", ErrTooLarge, p.Key, len(p.Body), MaxBody)
	case p.ID == [16]byte{}:
		return fmt.Errorf("%w: the put of %q has no ID", ErrInvalid, p.Key)
	case p.Life < 0:
		return fmt.Errorf("%w: the life of %q is negative", ErrInvalid, p.Key)
	}
	return CheckKey(p.Key)
}

// KeyPart makes one part of a key of any text: letters, digits, _ . and - stand for themselves, other bytes are escaped. Different texts have
// different parts. A part that would be too long is the hash of the text.
func KeyPart(text string) string {
	plain := func(i int) bool {
		c := text[i]
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0
	}
	i := 0
	for i < len(text) && plain(i) {
		i++
	}
	if i == len(text) && 0 < i && i <= maxPart {
		return text
	}
	b := []byte(text[:i])
	for ; i < len(text); i++ {
		if plain(i) {
			b = append(b, text[i])
		} else {
			b = fmt.Appendf(b, "~%02x", text[i])
		}
	}
	if len(b) == 0 || len(b) > maxPart {
		sum := sha256.Sum256([]byte(text))
		return "~~" + hex.EncodeToString(sum[:])
	}
	return string(b)
}

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

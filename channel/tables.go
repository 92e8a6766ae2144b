package channel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// TextTable is a table of texts.
type TextTable struct {
	store.TableOptions
	Life time.Duration // of a text since it was changed; 0 is forever
}

// The tables of channels.
var (
	WindowTable  = TextTable{store.TableOptions{Name: "windows", MaxRecords: 10_000, MaxBytes: 64 << 20, Oldest: true}, defaultWindowAge}
	SessionTable = TextTable{store.TableOptions{Name: "sessions", MaxRecords: 100_000, MaxBytes: 64 << 20, Oldest: true}, 0}
	// LearnedTable has what platforms teach: a few names for each chat that has moved.
	LearnedTable = TextTable{store.TableOptions{Name: "learned", MaxBytes: 16 << 20, Oldest: true}, 0}
	PairTable    = TextTable{store.TableOptions{Name: "pairs", Durability: store.Synced}, 0}
)

const (
	textAttempts = 100 // to change a text that others change at the same time
	sureAttempts = 3   // to store a change whose answer was lost
)

// tableTexts are [Texts] in a table.
type tableTexts struct {
	table store.Table
	o     TextTable
	log   *slog.Logger

	seed  maphash.Seed
	locks [64]sync.Mutex // by the hash of the name: changes of one process do not race
}

// OpenTexts opens a table of texts. What is wrong with its texts goes to log; nil is nowhere.
func OpenTexts(ctx context.Context, e store.Engine, o TextTable, log *slog.Logger) (Texts, error) {
	table, err := e.Table(ctx, o.TableOptions)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &tableTexts{table: table, o: o, log: log, seed: maphash.MakeSeed()}, nil
}

// read reads a text and its revision. In a table whose oldest texts go, a text that is damaged is none.
func (t *tableTexts) read(ctx context.Context, name string) (text []byte, rev uint64, err error) {
	r, err := t.table.Get(ctx, store.KeyPart(name))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, 0, nil
	case errors.Is(err, store.ErrDamaged) && t.o.Oldest:
		t.log.WarnContext(ctx, "a text of the channels is damaged", "table", t.o.Name, "name", name)
		return nil, store.AnyRev, nil
	case err != nil:
		return nil, 0, t.explain("read", err)
	case r.Body == nil:
		return []byte{}, r.Rev, nil
	}
	return r.Body, r.Rev, nil
}

// Load implements [Texts].
func (t *tableTexts) Load(ctx context.Context, name string) ([]byte, error) {
	text, _, err := t.read(ctx, name)
	return text, err
}

// Change implements [Texts].
func (t *tableTexts) Change(ctx context.Context, name string, do func([]byte) ([]byte, error)) error {
	lock := &t.locks[maphash.String(t.seed, name)%uint64(len(t.locks))]
	lock.Lock()
	defer lock.Unlock()
	for range textAttempts {
		old, rev, err := t.read(ctx, name)
		if err != nil {
			return err
		}
		next, err := do(old)
		if err == nil {
			err = checkText(next)
		}
		if err != nil || sameText(old, next) && rev != store.AnyRev && (next != nil || t.o.Durability != store.Synced) {
			return err
		}
		// A removal that failed may not be durable, so nothing is removed once more.
		err = t.put(ctx, store.Put{Key: store.KeyPart(name), After: rev, Body: next, Life: t.o.Life, Delete: next == nil})
		if next == nil && errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if !errors.Is(err, store.ErrMoved) {
			return t.explain("change", err)
		}
	}
	return t.explain("change", fmt.Errorf("too many change it at the same time: %w", store.ErrMoved))
}

// put stores a change. If the answer is lost, it is sent again, with the same ID.
func (t *tableTexts) put(ctx context.Context, p store.Put) (err error) {
	rand.Read(p.ID[:])
	for range sureAttempts {
		_, errs := t.table.Put(ctx, p)
		if err = errs[0]; !errors.Is(err, store.ErrUnsure) {
			break
		}
	}
	return err
}

// All implements [Texts]. The prefix has letters, digits, _ and - only.
func (t *tableTexts) All(ctx context.Context, prefix string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for r, err := range t.table.Range(ctx, prefix, true) {
		if err != nil {
			return nil, t.explain("list", err)
		}
		all[r.Key] = r.Body
	}
	return all, nil
}

// storeError is the error of a store that may work again later.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// ErrorCode is the code of what comes of it for a request.
func (*storeError) ErrorCode() string { return "overloaded" }

// explain says what could not be done.
func (t *tableTexts) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("channel: %s a text of the table %s: %w", what, t.o.Name, err)
	for _, passing := range []error{store.ErrAway, store.ErrUnsure, store.ErrMoved, store.ErrFull} {
		if errors.Is(err, passing) {
			return &storeError{err}
		}
	}
	return err
}

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Ledger notes of accepted events whether something of the answer may have been seen, so that a turn that a crash has cut off is
// not run again after it (CH-74). It is asked for one event by one turn at a time. event is the key that the journal has it under.
type Ledger interface {
	// Sending notes that something is about to be sent; it is durable when Sending returns.
	Sending(_ context.Context, event string) error
	// Sent notes what became of it.
	Sent(_ context.Context, event string, state ReceiptState) error
	// Seen is what is known: NotSent where nothing was sent or all of it is proven not to have been.
	Seen(_ context.Context, event string) (ReceiptState, error)
	// Forget drops what is known of an event that is settled.
	Forget(_ context.Context, event string) error
}

// ledger is the ledger of this package: in memory, or in a file. An event that nobody forgets is kept for a day after its last mark, which
// is how long events are known.
type ledger struct {
	root vfs.Folder // nil: in memory

	mu     sync.Mutex // the marks, and the order of the file's lines
	log    *lineLog
	events map[string]ledgerMark
	shown  map[string]ShownText // by the name of its file; empty where an earlier process has left the file
}

// ledgerMark is what is known of an event.
type ledgerMark struct {
	State ReceiptState `json:"state"`
	At    time.Time    `json:"at"`
}

// ledgerLine is a line of the file; without a mark the event is forgotten.
type ledgerLine struct {
	Event string      `json:"event"`
	Mark  *ledgerMark `json:"mark,omitempty"`
}

const (
	ledgerFile = "ledger.jsonl"
	ledgerLife = 24 * time.Hour
)

// LedgerCloser is a [Ledger] that is to be closed.
type LedgerCloser interface {
	Ledger
	Shower
	Close() error
}

// OpenLedger opens a ledger in a folder, which one process at a time uses; "" is in memory, where nothing outlives the process. log is told
// of lines that cannot be read; nil is silent.
func OpenLedger(dir string, log *slog.Logger) (LedgerCloser, error) {
	if dir == "" {
		return &ledger{events: map[string]ledgerMark{}, shown: map[string]ShownText{}}, nil
	}
	return OpenLedgerIn(vfs.At(dir), log)
}

// OpenLedgerIn is [OpenLedger] for the stores of this module, which may be on another file system in tests.
func OpenLedgerIn(dir vfs.Dir, log *slog.Logger) (_ LedgerCloser, err error) {
	l := &ledger{events: map[string]ledgerMark{}, shown: map[string]ShownText{}}
	if l.root, err = dir.Open(); err != nil {
		return nil, fmt.Errorf("open the ledger of deliveries: %w", err)
	}
	l.log, err = openLineLog(l.root, ledgerFile, log, func(line []byte) {
		var v ledgerLine
		switch err := json.Unmarshal(line, &v); {
		case err != nil: // as if it had not been written
		case v.Mark == nil:
			delete(l.events, v.Event)
		case time.Since(v.Mark.At) < ledgerLife:
			l.events[v.Event] = *v.Mark
		}
	})
	if err != nil {
		return nil, fmt.Errorf("open the ledger of deliveries: %w", errors.Join(err, l.root.Close()))
	}
	if err := l.loadShown(); err != nil {
		return nil, fmt.Errorf("open the ledger of deliveries: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// Sending implements [Ledger]. What is on its way may be seen: until more is known, that is what is known.
func (l *ledger) Sending(_ context.Context, event string) error {
	at, err := l.set(event, UnknownWhether)
	if err != nil {
		return err
	}
	return l.log.wait(at)
}

// Sent implements [Ledger]. It does not wait for the disk: if this is lost, what is left says that something may have been seen,
// and the turn is as little run again.
func (l *ledger) Sent(_ context.Context, event string, s ReceiptState) error {
	_, err := l.set(event, s)
	return err
}

// set never takes back that something was seen.
func (l *ledger) set(event string, s ReceiptState) (at int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == Suppressed {
		s = NotSent
	}
	if was, ok := l.events[event]; ok && was.State.seen() {
		return 0, nil
	}
	m := ledgerMark{s, time.Now().Round(0)}
	if at, err = l.log.append(ledgerLine{event, &m}); err == nil {
		l.events[event] = m
	}
	return at, err
}

// Seen implements [Ledger].
func (l *ledger) Seen(_ context.Context, event string) (ReceiptState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, ok := l.events[event]; ok {
		return m.State, nil
	}
	return NotSent, nil
}

// Forget implements [Ledger].
func (l *ledger) Forget(_ context.Context, event string) error {
	if err := l.forgetShown(event); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.events[event]; !ok {
		return nil
	}
	delete(l.events, event)
	const line = 128 // about
	if !l.log.old(int64(len(l.events)) * line) {
		_, err := l.log.append(ledgerLine{Event: event})
		return err
	}
	left := make([]any, 0, len(l.events))
	for e, m := range l.events {
		if time.Since(m.At) < ledgerLife {
			left = append(left, ledgerLine{e, &m})
		} else {
			delete(l.events, e)
		}
	}
	return l.log.rewrite(left)
}

// Close lets the folder go.
func (l *ledger) Close() error {
	if l.root == nil {
		return nil
	}
	return errors.Join(l.log.close(), l.root.Close())
}

package channel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// CH-74: what is known of an event, in memory and after a crash.
func TestTheLedgerKnowsWhetherSomethingWasSeen(t *testing.T) {
	ctx := t.Context()
	for name, row := range map[string]struct {
		do   func(Ledger) error
		want ReceiptState
	}{
		"nothing was sent": {func(Ledger) error { return nil }, NotSent},
		"a send has begun": {func(l Ledger) error { return l.Sending(ctx, "e") }, UnknownWhether},
		"it came to nothing": {func(l Ledger) error {
			return or2(l.Sending(ctx, "e"), l.Sent(ctx, "e", NotSent))
		}, NotSent},
		"it was suppressed": {func(l Ledger) error {
			return or2(l.Sending(ctx, "e"), l.Sent(ctx, "e", Suppressed))
		}, NotSent},
		"it was seen": {func(l Ledger) error { return or2(l.Sending(ctx, "e"), l.Sent(ctx, "e", Sent)) }, Sent},
		"part of it was seen, and then nothing": {func(l Ledger) error {
			return or2(l.Sent(ctx, "e", Partial), or2(l.Sending(ctx, "e"), l.Sent(ctx, "e", NotSent)))
		}, Partial},
		"another event": {func(l Ledger) error { return l.Sending(ctx, "f") }, NotSent},
		"it is settled": {func(l Ledger) error { return or2(l.Sending(ctx, "e"), l.Forget(ctx, "e")) }, NotSent},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, dir := range []string{"", dir} {
				l, err := OpenLedger(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := row.do(l); err != nil {
					t.Fatal(err)
				}
				if dir != "" { // the process ends without a word
					after := crash(t, dir)
					if err := l.Close(); err != nil {
						t.Error(err)
					}
					if l, err = OpenLedger(after, nil); err != nil {
						t.Fatal(err)
					}
				}
				if got, err := l.Seen(ctx, "e"); err != nil || got != row.want {
					t.Errorf("folder %v: %v, %v; want %v", dir != "", got, err, row.want)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func or2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestTheLedgersFileDoesNotGrow(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Sent(t.Context(), "stays", Sent); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		e := fmt.Sprint("event", i)
		if err := or2(l.Sent(t.Context(), e, Sent), l.Forget(t.Context(), e)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, ledgerFile))
	if err != nil || info.Size() > logSlack+1<<16 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %d bytes, mode %v", err, info.Size(), info.Mode())
	}
	if got, err := l.Seen(t.Context(), "stays"); err != nil || got != Sent {
		t.Errorf("%v, %v", got, err)
	}
}

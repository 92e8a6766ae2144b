package channeltest

import (
	"errors"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest/file"
)

// Kept is the inbox of one process in a folder, with the engine of its tables.
type Kept struct {
	*inbox.Inbox
	Tables store.Engine
}

// Open opens the inbox in a folder, which is closed when the test ends, or before.
func Open(t testing.TB, dir string) *Kept {
	t.Helper()
	e, err := file.Open(vfs.At(dir), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kept{Tables: e}
	t.Cleanup(func() { _ = k.Close() })
	if k.Inbox, err = inbox.Open(t.Context(), e, inbox.Options{Shown: true}); err != nil {
		t.Fatal(err)
	}
	return k
}

// Outbox opens the outbox beside the inbox. Its caller closes it.
func (k *Kept) Outbox(t testing.TB) channel.OutboxStore {
	t.Helper()
	o, err := outbox.Open(t.Context(), k.Tables, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Close closes the inbox and the engine.
func (k *Kept) Close() error {
	var err error
	if k.Inbox != nil {
		err = k.Inbox.Close()
	}
	return errors.Join(err, k.Tables.Close())
}

package channel_test

import (
	"os"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/outboxtest"
)

// CH-56: the file passes what every store of an outbox passes.
func TestOutboxInAFile(t *testing.T) {
	dirs := map[channel.OutboxStore]string{}
	open := func(t testing.TB, dir string) channel.OutboxStore {
		t.Helper()
		store, err := channel.OpenOutboxLines(dir)
		if err != nil {
			t.Fatal(err)
		}
		dirs[store] = dir
		return store
	}
	outboxtest.Run(t, outboxtest.Store{
		Open: func(t testing.TB) channel.OutboxStore { return open(t, t.TempDir()) },
		Reopen: func(t testing.TB, o channel.OutboxStore) channel.OutboxStore { // the folder is what the disk has, and nothing is closed in order
			to := t.TempDir()
			if err := os.CopyFS(to, os.DirFS(dirs[o])); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = o.Close() })
			return open(t, to)
		},
	})
}

package file_test

import (
	"log/slog"
	"testing"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/runlog/runlogtest"
)

func TestLog(t *testing.T) {
	runlogtest.Test(t, func(t testing.TB) func(testing.TB) *runlogtest.Replica {
		root, err := vfs.At(t.TempDir()).Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		return func(t testing.TB) *runlogtest.Replica {
			l, left, err := file.Open(root, "running", file.Options{Tube: runlogtest.Tube, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r := &runlogtest.Replica{Log: l, Left: left, Crash: func() { file.Crash(l) }}
			t.Cleanup(r.Crash)
			return r
		}
	})
}

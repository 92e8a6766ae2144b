package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/ling"
)

// stuckFolder makes no names of ended runs durable before ready is closed.
type stuckFolder struct {
	vfs.Folder
	ready chan struct{}
}

func (f stuckFolder) SyncFolder(name string) error {
	if name == runsFolder {
		<-f.ready
	}
	return f.Folder.SyncFolder(name)
}

// A slow disk delays neither the end of runs nor requests for them, until maxSettling runs wait for it: then the next run does not end.
func TestSlowDiskDelaysOnlyWhatIsBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDisk(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		folder := stuckFolder{d.root, make(chan struct{})}
		d.root = folder
		s := bareService(Options{Models: new(adapter.Registry)}, d)
		if err := s.restore(time.Now()); err != nil {
			t.Fatal(err)
		}
		nothing := flow.Func("nothing", "", nil, func(context.Context, *ling.Manager, map[string]any) error { return nil })
		start := func(key string) *Run {
			t.Helper()
			sp := &spec{id: NewID(), workflow: nothing, key: key, hash: [16]byte{1}}
			sp.start.enter(startChecked)
			if earlier, err := s.claimKey(t.Context(), sp); earlier.Run != "" || err != nil {
				t.Fatal(earlier, err)
			}
			took := s.place(sp)
			if took.err != nil {
				t.Fatal(took.err)
			}
			<-took.run.done
			time.Sleep(2 * settleEvery)
			synctest.Wait()
			return took.run
		}
		running := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.running
		}
		first := start("one")
		if _, err := s.get(t.Context(), access.Local, first.ID); err != nil || running() != 0 {
			t.Errorf("%d runs wait for the disk, %v", running(), err)
		}
		for range maxSettling {
			d.settler.add(settling{NewID(), func(error) {}})
		}
		start("two")
		if running() != 1 || !d.settler.behind() {
			t.Errorf("%d runs wait for the disk", running())
		}
		close(folder.ready)
		time.Sleep(2 * settleEvery)
		synctest.Wait()
		if running() != 0 || d.settler.behind() {
			t.Errorf("%d runs still wait for the disk", running())
		}
		s.drain()
		s.interrupt(context.Background())
		s.closeJournal()
		if err := s.keys.close(); err != nil {
			t.Error(err)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
}

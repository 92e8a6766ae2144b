package tables

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// together makes puts of as many callers while none can write, and then lets them.
func together(t *testing.T, tab *Table, puts []store.Put) []error {
	t.Helper()
	errs := make([]error, len(puts))
	var wait sync.WaitGroup
	tab.mu.Lock()
	for i := range puts {
		wait.Go(func() {
			_, err := tab.Put(t.Context(), puts[i])
			errs[i] = err[0]
		})
	}
	for waiting := 0; waiting < len(puts); runtime.Gosched() {
		tab.waiting.Lock()
		waiting = len(tab.calls)
		tab.waiting.Unlock()
	}
	tab.mu.Unlock()
	wait.Wait()
	return errs
}

func TestCallersThatWaitShareAWrite(t *testing.T) { // ST-04, ST-19
	synctest.Test(t, callersThatWait) // so nothing keeps house meanwhile
}

func callersThatWait(t *testing.T) {
	d, err := vfs.InMemory().Open()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Open(t.Context(), Folder{Dir: d, Log: slog.New(slog.DiscardHandler), Owner: true}, store.TableOptions{Name: "t", Durability: store.Synced})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	var puts []store.Put
	for i := range 20 {
		puts = append(puts, store.Put{Key: fmt.Sprint("k", i/2), ID: [16]byte{byte(i + 1)}, Body: []byte("b")})
	}
	puts = append(puts, store.Put{Key: "no key!", ID: [16]byte{99}})
	before := tab.syncs.written.Load()
	stored, moved := 0, 0
	for i, err := range together(t, tab, puts) {
		switch {
		case err == nil:
			stored++
		case errors.Is(err, store.ErrMoved):
			moved++
		case i < 20 || !errors.Is(err, store.ErrInvalid):
			t.Errorf("put %d: %v", i, err)
		}
	}
	if stored != 10 || moved != 10 {
		t.Errorf("%d puts are stored and %d were refused; want one of each key", stored, moved)
	}
	if n := tab.syncs.written.Load() - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}

	// What fails, fails for all: no caller is refused for what was not written.
	tab.broken = errors.New("the disk is broken")
	for i := range puts {
		puts[i].Key = fmt.Sprint("other", i/2)
	}
	for i, err := range together(t, tab, puts[:20]) {
		if !errors.Is(err, store.ErrAway) {
			t.Errorf("put %d: %v", i, err)
		}
	}
	tab.broken = nil
	if _, err := tab.Get(t.Context(), "other0"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestAChangeOfARecordThatChangedAMomentAgoAllocatesLittle(t *testing.T) {
	d, err := vfs.InMemory().Open()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Open(t.Context(), Folder{Dir: d, Log: slog.New(slog.DiscardHandler), Owner: true}, store.TableOptions{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	n := byte(0)
	change := func() {
		n++
		if _, errs := tab.Put(t.Context(), store.Put{Key: "k", ID: [16]byte{n, 1}, After: store.AnyRev, Meta: []byte("meta")}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	change()
	if got := testing.AllocsPerRun(100, change); got > 8 {
		t.Errorf("a change allocates %v times, want at most 8", got)
	}
}

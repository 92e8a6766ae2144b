package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"
)

// syncer makes durable what was written, some time later. It knows files by name, for they may have been closed since, and a sync
// through one handle is a sync of the file.
type syncer struct {
	store *Store

	mu    sync.Mutex
	dirty map[string]map[string]bool // tape, its files
	began bool                       // the first file since the last sync has come

	wake chan struct{} // an interval begins
	end  chan struct{}
	done sync.WaitGroup
}

// maxDirty bounds the tapes that wait for the end of their turn.
const maxDirty = 1024

func (y *syncer) start(s *Store) {
	y.store = s
	y.dirty = map[string]map[string]bool{}
	if s.sync == SyncInterval {
		y.wake, y.end = make(chan struct{}, 1), make(chan struct{})
		y.done.Go(y.run)
	}
}

// run is the one goroutine of a store: it sleeps until something was written, then until the interval is over.
func (y *syncer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-y.wake:
		case <-y.end:
			return
		}
		timer.Reset(interval)
		select {
		case <-timer.C:
		case <-y.end:
			return
		}
		_ = y.syncAll() // each tape's error was logged, and keeps it from being written
	}
}

// stop ends the syncer and makes durable what is left.
func (y *syncer) stop() error {
	if y.end != nil {
		close(y.end)
		y.done.Wait()
	}
	return y.syncAll()
}

func (y *syncer) add(name, path string) {
	y.mu.Lock()
	files := y.dirty[name]
	if files == nil {
		files = make(map[string]bool, 1)
		y.dirty[name] = files
	}
	files[path] = true
	full := y.wake == nil && len(y.dirty) > maxDirty
	begin := y.wake != nil && !y.began
	y.began = true
	y.mu.Unlock()
	if begin {
		y.wake <- struct{}{} // there is room: the one before was taken before began was false again
	}
	if full {
		_ = y.syncAll()
	}
}

func (y *syncer) forget(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.dirty, name)
}

func (y *syncer) syncAll() error {
	y.mu.Lock()
	dirty := y.dirty
	y.dirty = make(map[string]map[string]bool)
	y.began = false
	y.mu.Unlock()
	return y.syncTapes(dirty)
}

// syncTapes makes the files of tapes durable, and that they are there.
func (y *syncer) syncTapes(dirty map[string]map[string]bool) error {
	if len(dirty) == 0 {
		return nil
	}
	var errs []error
	for name, files := range dirty {
		errs = append(errs, y.sync(name, files))
	}
	if err := y.store.disk.SyncFolder("."); err != nil {
		errs = append(errs, err)
		for name := range dirty {
			y.store.fail(name, err)
		}
	}
	return errors.Join(errs...)
}

func (y *syncer) sync(name string, files map[string]bool) error {
	for path := range files {
		if err := y.syncFile(path); err != nil {
			y.store.fail(name, err)
			return y.store.explain(name, err)
		}
	}
	return nil
}

// syncFile makes a file durable, and its name if it is in a folder of its own.
func (y *syncer) syncFile(name string) error {
	f, err := y.store.disk.Open(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // erased
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(y.store.synced(f), f.Close())
	if folder := path.Dir(name); err == nil && folder != "." {
		err = y.store.disk.SyncFolder(folder)
	}
	return err
}

// TurnEnded implements tape.Syncer.
func (s *Store) TurnEnded(_ context.Context, name string) error {
	if s.sync != SyncTurn {
		return nil
	}
	y := &s.syncer
	y.mu.Lock()
	files := y.dirty[name]
	delete(y.dirty, name)
	y.mu.Unlock()
	if len(files) == 0 {
		return nil
	}
	return y.syncTapes(map[string]map[string]bool{name: files})
}

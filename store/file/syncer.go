package file

import (
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
	s *Space

	mu    sync.Mutex
	dirty map[string]map[string]bool // log, its files
	began bool                       // the first file since the last sync has come

	interval time.Duration // 0: files are synced when they are asked for
	wake     chan struct{} // an interval begins
	end      chan struct{}
	done     sync.WaitGroup
}

// maxDirty bounds the logs that wait for a call of Sync.
const maxDirty = 1024

func (y *syncer) start(s *Space, interval time.Duration) {
	y.s = s
	y.dirty = map[string]map[string]bool{}
	if y.interval = interval; interval > 0 {
		y.wake, y.end = make(chan struct{}, 1), make(chan struct{})
		y.done.Go(y.run)
	}
}

// run is the one goroutine of a space: it sleeps until something was written, then until the interval is over.
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
		timer.Reset(y.interval)
		select {
		case <-timer.C:
		case <-y.end:
			return
		}
		_ = y.syncAll() // each log's error was logged, and keeps it from being written
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

// syncNow makes the logs of these names durable, or without names all.
func (y *syncer) syncNow(names []string) error {
	if len(names) == 0 {
		return y.syncAll()
	}
	dirty := make(map[string]map[string]bool, len(names))
	y.mu.Lock()
	for _, name := range names {
		if files := y.dirty[name]; files != nil {
			dirty[name] = files
			delete(y.dirty, name)
		}
	}
	y.mu.Unlock()
	return y.syncLogs(dirty)
}

func (y *syncer) syncAll() error {
	y.mu.Lock()
	dirty := y.dirty
	y.dirty = make(map[string]map[string]bool)
	y.began = false
	y.mu.Unlock()
	return y.syncLogs(dirty)
}

// syncLogs makes the files of logs durable, and that they are there.
func (y *syncer) syncLogs(dirty map[string]map[string]bool) error {
	if len(dirty) == 0 {
		return nil
	}
	var errs []error
	for name, files := range dirty {
		errs = append(errs, y.sync(name, files))
	}
	if err := y.s.disk.SyncFolder("."); err != nil {
		errs = append(errs, err)
		for name := range dirty {
			y.s.fail(name, err)
		}
	}
	return errors.Join(errs...)
}

func (y *syncer) sync(name string, files map[string]bool) error {
	for path := range files {
		if err := y.syncFile(path); err != nil {
			y.s.fail(name, err)
			return explain(err)
		}
	}
	return nil
}

// syncFile makes a file durable, and its name if it is in a folder of its own.
func (y *syncer) syncFile(name string) error {
	f, err := y.s.disk.Open(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // deleted
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(y.s.synced(f), f.Close())
	if folder := path.Dir(name); err == nil && folder != "." {
		err = y.s.disk.SyncFolder(folder)
	}
	return err
}

package run

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// settler makes durable what a disk was given, about once a second: the files of ended runs, and their names. A run that ends waits for
// nothing; so many runs share one sync of their folder, and files are synced several at a time, which a file system does with fewer turns of
// the disk. A run stays in the journal until its file is safe, so that the end of the machine takes no more of it than of one that goes on
// (FT-24).
//
// It sleeps while there is nothing to do. A file whose sync has failed is not synced again (FT-26): its callback is told.
type settler struct {
	d    *disk
	wake chan struct{} // holds one wake-up; nil where nobody is to be woken
	stop chan struct{}
	wg   sync.WaitGroup

	passing sync.Mutex // one pass at a time

	mu    sync.Mutex
	files []settling
	room  chan struct{} // closed by the next pass; nil when nobody waits for one
}

// settling is a file of a run that is not safe yet.
type settling struct {
	run  string
	then func(error) // called when it is safe, or cannot be made so; from whatever goroutine makes the pass
}

const (
	// settleEvery is how long what was written may wait to be made durable; that runs end much faster than a disk turns is why it is not 0.
	settleEvery = time.Second
	// settleAtOnce is how many files are synced at the same time.
	settleAtOnce = 8
	// maxSettling is how many may wait before those that end runs wait, too: their runs count as running until then, and a disk that does
	// not keep up comes to be too many runs.
	maxSettling = 4096
)

// start begins to settle by itself.
func (s *settler) start() {
	s.wake, s.stop = make(chan struct{}, 1), make(chan struct{})
	s.wg.Go(s.run)
	s.poke()
}

func (s *settler) run() {
	timer := time.NewTimer(settleEvery)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.stop:
			return
		}
		timer.Reset(settleEvery)
		select {
		case <-timer.C:
		case <-s.stop:
			return
		}
		s.pass()
	}
}

// close makes durable what is left.
func (s *settler) close() {
	if s.stop != nil {
		close(s.stop)
		s.wg.Wait()
		s.stop = nil
	}
	s.pass()
}

// poke says that there is something to do.
func (s *settler) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it knows, or nobody is there yet
	}
}

// add has a run's file made durable.
func (s *settler) add(f settling) {
	s.mu.Lock()
	s.files = append(s.files, f)
	s.mu.Unlock()
	s.poke()
}

// behind says whether more files wait than should.
func (s *settler) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files) >= maxSettling
}

// keepUp waits while more files wait than should.
func (s *settler) keepUp() {
	for {
		s.mu.Lock()
		if len(s.files) < maxSettling || s.wake == nil {
			s.mu.Unlock()
			return
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		<-room // of a pass, which comes: there are files
	}
}

// pass makes durable what waits.
func (s *settler) pass() {
	s.passing.Lock()
	defer s.passing.Unlock()
	s.mu.Lock()
	files, room := s.files, s.room
	s.files, s.room = nil, nil
	s.mu.Unlock()
	if len(files) > 0 {
		s.settle(files)
	}
	if room != nil {
		close(room)
	}
}

func (s *settler) settle(files []settling) {
	errs := make([]error, len(files))
	next := make(chan int, len(files))
	for i := range files {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(settleAtOnce, len(files)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = s.d.syncFile(FileOf(files[i].run))
			}
		})
	}
	wg.Wait()
	folder := s.d.root.SyncFolder(runsFolder)
	for i, f := range files {
		f.then(errors.Join(errs[i], folder))
	}
}

// syncFile makes a file durable; one that is not there any more is.
func (d *disk) syncFile(name string) error {
	f, err := d.root.Open(name, os.O_RDWR) // Windows syncs nothing that cannot be written
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

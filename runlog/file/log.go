package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// What ends take with them.
const (
	// FlushEvery is how much of a run the end of the process can take with it.
	FlushEvery = 250 * time.Millisecond
	// SyncEvery is how much more the end of the machine can.
	SyncEvery = time.Second
)

// Times and sizes that need no setting.
const (
	// retryEvery is how often a disk that has failed is tried again.
	retryEvery = 5 * time.Second
	// maxFrame is what is written at once; a single record may be larger.
	maxFrame = 1 << 20
	// segmentSize is when another file is begun, segmentAge too: what has left memory should leave the disk.
	segmentSize = 8 << 20
	segmentAge  = time.Minute
	// keepSegment is how old a file gets whose runs go on.
	keepSegment = 5 * time.Minute
	// smallLog is how long a log is written whole in place of what it folds to.
	smallLog = 64 << 10
)

// CodeNotDurable is in the lines of the log about what is not kept on disk.
const CodeNotDurable = "not_durable"

// Options are the settings of a log.
type Options struct {
	Tube func() *tube.Options // of the tubes that are made of what was left; required. From and Held are the log's.
	Log  *slog.Logger         // default none
}

// Log keeps runs in a folder. It is safe for concurrent use.
type Log struct {
	folder folder
	tube   func() *tube.Options
	log    *slog.Logger
	boot   [8]byte

	mu      sync.Mutex
	queue   []*entry        // to be looked at at once
	waiting []chan struct{} // closed when the queue has been written
	closed  bool
	wake    chan struct{} // holds one wake-up
	stop    chan struct{}
	wg      sync.WaitGroup
	end     error // of Close
	crashed bool  // in tests: nothing more is written

	// Of the goroutine.
	live     []*entry
	left     map[string]*entry // those of live that were left and that nobody has taken
	all      []*entry          // those of a pass
	handles  uint64
	file     folderFile // nil where none can be written, or need be
	segments []segment  // the last one is that of file, where there is one
	number   uint64     // of the newest segment
	frame    []byte     // what is about to be written, behind room for its head
	dirty    bool       // written and not synced
	synced   time.Time  // when it was last
	broken   bool       // the last attempt to write has failed
	retry    time.Time  // not before this time
}

var _ runlog.Log = (*Log)(nil)

// entry is a run in the log.
type entry struct {
	log     *Log
	run     runlog.Run // but for its opening
	opening atomic.Pointer[[]byte]
	head    atomic.Pointer[[]byte] // there before the state says that the run has ended
	state   atomic.Int32
	queued  bool // guarded by the log's lock

	// Of the goroutine.
	index   int // in live, from 1; 0 where it is not there
	handle  uint64
	segment uint64 // that it begins in; 0: nothing of it is written that counts
	entered bool   // it is or was in live
	left    bool   // nobody has taken it yet: what stands in its file is all there is of it
	heir    bool   // it was left: what another process has written of it is there, too
	at      tube.Place
	over    bool // its end is written
	warned  bool

	anew atomic.Bool // it is to be written from its beginning
}

var _ runlog.Reopener = (*entry)(nil)

// States of an entry. They only rise.
const (
	entryGoing   = iota // the run goes on
	entryEnded          // its head is there
	entryDropped        // it need not be here any more
)

// segment is a file.
type segment struct {
	number uint64
	size   int64
	began  time.Time
	left   bool // by a log before
}

// folder is what a log needs of a file system.
type folder interface {
	names() ([]string, error)
	open(name string) (io.ReadCloser, error)
	create(name string) (folderFile, error)
	remove(name string) error
}

type folderFile interface {
	io.WriteCloser
	Sync() error
}

// Open opens the log in the folder of a name in root, making it where it is not there, and returns what was left there by logs before,
// those that began first first. What was left stays until somebody takes it: see [runlog.Left]. Only one log may be open in a folder.
func Open(root vfs.Folder, name string, o Options) (*Log, []*runlog.Left, error) {
	l, left, err := openStopped(root, name, o)
	if err != nil {
		return nil, nil, err
	}
	l.start()
	return l, left, nil
}

// openStopped opens a log that makes no passes yet.
func openStopped(root vfs.Folder, name string, o Options) (*Log, []*runlog.Left, error) {
	if o.Tube == nil {
		panic("runlog/file: Options.Tube is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f, err := openFolder(root, name)
	if err != nil {
		return nil, nil, err
	}
	l := newLog(f, o)
	left, err := l.read()
	if err != nil {
		return nil, nil, err
	}
	return l, left, nil
}

func newLog(f folder, o Options) *Log {
	l := &Log{
		folder: f, tube: o.Tube, log: o.Log, wake: make(chan struct{}, 1), stop: make(chan struct{}), frame: make([]byte, frameHead),
		left: map[string]*entry{},
	}
	_, _ = rand.Read(l.boot[:]) // which does not fail
	return l
}

// read reads what there is, and keeps it.
func (l *Log) read() ([]*runlog.Left, error) {
	list, files, err := l.readAll()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range files {
		files[i].began, files[i].left = now, true // or all would be written anew while it is being taken
	}
	l.segments = files
	if n := len(files); n > 0 {
		l.number = files[n-1].number
	}
	var left []*runlog.Left
	for _, r := range list {
		p := r.left()
		left = append(left, p)
		e := &entry{log: l, run: runlog.Run{ID: p.ID, Tube: p.Tube}, segment: r.segment, left: true}
		e.opening.Store(&p.Opening)
		if p.Head != nil {
			e.head.Store(&p.Head)
			e.state.Store(entryEnded)
		}
		l.enter(e)
		l.left[p.ID] = e
	}
	return left, nil
}

// enter puts an entry among those that are live.
func (l *Log) enter(e *entry) {
	e.entered = true
	l.live = append(l.live, e)
	e.index = len(l.live)
	l.handles++
	e.handle = l.handles
}

// leave takes it out.
func (l *Log) leave(e *entry) {
	last := l.live[len(l.live)-1]
	l.live[e.index-1], last.index = last, e.index
	l.live[len(l.live)-1] = nil
	l.live, e.index = l.live[:len(l.live)-1], 0
}

func (l *Log) start() { l.wg.Go(l.loop) }

// Holds is false: readers see what is sent at once.
func (l *Log) Holds() bool { return false }

// Keep is that of [runlog.Log]. The run is written at once, but nobody waits for that.
func (l *Log) Keep(r runlog.Run) runlog.Entry {
	e := &entry{log: l, run: r}
	e.opening.Store(&r.Opening)
	e.run.Opening = nil
	l.enqueue(e)
	return e
}

// End is that of [runlog.Entry].
func (e *entry) End(head []byte) {
	if e.head.CompareAndSwap(nil, &head) && e.state.CompareAndSwap(entryGoing, entryEnded) {
		e.log.enqueue(e)
	}
}

// Drop is that of [runlog.Entry].
func (e *entry) Drop() {
	if e.state.Swap(entryDropped) != entryDropped {
		e.log.enqueue(e)
	}
}

// Reopen is that of [runlog.Reopener].
func (e *entry) Reopen(opening []byte) {
	e.opening.Store(&opening)
	e.anew.Store(true)
	e.log.enqueue(e)
}

func (l *Log) enqueue(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if !e.queued {
		e.queued = true
		l.queue = append(l.queue, e)
	}
	l.wakeLocked()
}

func (l *Log) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Flush is that of [runlog.Log]. What cannot be written now it does not wait for.
func (l *Log) Flush(ctx context.Context) error {
	written := make(chan struct{})
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return runlog.ErrClosed
	}
	l.waiting = append(l.waiting, written)
	l.wakeLocked()
	l.mu.Unlock()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close is that of [runlog.Log].
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		close(l.stop)
	}
	l.wg.Wait()
	return l.end
}

// loop is the goroutine. It sleeps while no run goes on.
func (l *Log) loop() {
	tick := time.NewTimer(FlushEvery)
	defer tick.Stop()
	for {
		var again <-chan time.Time
		if len(l.live) > 0 || len(l.segments) > 0 {
			again = tick.C
		}
		select {
		case <-l.wake:
			l.pass(false)
		case <-again:
			l.pass(true)
			tick.Reset(FlushEvery)
		case <-l.stop:
			if !l.crashed {
				l.pass(true)
				l.end = l.finish()
			}
			return
		}
	}
}

// pass writes what is new: of all runs, or of those that have begun or ended.
func (l *Log) pass(all bool) {
	l.mu.Lock()
	queue, waiting := l.queue, l.waiting
	l.queue, l.waiting = nil, nil
	for _, e := range queue {
		e.queued = false
	}
	l.mu.Unlock()
	defer func() {
		for _, w := range waiting {
			close(w)
		}
	}()
	for _, e := range queue {
		if before := l.left[e.run.ID]; before != nil && !e.entered {
			delete(l.left, e.run.ID)
			l.leave(before)
			e.heir = true
			l.enter(e)
		} else if !e.entered && e.state.Load() < entryDropped {
			l.enter(e)
		}
	}
	if all = all || len(waiting) > 0; all {
		l.all = append(l.all[:0], l.live...) // those that are dropped leave live meanwhile
		queue = l.all
	}
	now := time.Now()
	if err := l.ready(now); err != nil {
		l.fail(err, now)
	}
	for _, e := range queue {
		if err := l.take(e); err != nil {
			l.fail(err, now)
		}
	}
	clear(l.all)
	err := l.write()
	if err == nil && all {
		err = l.tidy(now)
	}
	if err != nil {
		l.fail(err, now)
	}
}

// finish leaves the files as they are needed after a restart.
func (l *Log) finish() error {
	if len(l.live) == 0 {
		l.clear()
		return nil
	}
	if l.file == nil {
		if l.broken {
			return fmt.Errorf("%w: the disk has failed", runlog.ErrAway)
		}
		return nil
	}
	err := l.sync(time.Now())
	if err = errors.Join(err, l.file.Close()); err != nil {
		l.log.Error("cannot sync running runs", "code", CodeNotDurable, "error", err)
	}
	return err
}

package web

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// journal keeps runs on disk as they go, for those who come back after a crash (FT-23):
//
//	running/<number>.log   what all runs have sent, as their tubes have it, in frames
//
// One goroutine looks at the tubes of all runs several times a second and writes what is new with one write: who sends does
// nothing for it and waits for nothing, and ten thousand runs take one file. A run that has ended has a file of its own as soon
// as it leaves memory, or has a key, and is dropped here. The oldest file goes when it is too old, or all take too much: the
// runs that began in it are then written anew, by what they have folded to.
//
// A file is a head (its mark, and eight random bytes) and frames: length, checksum, and records (see record). The checksum is of the
// frame's place, too, so that neither the zeros, nor the pieces of other files, nor the pages in another order that the end of a
// machine can leave are taken for one. What stands behind the first frame that is not whole is not read (FT-24).
//
// When a write or a sync fails the file is not used any more (FT-26): a sync that fails may have dropped what it was for, and one
// more would say that all is well. The runs go on; each says so in a "warning" event, and all of them are written anew into another
// file as soon as that can be done (FT-25).
type journal struct {
	folder journalFolder
	log    *slog.Logger
	boot   [8]byte

	mu      sync.Mutex
	queue   []*entry        // to be looked at at once
	waiting []chan struct{} // closed when the queue has been written
	wake    chan struct{}   // holds one wake-up
	stop    chan struct{}
	wg      sync.WaitGroup

	// Of the goroutine.
	live     []*entry
	all      []*entry // those of a pass
	handles  uint64
	file     journalFile // nil where none can be written, or need be
	segments []segment   // the last one is that of file, where there is one
	number   uint64      // of the newest segment
	frame    []byte      // what is about to be written, behind room for its head
	dirty    bool        // written and not synced
	synced   time.Time   // when it was last
	broken   bool        // the last attempt to write has failed
	retry    time.Time   // not before this time
}

// entry is a run in the journal.
type entry struct {
	run    *run
	state  atomic.Int32
	queued bool // guarded by the journal's lock

	// Of the goroutine.
	index   int // in live, from 1; 0 where it is not there
	handle  uint64
	segment uint64 // that it begins in; 0: nothing of it is written that counts
	at      tube.Place
	over    bool // its end is written
	warned  bool
}

// States of an entry. They only rise.
const (
	entryGoing   = iota
	entryEnded   // the run's outcome is there
	entryDropped // it need not be here any more
)

// segment is a file.
type segment struct {
	number uint64
	size   int64
	began  time.Time
}

// journalFolder is what a journal needs of a file system.
type journalFolder interface {
	names() ([]string, error)
	open(name string) (io.ReadCloser, error)
	create(name string) (journalFile, error)
	remove(name string) error
}

type journalFile interface {
	io.WriteCloser
	Sync() error
}

// Times and sizes that need no setting.
const (
	// flushEvery is how much of a run the end of the process can take with it.
	flushEvery = 250 * time.Millisecond
	// syncEvery is how much more the end of the machine can.
	syncEvery = time.Second
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

	journalFolderName = "running"
	segmentSuffix     = ".log"
	segmentMark       = "lingrun1"
	frameHead         = 8
	maxFrameRead      = 1 << 30
)

// Kinds of records: one byte, then the run's number in this journal, then what it has, behind its length.
const (
	recordRun   = 'r' // length, opening as JSON; base. All that came before of this run is of no use.
	recordPiece = 'p' // number of the block's first event, offset in it, length, bytes
	recordEnd   = 'e' // length, header as JSON
	recordDrop  = 'd' // nothing: it is somewhere else
)

// opening is what a journal says of a run in its beginning.
type opening struct {
	header
	From    uint64    `json:"from,omitempty"`    // number of its first event
	Attempt int       `json:"attempt,omitempty"` // how often it was begun before
	Again   *ask      `json:"again,omitempty"`   // what it is run again from; nil for one that is not
	Caller  string    `json:"caller,omitempty"`  // whom it is counted for
	Role    tool.Role `json:"role,omitempty"`    // of who has started it
}

// codeNotDurable is said of what is not kept on disk.
const codeNotDurable = "not_durable"

func newJournal(folder journalFolder, log *slog.Logger) *journal {
	j := &journal{folder: folder, log: log, wake: make(chan struct{}, 1), stop: make(chan struct{}), frame: make([]byte, frameHead)}
	_, _ = rand.Read(j.boot[:]) // which does not fail
	return j
}

// start begins to write. What is in the folder is removed when what runs now is written.
func (j *journal) start(old []segment) {
	j.segments = old
	if n := len(old); n > 0 {
		j.number = old[n-1].number
	}
	j.wg.Go(j.run)
}

// add takes a run in. It is written at once, but nobody waits for that.
func (j *journal) add(r *run) {
	if j == nil {
		return
	}
	r.entry = &entry{run: r}
	j.enqueue(r.entry)
}

// ended has the rest of a run written, and what came of it.
func (j *journal) ended(r *run) { j.raise(r, entryEnded) }

// drop forgets a run.
func (j *journal) drop(r *run) { j.raise(r, entryDropped) }

func (j *journal) raise(r *run, state int32) {
	if j == nil || r.entry == nil || r.entry.state.Load() >= state {
		return
	}
	r.entry.state.Store(state)
	j.enqueue(r.entry)
}

func (j *journal) enqueue(e *entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !e.queued {
		e.queued = true
		j.queue = append(j.queue, e)
	}
	j.wakeLocked()
}

func (j *journal) wakeLocked() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// flush waits until all that runs have sent is written, or cannot be.
func (j *journal) flush() {
	if j == nil {
		return
	}
	written := make(chan struct{})
	j.mu.Lock()
	j.waiting = append(j.waiting, written)
	j.wakeLocked()
	j.mu.Unlock()
	select {
	case <-written:
	case <-j.stop:
	}
}

// close writes what there is, for good.
func (j *journal) close() {
	if j == nil {
		return
	}
	close(j.stop)
	j.wg.Wait()
}

// run is the goroutine. It sleeps while no run goes on.
func (j *journal) run() {
	tick := time.NewTimer(flushEvery)
	defer tick.Stop()
	for {
		var again <-chan time.Time
		if len(j.live) > 0 || len(j.segments) > 0 {
			again = tick.C
		}
		select {
		case <-j.wake:
			j.pass(false)
		case <-again:
			j.pass(true)
			tick.Reset(flushEvery)
		case <-j.stop:
			j.pass(true)
			j.end()
			return
		}
	}
}

// pass writes what is new: of all runs, or of those that have begun or ended.
func (j *journal) pass(all bool) {
	j.mu.Lock()
	queue, waiting := j.queue, j.waiting
	j.queue, j.waiting = nil, nil
	for _, e := range queue {
		e.queued = false
	}
	j.mu.Unlock()
	defer func() {
		for _, w := range waiting {
			close(w)
		}
	}()
	for _, e := range queue {
		if e.index == 0 && e.state.Load() < entryDropped {
			j.live = append(j.live, e)
			e.index = len(j.live)
			j.handles++
			e.handle = j.handles
		}
	}
	if all = all || len(waiting) > 0; all {
		j.all = append(j.all[:0], j.live...) // those that are dropped leave live meanwhile
		queue = j.all
	}
	now := time.Now()
	if err := j.ready(now); err != nil {
		j.fail(err, now)
	}
	for _, e := range queue {
		if err := j.take(e); err != nil {
			j.fail(err, now)
		}
	}
	clear(j.all)
	err := j.write()
	if err == nil && all {
		err = j.tidy(now)
	}
	if err != nil {
		j.fail(err, now)
	}
}

// ready sees to it that there is a file to write to.
func (j *journal) ready(now time.Time) error {
	if j.file != nil {
		s := &j.segments[len(j.segments)-1]
		if s.size < segmentSize && (now.Sub(s.began) < segmentAge || s.size <= int64(len(segmentMark)+len(j.boot))) {
			return nil
		}
		if err := j.sync(now); err != nil {
			return err
		}
		err := j.file.Close()
		j.file = nil
		if err != nil {
			return err
		}
	}
	if len(j.live) == 0 || j.broken && now.Before(j.retry) {
		return nil
	}
	// The number of a file that could not be made is not used again.
	j.number++
	f, err := j.folder.create(segmentName(j.number))
	if err != nil {
		return err
	}
	j.file = f
	j.segments = append(j.segments, segment{number: j.number, began: now})
	return j.put(append([]byte(segmentMark), j.boot[:]...))
}

func segmentName(number uint64) string { return fmt.Sprintf("%012d", number) + segmentSuffix }

// take appends what is new of a run to the frame.
func (j *journal) take(e *entry) error {
	state := e.state.Load() // before the tube is looked at: behind an end, nothing comes
	if state == entryDropped {
		if e.index > 0 {
			last := j.live[len(j.live)-1]
			j.live[e.index-1], last.index = last, e.index
			j.live[len(j.live)-1] = nil
			j.live, e.index = j.live[:len(j.live)-1], 0
			if e.segment > 0 && j.file != nil {
				j.frame = binary.AppendUvarint(append(j.frame, recordDrop), e.handle)
			}
		}
		return nil
	}
	if j.file == nil {
		j.warn(e)
		return nil
	}
	if e.segment == 0 {
		e.at, e.over = tube.Place{}, false
		if err := j.begin(e); err != nil {
			return err
		}
	}
	for {
		piece, ok := e.run.tube.Piece(&e.at)
		if !ok {
			if err := j.begin(e); err != nil {
				return err
			}
			continue
		}
		if len(piece.Data) == 0 {
			break
		}
		j.frame = binary.AppendUvarint(append(j.frame, recordPiece), e.handle)
		j.frame = binary.AppendUvarint(j.frame, piece.First)
		j.frame = binary.AppendUvarint(j.frame, uint64(piece.Offset))
		j.frame = binary.AppendUvarint(j.frame, uint64(len(piece.Data)))
		j.frame = append(j.frame, piece.Data...)
		if len(j.frame) >= maxFrame {
			if err := j.write(); err != nil {
				return err
			}
		}
	}
	if state == entryEnded && !e.over {
		e.over = true
		head, err := json.Marshal(headerOf(e.run))
		if err != nil {
			return err
		}
		j.frame = binary.AppendUvarint(append(j.frame, recordEnd), e.handle)
		j.frame = binary.AppendUvarint(j.frame, uint64(len(head)))
		j.frame = append(j.frame, head...)
	}
	return nil
}

// begin appends the beginning of a run: what it is, and what it has come to, as far as the pieces that follow do not say it.
func (j *journal) begin(e *entry) error {
	r := e.run
	o := opening{header: header{Run: r.id, Owner: r.owner, subject: r.of, Keyed: r.keyed, Began: r.began.Round(0)}}
	o.Session = r.session
	if r.again != nil {
		o.From, o.Attempt, o.Again, o.Caller, o.Role = r.again.from, r.again.attempt, &r.again.ask, r.caller, r.again.role
	}
	head, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var base []byte
	if !r.tube.Compact(smallLog) {
		base = r.tube.AppendBase(nil, &e.at)
	}
	j.frame = binary.AppendUvarint(append(j.frame, recordRun), e.handle)
	j.frame = binary.AppendUvarint(j.frame, uint64(len(head)))
	j.frame = append(j.frame, head...)
	j.frame = binary.AppendUvarint(j.frame, uint64(len(base)))
	j.frame = append(j.frame, base...)
	e.segment = j.number
	if len(j.frame) >= maxFrame {
		return j.write()
	}
	return nil
}

// write writes the frame.
func (j *journal) write() error {
	payload := j.frame[frameHead:]
	if len(payload) == 0 || j.file == nil {
		j.frame = j.frame[:frameHead]
		return nil
	}
	at := j.segments[len(j.segments)-1].size
	binary.LittleEndian.PutUint32(j.frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(j.frame[4:], checksum(j.boot, j.number, at, payload))
	err := j.put(j.frame)
	if cap(j.frame) > 2*maxFrame { // it was for something that seldom comes
		j.frame = make([]byte, frameHead)
	}
	j.frame = j.frame[:frameHead]
	return err
}

func (j *journal) put(text []byte) error {
	n, err := j.file.Write(text)
	j.segments[len(j.segments)-1].size += int64(n)
	j.dirty = true
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is of a frame and of where it stands.
func checksum(boot [8]byte, number uint64, at int64, payload []byte) uint32 {
	var place [24]byte
	copy(place[:], boot[:])
	binary.LittleEndian.PutUint64(place[8:], number)
	binary.LittleEndian.PutUint64(place[16:], uint64(at))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, payload)
}

func (j *journal) sync(now time.Time) error {
	if j.file == nil || !j.dirty {
		return nil
	}
	j.dirty, j.synced = false, now
	return j.file.Sync()
}

// tidy syncs what is due, and removes what is not needed any more.
func (j *journal) tidy(now time.Time) error {
	if now.Sub(j.synced) >= syncEvery {
		if err := j.sync(now); err != nil {
			return err
		}
	}
	if len(j.live) == 0 {
		return j.clear()
	}
	if j.file == nil {
		return nil
	}
	if j.broken {
		// All that goes on stands in the newest file. Those before are of no use once it is safe.
		if err := j.sync(now); err != nil {
			return err
		}
		j.broken = false
		j.log.Info("running runs are kept on disk again")
		j.removeUpTo(len(j.segments) - 1)
		return nil
	}
	for n := len(j.segments) - 1; n > 0; n-- {
		oldest := j.segments[0]
		if now.Sub(oldest.began) < keepSegment && !j.tooMuch() {
			return nil
		}
		for _, e := range slices.Clone(j.live) { // taking one that was dropped takes it out
			if e.segment <= oldest.number {
				e.segment = 0
				if err := j.take(e); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(j.write(), j.sync(now)); err != nil {
			return err
		}
		j.removeUpTo(1)
	}
	return nil
}

// tooMuch says whether the files take more than a few times what the runs do.
func (j *journal) tooMuch() bool {
	var stored, needed int64
	for _, s := range j.segments {
		stored += s.size
	}
	if stored <= 4*segmentSize {
		return false
	}
	for _, e := range j.live {
		needed += int64(e.run.tube.Bytes())
	}
	return stored > 4*needed
}

// removeUpTo removes the oldest files, so many of them.
func (j *journal) removeUpTo(n int) {
	for _, s := range j.segments[:n] {
		if err := j.folder.remove(segmentName(s.number)); err != nil {
			j.log.Warn("what is not needed any more cannot be removed", "file", segmentName(s.number), "error", err)
		}
	}
	j.segments = slices.Delete(j.segments, 0, n)
}

// clear removes all files: nothing goes on.
func (j *journal) clear() error {
	var err error
	if j.file != nil {
		err = j.file.Close() // a file that goes
		j.file, j.dirty = nil, false
	}
	if err == nil && j.broken {
		j.broken = false
	}
	j.removeUpTo(len(j.segments))
	return nil
}

// fail gives the file up. The runs go on, and are written anew when another one can be.
func (j *journal) fail(err error, now time.Time) {
	if !j.broken {
		j.log.Error("running runs are not kept on disk; after a crash now, what they have made would be lost", "code", codeNotDurable, "error", err)
	}
	j.broken, j.retry = true, now.Add(retryEvery)
	if j.file != nil {
		_ = j.file.Close() // whatever that says, the file is not used any more
		j.file, j.dirty = nil, false
	}
	j.frame = j.frame[:frameHead]
	for _, e := range j.live {
		e.segment = 0
		j.warn(e)
	}
}

// warn tells a run's clients, once, that it is not kept.
func (j *journal) warn(e *entry) {
	if e.warned || !j.broken {
		return
	}
	e.warned = true
	if m := e.run.manager.Load(); m != nil {
		_ = m.SendEvent("warning", map[string]string{
			"code": codeNotDurable, "message": "the server cannot keep this run on disk now: if it crashes, the run is lost",
		})
	}
}

// end leaves the files as they are needed after a restart.
func (j *journal) end() {
	if len(j.live) == 0 {
		_ = j.clear()
		return
	}
	if j.file == nil {
		return
	}
	err := j.sync(time.Now())
	if err = errors.Join(err, j.file.Close()); err != nil {
		j.log.Error("running runs may not be kept on disk", "code", codeNotDurable, "error", err)
	}
}

// onDisk is the folder of a running server.
type onDiskJournal struct{ root *os.Root }

func openJournalFolder(root *os.Root) (journalFolder, error) {
	if err := root.MkdirAll(journalFolderName, folderMode); err != nil {
		return nil, err
	}
	return onDiskJournal{root}, nil
}

func (d onDiskJournal) path(name string) string { return journalFolderName + "/" + name }

func (d onDiskJournal) names() ([]string, error) {
	folder, err := d.root.Open(journalFolderName)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (d onDiskJournal) open(name string) (io.ReadCloser, error) { return d.root.Open(d.path(name)) }

func (d onDiskJournal) create(name string) (journalFile, error) {
	return d.root.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
}

func (d onDiskJournal) remove(name string) error {
	err := d.root.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// segmentNumber is that of a file's name.
func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// Package file keeps the journal of a server's channels, and the messages that wait for an answer, in folders.
//
// A journal is a row of segments, files of records that only grow at their end. What changes of a record, its state, lies at its
// beginning and is written over. A segment goes when all of its events have been settled for a day.
//
// # Guarantees of a journal
//   - An event that was accepted is durable: one sync serves all who wait for one.
//   - What was settled survives the end of the process at once, and that of the machine with the next sync. An event that was
//     settled in between runs again, unless the ledger shows that it was answered.
//   - Claims end with their process. One that did not end before it is an attempt of its event, as a release is: an event that ends the
//     process is not run for ever.
//   - What a crash or a full disk has left at the end is cut off when the journal is opened, and damage elsewhere costs the records
//     that it is in. Neither keeps a journal from being opened.
//   - Memory and disk are bounded: in events that wait, in keys that are known, and in bytes.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

// JournalOptions of a journal. The zero value has the defaults.
type JournalOptions struct {
	Pending      int          // events that are not settled, beyond which none is accepted: 10 000
	PendingBytes int64        // of them: 64 MiB
	Keys         int          // events that are known: 200 000; the oldest that are settled go first
	Bytes        int64        // of all segments: 256 MiB; the same
	Log          *slog.Logger // what is wrong with the files; nil is nowhere
}

const (
	defaultPending      = 10_000
	defaultPendingBytes = 64 << 20
	defaultKeys         = 200_000
	defaultBytes        = 256 << 20

	keyLife       = 24 * time.Hour
	syntheticLife = time.Minute

	// segmentAge is how long a segment takes records: an event is removed that much later than it might be.
	segmentAge = 15 * time.Minute
	// segmentParts is of how many segments a journal consists that is as large as it may be.
	segmentParts = 16
)

// Journal is a channel.Journal. It is also a channel.Ledger, a channel.BatchAccepter and a channel.Eraser.
type Journal struct {
	o      JournalOptions
	root   vfs.Folder
	lock   vfs.File
	log    *slog.Logger
	ledger channel.LedgerCloser
	memory *channel.MemoryJournal // of events that nobody has accepted

	// commit is held by the one who changes which segments there are, or appends to the last. It is taken before mu and layout.
	commit chan struct{}
	gone   []string // names of files that are to be removed; guarded by commit
	// layout is held while a record's state is written over, and exclusively while records move.
	layout sync.RWMutex

	mu       sync.Mutex
	closed   bool
	failed   error // a disk that could not keep what it was given: nothing is accepted until the journal is opened again
	index    map[id]slot
	queue    []*request
	segments []*segment // the oldest first; the last takes records
	pending  int
	bytes    int64 // of pending records
	order    uint64
	timer    *time.Timer // for the next segment that goes
	sweeping sync.WaitGroup
	warned   bool // that keys are forgotten before their time
	buffer   []byte
}

// ErrInUse says that another process, or somebody else in this one, has the folder.
var ErrInUse = errors.New("another server uses this folder; stop it, or give this server its own folder")

var (
	_ channel.Journal       = (*Journal)(nil)
	_ channel.Ledger        = (*Journal)(nil)
	_ channel.BatchAccepter = (*Journal)(nil)
	_ channel.Eraser        = (*Journal)(nil)
)

// slot is what is known of a key.
type slot struct {
	event *event   // nil: settled
	in    *segment // where its record is
	until int64    // it is forgotten then, in Unix nanoseconds; of one that is settled
}

// event is one that is not settled. Its fields are guarded by the journal's mu; where its record is, by layout too.
type event struct {
	key     channel.EventKey
	id      id
	order   uint64
	at      time.Time
	attempt uint8
	size    int32
	in      *segment
	offset  int64
	claim   *claim   // nil: nobody's
	request *request // nil: durable
}

// request waits for its record to be durable.
type request struct {
	event *event
	raw   []byte
	err   error
	done  chan struct{}
}

// OpenJournal opens the journal in a folder, which is made where it is not there. One process at a time uses it.
func OpenJournal(dir string, o JournalOptions) (*Journal, error) { return openJournal(vfs.At(dir), o) }

func openJournal(dir vfs.Dir, o JournalOptions) (*Journal, error) {
	o.Pending = cmp.Or(max(o.Pending, 0), defaultPending)
	o.PendingBytes = cmp.Or(max(o.PendingBytes, 0), defaultPendingBytes)
	o.Keys = cmp.Or(max(o.Keys, 0), defaultKeys)
	o.Bytes = cmp.Or(max(o.Bytes, 0), defaultBytes)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	root, err := dir.Open()
	if err != nil {
		return nil, fmt.Errorf("journal folder: %w", vfs.Explain(err))
	}
	j := &Journal{
		o: o, root: root, log: o.Log, commit: make(chan struct{}, 1), index: map[id]slot{},
		memory: channel.NewJournal(nil),
	}
	if err := j.open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal: %w", vfs.Explain(err)), j.closeFiles())
	}
	j.mu.Lock()
	j.armLocked(time.Now())
	j.mu.Unlock()
	return j, nil
}

func (j *Journal) open(dir vfs.Dir) (err error) {
	if j.lock, err = j.root.Open("lock", os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	switch ok, err := j.lock.TryLock(); {
	case err != nil:
		return err
	case !ok:
		return ErrInUse
	}
	if j.ledger, err = channel.OpenLedgerIn(dir, j.log); err != nil {
		return err
	}
	return j.load()
}

// closeFiles lets everything go.
func (j *Journal) closeFiles() error {
	var errs []error
	for _, s := range j.segments {
		errs = append(errs, s.file.Close())
	}
	if j.ledger != nil {
		errs = append(errs, j.ledger.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Unlock(), j.lock.Close())
	}
	return errors.Join(append(errs, j.root.Close())...)
}

// Close makes everything durable and ends the journal. Events that are claimed then run again when it is opened, and what ran of them
// is none of their attempts.
func (j *Journal) Close() error {
	defer j.sweeping.Wait()
	j.commit <- struct{}{}
	defer func() { <-j.commit }()
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	if j.timer != nil && j.timer.Stop() {
		j.sweeping.Done()
	}
	queue := j.queue
	j.queue = nil
	j.mu.Unlock()
	for _, r := range queue {
		j.reject(r, channel.ErrJournalClosed)
	}
	j.layout.Lock()
	defer j.layout.Unlock()
	errs := []error{j.unbegin(), j.removeFiles()}
	for _, s := range j.segments {
		if s.dirty.Load() {
			_ = s.sync()
		}
		errs = append(errs, s.lost)
	}
	return errors.Join(append(errs, j.closeFiles())...)
}

// unbegin writes of events that are claimed that they do not run any more: a server that ends as it should is no fault of theirs. The
// caller holds layout.
func (j *Journal) unbegin() error {
	var errs []error
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for _, s := range j.index {
		if ev := s.event; ev != nil && ev.claim != nil {
			errs = append(errs, ev.in.write(ev.offset, state{attempt: ev.attempt, at: now}))
		}
	}
	return errors.Join(errs...)
}

// findLocked is what is known of a key now.
func (j *Journal) findLocked(k id, now time.Time) (slot, bool) {
	s, ok := j.index[k]
	if ok && s.event == nil && now.UnixNano() >= s.until {
		delete(j.index, k)
		return slot{}, false
	}
	return s, ok
}

// Accept implements [channel.Journal].
func (j *Journal) Accept(ctx context.Context, k channel.EventKey, raw []byte) (isNew bool, err error) {
	var news [1]bool
	if err := j.accept(ctx, []channel.JournalEntry{{Key: k, Raw: raw}}, news[:]); err != nil {
		return false, err
	}
	return news[0], nil
}

// AcceptAll implements [channel.BatchAccepter].
func (j *Journal) AcceptAll(ctx context.Context, entries []channel.JournalEntry) (isNew []bool, err error) {
	isNew = make([]bool, len(entries))
	if err := j.accept(ctx, entries, isNew); err != nil {
		return nil, err
	}
	return isNew, nil
}

func (j *Journal) accept(ctx context.Context, entries []channel.JournalEntry, isNew []bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var all, own []*request // that are waited for, and of them those that are new
	now := time.Now()
	j.mu.Lock()
	var err error
	for i, e := range entries {
		var r *request
		if r, isNew[i], err = j.enqueueLocked(e, now); err != nil {
			break
		}
		if r != nil {
			all = append(all, r)
		}
		if isNew[i] {
			own = append(own, r)
		}
	}
	if err != nil {
		for _, r := range own {
			j.queue = slices.DeleteFunc(j.queue, func(q *request) bool { return q == r })
		}
	}
	j.mu.Unlock()
	if err != nil {
		for _, r := range own {
			j.reject(r, err)
		}
		return err
	}
	var errs []error
	for _, r := range all {
		errs = append(errs, j.wait(r))
	}
	return errors.Join(errs...)
}

// enqueueLocked puts an event in the queue. Of one that is known and not yet durable, it is the request to wait for: it must not be
// acknowledged before.
func (j *Journal) enqueueLocked(e channel.JournalEntry, now time.Time) (r *request, isNew bool, err error) {
	switch {
	case j.closed:
		return nil, false, channel.ErrJournalClosed
	case j.failed != nil:
		return nil, false, j.failed
	case len(e.Raw) > maxRaw:
		return nil, false, fmt.Errorf("an event of %d bytes is too large for the journal; expected at most %d", len(e.Raw), maxRaw)
	}
	k := idOf(e.Key)
	if s, known := j.findLocked(k, now); known {
		if s.event != nil {
			return s.event.request, false, nil
		}
		return nil, false, nil
	}
	if state, err := j.memory.Peek(context.Background(), e.Key); err != nil || state != channel.ClaimNone {
		return nil, false, err
	}
	size := recordSize(e.Key, e.Raw)
	if j.pending >= j.o.Pending || j.bytes+int64(size) > j.o.PendingBytes {
		return nil, false, channel.ErrJournalFull
	}
	j.order++
	ev := &event{key: e.Key, id: k, order: j.order, at: now, size: int32(size)}
	r = &request{event: ev, raw: e.Raw, done: make(chan struct{})}
	ev.request = r
	j.index[k] = slot{event: ev}
	j.pending++
	j.bytes += int64(size)
	j.queue = append(j.queue, r)
	return r, true, nil
}

// wait waits until a request is durable: by doing it, together with all others that wait, or by somebody else's doing. It cannot be
// canceled: what is being written is accepted.
func (j *Journal) wait(r *request) error {
	select {
	case <-r.done:
		return r.err
	case j.commit <- struct{}{}:
	}
	select {
	case <-r.done:
	default:
		j.flush()
	}
	<-j.commit
	<-r.done
	return r.err
}

// reject ends a request that was not written.
func (j *Journal) reject(r *request, err error) {
	j.mu.Lock()
	if s := j.index[r.event.id]; s.event == r.event {
		delete(j.index, r.event.id)
		j.pending--
		j.bytes -= int64(r.event.size)
	}
	j.mu.Unlock()
	r.err = err
	close(r.done)
}

// flush writes the queue with one write and one sync. The caller holds commit.
func (j *Journal) flush() {
	now := time.Now()
	j.mu.Lock()
	queue := j.queue
	j.queue = nil
	j.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	s, err := j.current(now)
	if err == nil {
		buf := j.buffer[:0]
		for _, r := range queue {
			r.event.in, r.event.offset = s, s.size+int64(len(buf))
			buf = appendRecord(buf, r.event.key, r.event.at, r.raw)
		}
		if cap(buf) <= maxBuffer {
			j.buffer = buf
		}
		err = s.append(buf)
	}
	if err != nil {
		err = fmt.Errorf("keep an event: %w", vfs.Explain(err))
		if errors.Is(err, errSync) {
			j.log.Error("cannot sync the journal; refusing events until a restart", "error", err)
			j.mu.Lock()
			j.failed = err
			j.mu.Unlock()
		}
		for _, r := range queue {
			j.reject(r, err)
		}
		return
	}
	j.mu.Lock()
	for _, r := range queue {
		r.event.request = nil
		s.live++
		s.ids = append(s.ids, r.event.id)
		s.last = max(s.last, now.UnixNano())
		j.index[r.event.id] = slot{event: r.event, in: s}
	}
	j.armLocked(now)
	full := len(j.index) > j.o.Keys || j.sizeLocked() > j.o.Bytes
	j.mu.Unlock()
	for _, r := range queue {
		close(r.done)
	}
	if full {
		j.retire(now)
	}
}

// current is the segment that takes records. The caller holds commit.
func (j *Journal) current(now time.Time) (*segment, error) {
	if n := len(j.segments); n > 0 {
		s := j.segments[n-1]
		if now.Sub(s.begun) < segmentAge && s.size < j.o.Bytes/segmentParts && len(s.ids) < j.o.Keys/segmentParts+1 {
			return s, nil
		}
	}
	number := uint64(1)
	if n := len(j.segments); n > 0 {
		number = j.segments[n-1].number + 1
	}
	s, err := j.create(number, now)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.segments = append(j.segments, s)
	j.mu.Unlock()
	return s, nil
}

func (j *Journal) sizeLocked() (n int64) {
	for _, s := range j.segments {
		n += s.size
	}
	return n
}

// Claim implements [channel.Journal].
func (j *Journal) Claim(ctx context.Context, k channel.EventKey) (channel.Claim, channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, channel.ClaimNone, err
	}
	c, state, err := j.take(ctx, k)
	own, ok := c.(*claim)
	if !ok {
		return c, state, err
	}
	if err := own.begin(); err != nil { // it would be an event of which nobody sees that it ends processes
		return nil, channel.ClaimNone, errors.Join(fmt.Errorf("note that an event runs: %w", vfs.Explain(err)), own.drop())
	}
	return own, state, nil
}

// take gives a claim in memory.
func (j *Journal) take(ctx context.Context, k channel.EventKey) (channel.Claim, channel.ClaimState, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, channel.ClaimNone, channel.ErrJournalClosed
	}
	s, known := j.findLocked(idOf(k), time.Now())
	switch {
	case !known:
		return j.memory.Claim(ctx, k)
	case s.event == nil:
		return nil, channel.ClaimSettled, nil
	case s.event.claim != nil:
		return nil, channel.ClaimTaken, nil
	case s.event.request != nil: // not yet durable: whoever accepts it runs it
		return nil, channel.ClaimAccepted, nil
	}
	c := &claim{journal: j, event: s.event}
	s.event.claim = c
	return c, channel.ClaimTaken, nil
}

// Peek implements [channel.Journal].
func (j *Journal) Peek(ctx context.Context, k channel.EventKey) (channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return channel.ClaimNone, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return channel.ClaimNone, channel.ErrJournalClosed
	}
	s, known := j.index[idOf(k)]
	switch {
	case !known || s.event == nil && time.Now().UnixNano() >= s.until:
		return j.memory.Peek(ctx, k)
	case s.event == nil:
		return channel.ClaimSettled, nil
	case s.event.claim != nil:
		return channel.ClaimTaken, nil
	}
	return channel.ClaimAccepted, nil
}

// Pending implements [channel.Journal].
func (j *Journal) Pending(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		j.mu.Lock()
		var waiting []*event
		for _, s := range j.index {
			if s.event != nil && s.event.claim == nil && s.event.request == nil {
				waiting = append(waiting, s.event)
			}
		}
		j.mu.Unlock()
		slices.SortFunc(waiting, func(a, b *event) int { return cmp.Compare(a.order, b.order) })
		for _, ev := range waiting {
			err := context.Cause(ctx)
			var raw []byte
			if err == nil {
				raw, err = j.read(ev)
			}
			if errors.Is(err, errDamaged) {
				j.lose(ev, err)
				continue
			}
			if errors.Is(err, errGone) {
				continue
			}
			j.mu.Lock()
			e := channel.JournalEntry{Key: ev.key, Raw: raw, At: ev.at, Attempt: int(ev.attempt)}
			j.mu.Unlock()
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// errGone says that an event was settled or erased in this moment.
var errGone = errors.New("the event is settled")

// read reads an event's raw form.
func (j *Journal) read(ev *event) ([]byte, error) {
	j.layout.RLock()
	defer j.layout.RUnlock()
	j.mu.Lock()
	gone := j.closed || j.index[ev.id].event != ev
	j.mu.Unlock()
	if gone {
		return nil, errGone
	}
	r, err := ev.in.read(ev.offset)
	if err != nil {
		return nil, err
	}
	return r.raw, nil
}

// lose settles an event whose record was damaged since it was written.
func (j *Journal) lose(ev *event, err error) {
	j.log.Error("dropped an unreadable event", "channel", ev.key.Channel, "error", err)
	j.mu.Lock()
	c := &claim{journal: j, event: ev}
	if ev.claim == nil && j.index[ev.id].event == ev {
		ev.claim = c
	}
	j.mu.Unlock()
	_ = c.Commit(context.Background(), channel.OutcomeFailed) // it is not found in the next start either
}

// Stored yields all events that are kept, those that are settled too, the oldest first, with their outcome: for those who ask why
// a message was not answered.
func (j *Journal) Stored(ctx context.Context) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		j.mu.Lock()
		segments := slices.Clone(j.segments)
		j.mu.Unlock()
		for _, s := range segments {
			for offset := int64(0); ; {
				if err := context.Cause(ctx); err != nil {
					yield(Stored{}, err)
					return
				}
				r, next, err := j.next(s, offset)
				if err != nil {
					yield(Stored{}, err)
					return
				}
				if next == 0 {
					break
				}
				offset = next
				e := channel.JournalEntry{Key: r.key, Raw: r.raw, At: r.at, Attempt: int(r.state.attempt)}
				if !yield(Stored{e, r.state.settled, r.state.outcome}, nil) {
					return
				}
			}
		}
	}
}

// Stored is an event that is kept.
type Stored struct {
	channel.JournalEntry
	Settled bool
	Outcome channel.Outcome // of one that is settled
}

// next reads the first whole record from an offset on; 0 behind it is the end.
func (j *Journal) next(s *segment, offset int64) (record, int64, error) {
	j.layout.RLock()
	defer j.layout.RUnlock()
	j.mu.Lock()
	gone := j.closed || !slices.Contains(j.segments, s)
	size := s.size
	j.mu.Unlock()
	if gone {
		return record{}, 0, nil
	}
	for offset < size {
		r, err := s.read(offset)
		if err == nil {
			return r, offset + int64(r.size), nil
		}
		if !errors.Is(err, errDamaged) {
			return record{}, 0, err
		}
		offset += align
	}
	return record{}, 0, nil
}

// claim is the right to run an event.
type claim struct {
	journal *Journal
	event   *event
}

// Key implements channel.KeyedClaim.
func (c *claim) Key() channel.EventKey { return c.event.key }

// begin writes that the event runs. That it survives the end of the process is enough.
func (c *claim) begin() error {
	return c.mark(true)
}

// drop gives the claim back as if it had never been.
func (c *claim) drop() error {
	err := c.mark(false)
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	if c.event.claim == c {
		c.event.claim = nil
	}
	return err
}

func (c *claim) mark(begun bool) error {
	j, ev := c.journal, c.event
	j.layout.RLock()
	defer j.layout.RUnlock()
	j.mu.Lock()
	if ev.claim != c || j.index[ev.id].event != ev || j.closed {
		j.mu.Unlock()
		return nil
	}
	in, offset := ev.in, ev.offset
	st := state{attempt: ev.attempt, begun: begun, at: time.Now()}
	j.mu.Unlock()
	return in.write(offset, st)
}

// Again implements channel.Repeater.
func (c *claim) Again() bool {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	_, again := channel.RetryAfter(int(c.event.attempt) + 1)
	return !j.closed && c.event.claim == c && again
}

// Commit implements [channel.Claim]. The event is settled for this process whatever the disk says.
func (c *claim) Commit(ctx context.Context, o channel.Outcome) error {
	return c.end(ctx, func(ev *event) state {
		return state{settled: true, outcome: o, attempt: ev.attempt}
	})
}

// Release implements [channel.Claim].
func (c *claim) Release(ctx context.Context, cause error) error {
	return c.end(ctx, func(ev *event) state {
		attempt := ev.attempt
		if channel.ReleaseCounts(cause) {
			attempt++
			if _, again := channel.RetryAfter(int(attempt)); !again {
				return state{settled: true, outcome: channel.OutcomeFailed, attempt: attempt}
			}
		}
		return state{attempt: attempt}
	})
}

// end ends a claim, and makes its event what next says.
func (c *claim) end(ctx context.Context, next func(*event) state) error {
	j, ev := c.journal, c.event
	j.layout.RLock()
	defer j.layout.RUnlock()
	now := time.Now()
	j.mu.Lock()
	if ev.claim != c || j.index[ev.id].event != ev {
		j.mu.Unlock()
		return nil
	}
	if j.closed {
		j.mu.Unlock()
		return channel.ErrJournalClosed
	}
	st := next(ev)
	st.at = now
	ev.claim = nil
	in, offset := ev.in, ev.offset
	if st.settled {
		j.settledLocked(ev, now)
	} else {
		ev.attempt = st.attempt
	}
	j.mu.Unlock()
	err := in.write(offset, st)
	if st.settled {
		err = errors.Join(err, j.ledger.Forget(ctx, ev.key.String()))
	}
	if err != nil {
		return fmt.Errorf("keep what became of an event: %w", vfs.Explain(err))
	}
	return nil
}

// settledLocked keeps of an event its key alone.
func (j *Journal) settledLocked(ev *event, now time.Time) {
	until := now.Add(keyLife)
	if ev.key.Synthetic {
		until = ev.at.Add(syntheticLife)
	}
	j.index[ev.id] = slot{in: ev.in, until: until.UnixNano()}
	j.pending--
	j.bytes -= int64(ev.size)
	ev.in.live--
	ev.in.last = max(ev.in.last, now.UnixNano())
	j.armLocked(now)
}

// armLocked sets the timer for the segment that goes next.
func (j *Journal) armLocked(now time.Time) {
	if j.timer != nil || j.closed {
		return
	}
	var first *segment
	for _, s := range j.segments {
		if s.live == 0 && (first == nil || s.last < first.last) {
			first = s
		}
	}
	if first == nil {
		return
	}
	j.sweeping.Add(1)
	j.timer = time.AfterFunc(time.Unix(0, first.last).Add(keyLife).Sub(now), func() {
		defer j.sweeping.Done()
		j.sweep()
	})
}

// sweep removes the segments whose events have all been settled for a day.
func (j *Journal) sweep() {
	j.commit <- struct{}{}
	defer func() { <-j.commit }()
	now := time.Now()
	j.layout.Lock()
	defer j.layout.Unlock()
	j.mu.Lock()
	j.timer = nil
	if j.closed {
		j.mu.Unlock()
		return
	}
	var old []*segment
	for _, s := range j.segments {
		if s.live == 0 && now.UnixNano()-s.last >= int64(keyLife) {
			old = append(old, s)
		}
	}
	j.mu.Unlock()
	j.remove(old)
	j.mu.Lock()
	j.armLocked(now)
	j.mu.Unlock()
}

// remove removes segments, and the keys that are in them. The caller holds commit and layout.
func (j *Journal) remove(old []*segment) {
	if len(old) == 0 {
		return
	}
	j.mu.Lock()
	for _, s := range old {
		for _, k := range s.ids {
			if at, ok := j.index[k]; ok && at.in == s && at.event == nil {
				delete(j.index, k)
			}
		}
	}
	j.segments = slices.DeleteFunc(slices.Clone(j.segments), func(s *segment) bool { return slices.Contains(old, s) })
	j.mu.Unlock()
	for _, s := range old {
		_ = s.file.Close() // nothing in it is needed
		j.gone = append(j.gone, s.name())
	}
	if err := j.removeFiles(); err != nil {
		j.log.Warn("cannot remove old journal segments; retrying", "error", err)
	}
}

// removeFiles removes the files of the segments that were given up, in their order: an event of one may have ended in a later one. The
// caller holds commit.
func (j *Journal) removeFiles() error {
	if len(j.gone) == 0 {
		return nil
	}
	for _, name := range j.gone {
		if err := j.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := j.root.SyncFolder("."); err != nil {
		return err
	}
	j.gone = nil
	return nil
}

// retire removes the oldest segments before their time, until the journal is as small as it is to be. What waits in them moves to
// the last. The caller holds commit.
func (j *Journal) retire(now time.Time) {
	j.layout.Lock()
	defer j.layout.Unlock()
	for range j.segments { // each once: where more events wait than keys are kept, moving them makes no room
		j.mu.Lock()
		full := len(j.index) > j.o.Keys || j.sizeLocked() > j.o.Bytes
		var oldest *segment
		if len(j.segments) > 1 {
			oldest = j.segments[0]
		}
		warn := full && oldest != nil && !j.warned
		j.warned = j.warned || warn
		j.mu.Unlock()
		if !full || oldest == nil {
			return
		}
		if warn {
			j.log.Warn("inbox is full; forgetting events younger than a day", "keys", j.o.Keys, "bytes", j.o.Bytes)
		}
		if err := j.move(oldest, now); err != nil {
			j.log.Warn("cannot remove a journal segment", "segment", oldest.name(), "error", err)
			return
		}
		j.remove([]*segment{oldest})
	}
}

// move copies what waits in a segment to the last one, and makes it durable there. The caller holds commit and layout.
func (j *Journal) move(from *segment, now time.Time) error {
	j.mu.Lock()
	var waiting []*event
	for _, k := range from.ids {
		if s := j.index[k]; s.event != nil && s.event.in == from {
			waiting = append(waiting, s.event)
		}
	}
	j.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b *event) int { return cmp.Compare(a.order, b.order) })
	to, err := j.current(now)
	if err != nil || to == from {
		return errors.Join(err, errIf(to == from, "it is the only one"))
	}
	var buf []byte
	offsets := make([]int64, 0, len(waiting))
	moved := waiting[:0]
	for _, ev := range waiting {
		r, err := from.read(ev.offset)
		if errors.Is(err, errDamaged) {
			defer j.lose(ev, err)
			continue
		}
		if err != nil {
			return err
		}
		start := len(buf)
		offsets = append(offsets, to.size+int64(start))
		buf = appendRecord(buf, r.key, r.at, r.raw)
		putState(buf[start:], state{attempt: ev.attempt, begun: ev.claim != nil, at: now})
		moved = append(moved, ev)
	}
	if err := to.append(buf); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, ev := range moved {
		ev.in, ev.offset = to, offsets[i]
		j.index[ev.id] = slot{event: ev, in: to}
		from.live--
		to.live++
		to.ids = append(to.ids, ev.id)
	}
	return nil
}

func errIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

// Erase implements [channel.Eraser]: nothing of the events is left on the disk.
func (j *Journal) Erase(ctx context.Context, match func(channel.EventKey) bool) error {
	if err := j.memory.Erase(ctx, match); err != nil {
		return err
	}
	j.commit <- struct{}{}
	defer func() { <-j.commit }()
	j.layout.Lock()
	defer j.layout.Unlock()
	j.mu.Lock()
	closed, segments := j.closed, slices.Clone(j.segments)
	j.mu.Unlock()
	if closed {
		return channel.ErrJournalClosed
	}
	errs := []error{j.removeFiles()}
	for _, s := range segments {
		keys, err := s.erase(match)
		errs = append(errs, err)
		j.mu.Lock()
		for _, k := range keys {
			switch at, known := j.index[idOf(k)]; {
			case !known || at.in != s:
				continue
			case at.event != nil:
				at.event.claim = nil
				j.pending--
				j.bytes -= int64(at.event.size)
				s.live--
			}
			delete(j.index, idOf(k))
		}
		j.mu.Unlock()
		for _, k := range keys {
			errs = append(errs, j.ledger.Forget(ctx, k.String()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("erase events: %w", vfs.Explain(err))
	}
	return nil
}

// Waiting counts the events that are not settled, by channel.
func (j *Journal) Waiting() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := map[string]int{}
	for _, s := range j.index {
		if s.event != nil {
			n[s.event.key.Channel]++
		}
	}
	return n
}

// Sending implements [channel.Ledger].
func (j *Journal) Sending(ctx context.Context, event string) error {
	return j.ledger.Sending(ctx, event)
}

// Sent implements [channel.Ledger].
func (j *Journal) Sent(ctx context.Context, event string, state channel.ReceiptState) error {
	return j.ledger.Sent(ctx, event, state)
}

// Seen implements [channel.Ledger].
func (j *Journal) Seen(ctx context.Context, event string) (channel.ReceiptState, error) {
	return j.ledger.Seen(ctx, event)
}

// Shown implements [channel.Shower].
func (j *Journal) Shown(ctx context.Context, event string, s channel.ShownText) error {
	return j.ledger.Shown(ctx, event, s)
}

// LastShown implements [channel.Shower].
func (j *Journal) LastShown(ctx context.Context, event string) (channel.ShownText, error) {
	return j.ledger.LastShown(ctx, event)
}

// Forget implements [channel.Ledger].
func (j *Journal) Forget(ctx context.Context, event string) error {
	return j.ledger.Forget(ctx, event)
}

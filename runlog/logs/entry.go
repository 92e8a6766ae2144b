package logs

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// entry is a run that this replica writes.
type entry struct {
	log     *Log
	run     runlog.Run
	name    string // of its log
	handle  uint64
	ended   atomic.Pointer[[]byte] // the head
	opening atomic.Pointer[[]byte] // another one, to be written
	dropped atomic.Bool
	left    atomic.Bool
	queued  bool // guarded by the pump's lock

	// Of the pump's goroutine.
	known bool // is among its entries
	over  bool // nothing more is written
	// note is the revision of its record in the table running; 0: it has none. It is the batch's goroutine's, while there is one.
	note     uint64
	removing bool   // it was dropped before it was closed
	opened   bool   // its beginning is stored, or about to be
	from     uint64 // number of its first event
	whole    bool   // the tube has all of it, as far as that fits
	lacked   int    // how often the store had less of it than it has acknowledged
	at       tube.Place
	leap     uint64 // the number that events go on with; 0: they just go on

	rev  store.Rev
	last uint64 // number of its log's last entry
	head head   // of its log

	since     uint64      // number of the first page that has something of the run behind its log; 0: none has
	paged     []byte      // what pages have
	owed      time.Time   // when that is to be in the run's log
	followers []*follower // who is sent what is stored

	// What is being stored.
	inPage [2]int // from where to where it is in the page's body
	fresh  []byte // the records of a batch that are in no page
	end    uint64 // the events below it are in it, or stored
	first  bool   // the beginning is in it
	other  bool   // an opening is in it
	final  bool   // the head is in it
	plain  bool   // nothing but pieces is in it

	phase  phase
	due    time.Time // when the phase ends
	place  int       // in the pump's heap, from 1
	pace   pace
	sentAt time.Time // since when it is being stored
	warned bool      // that the store is away
}

// phase is what an entry waits for.
type phase int

const (
	phaseIdle  phase = iota // something to be sent
	phasePause              // the time between two appends to pass
	phasePage               // the page to be stored that it is in
	phaseOwn                // a batch of its log to be stored
)

const (
	// maxBatch is when no more pieces are put into a batch. A piece is one block.
	maxBatch = 256 << 10
	// maxInPage is the most that a page has of a run: more is worth a batch of the run's own.
	maxInPage = 8 << 10
	// A run gets a batch of its own after so long and a random part of it more, so that runs that began together do not all do so at once,
	// or when pages have so much of it. Those of as long as ownTogether do it at once, which costs the store less.
	ownEvery, maxPaged = 3 * time.Second, 32 << 10
	ownTogether        = 50 * time.Millisecond
)

// End is that of [runlog.Entry].
func (e *entry) End(head []byte) {
	if head == nil {
		head = []byte{}
	}
	if e.ended.CompareAndSwap(nil, &head) {
		e.log.pump.look(e)
	}
}

// Reopen is that of [runlog.Reopener].
func (e *entry) Reopen(opening []byte) {
	e.opening.Store(&opening)
	e.log.pump.look(e)
}

// Drop is that of [runlog.Entry].
func (e *entry) Drop() {
	if e.dropped.CompareAndSwap(false, true) {
		e.log.pump.look(e)
	}
}

// Leave is that of [runlog.Leaver]. What is on its way may be stored still.
func (e *entry) Leave() {
	if e.left.CompareAndSwap(false, true) {
		e.log.pump.look(e)
	}
}

// look writes what is new, if nothing is on its way.
func (e *entry) look(now time.Time) {
	if e.dropped.Load() && e.known {
		e.forget()
		return
	}
	e.leave()
	if e.over || e.phase > phasePause {
		return
	}
	if !e.pace.ready(now) {
		e.wait(phasePause, e.pace.next)
		return
	}
	e.write(now)
}

// leave writes no more of a run that was left.
func (e *entry) leave() {
	if e.left.Load() && e.phase <= phasePause && !e.over {
		e.log.pump.page.leave(e)
		e.close(nil)
	}
}

// write writes what is new, and what only pages have if that is due.
func (e *entry) write(now time.Time) {
	e.phase = phaseIdle
	fresh, due := e.collect(), len(e.paged) > 0 && !now.Before(e.owed)
	e.leave() // it may be what the run has ended of, and nothing of that is written
	if e.over || len(fresh) == 0 && !due {
		if !e.over {
			e.owes()
		}
		return
	}
	page := &e.log.pump.page
	page.writes++
	e.pace.spend(len(fresh) > 0, now)
	e.sentAt = now
	e.log.pump.storing++
	if !due && page.takes(e, fresh) {
		e.phase = phasePage
		page.put(e, fresh)
		return
	}
	e.own(fresh)
}

// collect makes records of what is new; none if there is nothing. They are there until it is called again, for any entry: memory that is
// used again at once is faster than each entry's own.
func (e *entry) collect() []byte {
	head := e.ended.Load() // before the tube is looked at: behind an end, nothing comes
	b := e.log.pump.fresh[:0]
	e.first, e.other, e.final = false, false, false
	if !e.opened {
		e.opened, e.first = true, true
		b = binary.AppendUvarint(append(b, recordRun), e.from)
		b = appendText(b, e.run.Opening)
		e.end = e.from
	} else if e.leap > 0 {
		b = binary.AppendUvarint(append(b, recordLeap), e.leap)
		e.end, e.leap = e.leap, 0
	}
	if other := e.opening.Swap(nil); other != nil {
		b = appendText(append(b, recordOther), *other)
		e.other, e.run.Opening = true, *other
	}
	special := len(b) > 0
	for len(b) < maxBatch {
		piece, ok := e.run.Tube.Piece(&e.at)
		if !ok {
			// Cannot be: what is not shown does not leave the tube's log.
			e.lost(errors.New("what is not stored has left the log"))
			return nil
		}
		if len(piece.Data) == 0 {
			break
		}
		b = binary.AppendUvarint(append(b, recordPiece), piece.First)
		b = binary.AppendUvarint(b, uint64(piece.Offset))
		b = appendText(b, piece.Data)
		e.end = piece.End
	}
	if head != nil && len(b) < maxBatch {
		b = appendText(append(b, recordEnd), *head)
		e.final = true
	}
	if e.plain = !special && !e.final; cap(b) <= 2*maxBatch {
		e.log.pump.fresh = b
	}
	return b
}

// inBody is what the entry has in a page's body.
func (e *entry) inBody(body []byte) []byte { return body[e.inPage[0]:e.inPage[1]] }

// paginated goes on behind a page that is stored and has fresh of the run.
func (e *entry) paginated(fresh []byte, n uint64, now time.Time) {
	if e.since == 0 {
		e.since, e.owed = n, e.log.pump.page.owed(now)
	}
	e.paged = append(e.paged, fresh...)
	e.push(fresh)
	e.shown(now)
	if e.phase == phaseIdle && !e.over {
		e.owes()
	}
}

// owes has what only pages have be in the run's log when it is time. It may be looked at before, from when it was in other phases: to leave
// that as it is costs less.
func (e *entry) owes() {
	if len(e.paged) > 0 && (e.place == 0 || e.due.After(e.owed)) {
		e.wait(phaseIdle, e.owed)
	}
}

// own stores what is collected in the run's log, behind what pages have.
func (e *entry) own(fresh []byte) {
	p := &e.log.pump
	records := make([]byte, 1, 1+len(e.paged)+len(fresh))
	records = append(append(records, e.paged...), fresh...)
	e.fresh = records[len(records)-len(fresh):]
	h := head{
		replica: e.log.options.Replica, run: e.handle, life: p.page.life, page: p.page.last,
		begin: e.head.begin, opening: e.head.opening,
	}
	n := e.last + 1
	if e.first {
		h.begin, h.opening = n, n
	}
	if e.other {
		h.opening = n
	}
	if e.final {
		h.end = n
	}
	e.phase = phaseOwn
	b := store.Batch{ID: newID(), After: e.rev, Entries: entriesOf(records), Head: h.append(nil)}
	p.batches.add(func() { e.append(b, h) })
}

// stored goes on behind a batch that is stored.
func (e *entry) stored(info store.Info, h head, now time.Time) {
	fresh := e.fresh
	if !e.answered(false) {
		return
	}
	e.rev, e.last, e.head = info.Rev, info.Last, h
	if e.paged, e.since = e.paged[:0], 0; cap(e.paged) > 2*maxPaged {
		e.paged = nil
	}
	if len(fresh) > 0 { // else followers have it from pages
		e.push(fresh)
	}
	e.shown(now)
}

// shown has readers see what is stored, and goes on.
func (e *entry) shown(now time.Time) {
	e.phase = phaseIdle
	if e.warned {
		e.log.log.Info("run is stored again", slog.String("run", e.run.ID), slog.Duration("away", now.Sub(e.sentAt)))
		e.warned = false
	}
	e.run.Tube.Show(e.end)
	if e.final {
		e.unnote()
		e.close(nil)
		return
	}
	if len(e.log.pump.waiting) > 0 { // before more is on its way
		e.log.pump.flushed(e)
	}
	if e.run.Tube.Unshown() > 0 || e.ended.Load() != nil || e.opening.Load() != nil || e.left.Load() || e.dropped.Load() {
		e.look(now)
	}
}

func (e *entry) wait(next phase, until time.Time) {
	e.phase = next
	e.log.pump.set(e, until)
}

// checkStoring tells a run that it has not been stored for long.
func (e *entry) checkStoring(now time.Time) {
	if e.phase > phasePause && !e.warned && now.Sub(e.sentAt) >= awayAfter {
		e.warned = true
		e.log.log.Warn("cannot store a run yet", slog.String("run", e.run.ID))
		e.trouble(runlog.ErrAway)
	}
}

func (e *entry) trouble(err error) {
	if e.run.Trouble != nil {
		e.run.Trouble(err)
	}
}

// clean reports whether the events below n are stored, and the end if there is one.
func (e *entry) clean(n uint64) bool {
	if e.over {
		return e.phase != phaseOwn
	}
	return e.opened && e.phase <= phasePause && e.run.Tube.Len() >= n && e.ended.Load() == nil && e.opening.Load() == nil
}

// answered goes on behind a batch that is not on its way any more. It reports false if the run was dropped meanwhile. theirs says that it
// is another replica's.
func (e *entry) answered(theirs bool) bool {
	p := &e.log.pump
	p.storing--
	p.unset(e)
	e.phase, e.fresh = phaseIdle, nil
	if !e.over {
		return true
	}
	delete(p.entries, e.handle)
	if theirs {
		e.known = false
		e.unnote()
	} else {
		e.forget()
	}
	p.flushed(e)
	return false
}

// maxLacked is how often a store may have less of a run than it has acknowledged.
const maxLacked = 20

// errLacked says that a store has less of a run than it has acknowledged, which cannot be stored again.
var errLacked = errors.New("the store has lost it")

// rewrite stores a run from its beginning behind what the store has of it, which is less than it has acknowledged: its servers did not end
// as they should. Those who have read something of it pass over what they know.
func (e *entry) rewrite(have *store.Info, now time.Time) {
	if e.lacked++; !e.whole || e.lacked > maxLacked {
		e.lost(errLacked)
		return
	}
	e.log.log.Warn("the store has lost what it had of a run; storing the run again", slog.String("run", e.run.ID))
	e.rev, e.last, e.head, e.note = have.Rev, have.Last, head{}, 0
	e.opened, e.at, e.paged, e.since = false, tube.Place{}, nil, 0
	e.look(now)
}

// fenced gives the run to the replica that has adopted it.
func (e *entry) fenced() {
	e.log.log.Warn("another replica took over a run", slog.String("run", e.run.ID))
	e.final = false
	e.unnote()
	e.close(runlog.ErrFenced)
}

// lost gives the run up.
func (e *entry) lost(why error) {
	e.log.log.Error("lost a stored run", slog.String("run", e.run.ID), slog.Any("error", why))
	e.final = false
	e.close(runlog.ErrLost)
}

// unnote takes the run out of the table running.
func (e *entry) unnote() { e.log.pump.unnote(e.log.options.Replica, e.run.ID, e.note) }

// close writes no more of the run.
func (e *entry) close(err error) {
	if e.over {
		return
	}
	p := &e.log.pump
	e.over, e.paged, e.since = true, nil, 0
	p.unset(e)
	e.run.Tube.WhenSent(nil)
	if !e.final { // who follows it finds in the store who has it now
		e.push(nil)
	}
	e.followers = nil
	if err != nil {
		e.trouble(err)
	}
	if e.final { // stays known to who may drop it
		e.run.Opening = nil
	}
	if e.phase != phaseOwn {
		delete(p.entries, e.handle)
		p.flushed(e)
	}
}

// forget removes what is stored of the run, when nothing of it is on its way any more.
func (e *entry) forget() {
	theirs := e.over && !e.final && !e.removing // it was fenced, or left
	e.removing = true
	e.close(nil)
	if e.phase == phaseOwn {
		return // answered comes back to it
	}
	if e.known = false; theirs {
		return
	}
	e.unnote()
	e.log.pump.remove(e)
}

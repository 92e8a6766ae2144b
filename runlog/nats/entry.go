package nats

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// entry is a run that this replica writes.
type entry struct {
	log     *Log
	run     runlog.Run
	subject string
	handle  uint64
	ended   atomic.Pointer[[]byte] // the head
	opening atomic.Pointer[[]byte] // another one, to be written
	dropped atomic.Bool
	left    atomic.Bool
	queued  bool // guarded by the pump's lock

	// Of the pump's goroutine.
	known  bool // is among its entries
	over   bool // nothing more is written
	noted  bool // it is stored who runs it
	opened bool // its beginning is stored, or about to be
	at     tube.Place
	other  bool   // see flagOther
	leap   uint64 // the number that events go on with; 0 where they just go on

	last  uint64 // sequence of the run's last message
	life  uint64 // of the pages that it names
	begin uint64 // sequence of the one it begins with
	batch uint64

	pages    uint64    // how many have something of the run, since its last message
	since    uint64    // sequence of the first of them
	paged    []byte    // what that is
	owed     time.Time // when it is to be in a message of its own
	followed time.Time // until then by another replica: it is not put into pages
	asks     []string  // who wants to know when it is in a message of its own

	// What is being stored.
	inPage  [2]int // from where to where it is in the page's body
	records []byte // of the batch that has a message of its own; nil where there is none
	from    int    // in them, of the part that is on its way
	part    uint64
	end     uint64 // the events below it are in the batch or before
	final   bool   // the head is in it
	first   bool   // the beginning is in it
	plain   bool   // nothing but pieces is in it
	named   uint64 // the life that it names

	phase    phase
	asked    uint64    // number of the question that is answered next
	due      time.Time // when the phase ends
	place    int       // in the pump's heap, from 1
	pace     pace
	attempts int
	sentAt   time.Time // what is on its way
	failing  time.Time // since when
	warned   bool      // that the servers are away
	missing  int       // how often the last message was not what it must be
}

// phase is what an entry waits for.
type phase int

const (
	phaseIdle  phase = iota // something to be sent
	phasePause              // the time between two appends to pass
	phasePage               // the page to be stored that it is in
	phaseNote               // the note to be stored
	phaseStore              // the message to be stored
	phaseAsk                // to hear which is the last message
	phaseRetry              // the next attempt
)

// maxMissing is how often a server may say that it has not what it said it had, before that is believed.
const maxMissing = 20

// errWrongLast is the code of a message that does not follow the one that it expects.
const errWrongLast = 10071

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

// look writes what is new, where nothing is on its way.
func (e *entry) look(now time.Time) {
	if e.dropped.Load() && e.known {
		e.forget()
		return
	}
	e.leave(now)
	if e.over || e.phase != phaseIdle {
		return
	}
	if !e.pace.ready(now) {
		e.wait(phasePause, e.pace.next)
		return
	}
	e.write(now)
}

// leave writes no more of a run that was left.
func (e *entry) leave(now time.Time) {
	if e.left.Load() && e.phase <= phasePause && !e.over {
		e.log.pump.page.leave(e, now)
		e.close(nil)
	}
}

// write writes what is new, and what is only in pages where that is due.
func (e *entry) write(now time.Time) {
	fresh, due := e.collect(), len(e.paged) > 0 && !now.Before(e.owed)
	e.leave(now) // it may be what the run has ended of, and nothing of that is written
	if e.over || len(fresh) == 0 && !due {
		if !e.over {
			e.owes()
		}
		return
	}
	page := &e.log.pump.page
	page.writes++
	e.pace.spend(len(fresh) > 0, now)
	if !due && page.takes(e, fresh, now) {
		e.phase = phasePage
		page.put(e, fresh)
		return
	}
	e.own(fresh, now)
}

// own stores what is collected in a message of the run's own, and what is in pages before it.
func (e *entry) own(fresh []byte, now time.Time) {
	if len(e.paged) > 0 {
		e.records, e.paged = append(e.paged, fresh...), e.records[:0]
	} else {
		e.records = append(e.records[:0], fresh...)
	}
	e.batch++
	e.from, e.part = 0, 0
	e.store(now)
}

// fresh is what the entry has in a page's body.
func (e *entry) fresh(body []byte) []byte { return body[e.inPage[0]:e.inPage[1]] }

// paginated goes on behind a page that is stored with what was fresh.
func (e *entry) paginated(fresh []byte, seq uint64, now time.Time) {
	if e.pages == 0 {
		e.since, e.owed = seq, e.log.pump.page.owed(now)
	}
	e.pages++
	e.paged = append(e.paged, fresh...)
	if len(e.asks) > 0 {
		e.owed = now
	}
	e.phase = phaseIdle
	e.shown(now)
	if e.phase == phaseIdle && !e.over {
		e.owes()
	}
}

// owes has what is in pages be in a message of the run's own when it is time. It may be looked at before, from when it was in other phases:
// to leave that as it is costs less.
func (e *entry) owes() {
	if len(e.paged) > 0 && (e.place == 0 || e.due.After(e.owed)) {
		e.wait(phaseIdle, e.owed)
	}
}

// collect makes a batch of what is new, which is empty where there is nothing. It is there until the next one is made: memory that is used
// again at once is faster than each entry's own.
func (e *entry) collect() []byte {
	head := e.ended.Load() // before the tube is looked at: behind an end, nothing comes
	b := e.log.pump.fresh[:0]
	e.first, e.final, e.plain = false, false, false
	if !e.opened {
		e.opened, e.first = true, true
		next := e.run.Tube.Len()
		b = binary.AppendUvarint(append(b, recordRun), next)
		b = appendText(b, e.run.Opening)
		e.end = next
	} else if e.leap > 0 {
		b = binary.AppendUvarint(append(b, recordLeap), e.leap)
		e.end, e.leap = e.leap, 0
	}
	if other := e.opening.Swap(nil); other != nil {
		b = appendText(append(b, recordOther), *other)
		e.other = true
	}
	special := len(b) > 0
	for len(b) < maxBatch {
		piece, ok := e.run.Tube.Piece(&e.at)
		if !ok {
			// Cannot be: what is not shown does not leave the log.
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

// store sends the part that is next.
func (e *entry) store(now time.Time) {
	if !e.noted {
		e.note(now)
		return
	}
	part := e.records[e.from:]
	page := &e.log.pump.page
	e.named = page.life
	h := head{id: e.id(), begin: e.begin, before: e.last, life: e.named, page: page.last}
	if len(part) > e.log.largest {
		part = part[:e.log.largest]
		h.flags |= flagMore
	}
	if e.final {
		h.flags |= flagEnded
	}
	if e.other {
		h.flags |= flagOther
	}
	if e.first {
		h.begin = 0
		if e.part > 0 {
			h.begin = e.begin
		}
	}
	m := client.NewMsg(e.subject)
	m.Header[expectLast] = []string{strconv.FormatUint(e.last, 10)}
	m.Data = append(h.append(make([]byte, 0, 64+len(part))), part...)
	e.ask(phaseStore, m, now)
}

// expectLast is the header that makes a message the fence.
const expectLast = "Nats-Expected-Last-Subject-Sequence"

func (e *entry) id() id { return id{e.log.cluster.Replica(), e.handle, e.batch, e.part} }

// note writes down that this replica has the run, before anything of it can be seen.
func (e *entry) note(now time.Time) {
	e.ask(phaseNote, e.log.note(e.log.cluster.Replica(), e.run.ID), now)
}

// ask sends a message whose answer is waited for.
func (e *entry) ask(next phase, m *client.Msg, now time.Time) {
	e.asked++
	m.Reply = e.log.pump.prefix + strconv.FormatUint(e.handle, 36) + "." + strconv.FormatUint(e.asked, 36)
	e.sentAt = now
	if err := e.log.conn.PublishMsg(m); err != nil {
		e.retry(now, err)
		return
	}
	// Servers that are too busy to answer in time are not asked ever more often.
	e.wait(next, now.Add(e.log.ackWait<<min(e.attempts, 3)))
}

func (e *entry) wait(next phase, until time.Time) {
	e.phase = next
	e.log.pump.set(e, until)
}

// retry makes another attempt later: it is not known whether the last one has done anything.
func (e *entry) retry(now time.Time, err error) {
	if e.failing.IsZero() {
		e.failing = now
	}
	if !e.warned && now.Sub(e.failing) >= awayAfter {
		e.warned = true
		e.log.log.Warn("cannot store a run yet", slog.String("run", e.run.ID), slog.Any("error", err))
		e.trouble(runlog.ErrAway)
	}
	wait := min(firstRetry<<min(e.attempts, 10), lastRetry)
	e.attempts++
	e.asked++ // what is answered now is too late: the next attempt hears it again
	e.wait(phaseRetry, now.Add(wait))
}

func (e *entry) trouble(err error) {
	if e.run.Trouble != nil {
		e.run.Trouble(err)
	}
}

var errNoAnswer = errors.New("no answer")

// rung is called when the phase has taken its time.
func (e *entry) rung(now time.Time) {
	switch e.phase {
	case phasePage: // when it is stored, it is looked at again
	case phasePause, phaseIdle:
		e.phase = phaseIdle
		e.look(now)
	case phaseRetry:
		e.store(now)
	case phaseNote, phaseStore, phaseAsk:
		e.retry(now, errNoAnswer)
	}
}

// answer takes what a server says.
func (e *entry) answer(m *client.Msg, now time.Time) {
	if m.Header.Get("Status") != "" { // nobody is there to store it
		e.retry(now, errNoAnswer)
		return
	}
	switch e.phase {
	case phaseNote:
		if _, _, err := parseAck(m.Data); err != nil {
			e.retry(now, err)
			return
		}
		e.noted = true
		e.store(now)
	case phaseStore:
		seq, code, err := parseAck(m.Data)
		switch {
		case err == nil:
			if e.attempts == 0 {
				e.log.pump.page.answered(now.Sub(e.sentAt))
			}
			e.stored(seq, now)
		case code == errWrongLast:
			q := client.NewMsg(lastRequest(e.log.runs.name))
			q.Data = lastOf(e.subject)
			e.ask(phaseAsk, q, now)
		default:
			e.retry(now, err)
		}
	case phaseAsk:
		e.compare(m.Data, now)
	}
}

// compare finds out from the run's last message what became of the one that was refused.
func (e *entry) compare(answer []byte, now time.Time) {
	seq, data, err := parseLast(answer)
	switch {
	case errors.Is(err, runlog.ErrUnknown):
		seq = 0
	case err != nil:
		e.retry(now, err)
		return
	}
	if seq > e.last {
		if h, _, err := parse(data); err == nil && h.id == e.id() {
			e.named = h.life // an earlier attempt may have had another one
			e.stored(seq, now)
			return
		}
		e.log.log.Warn("another replica took over a run", slog.String("run", e.run.ID))
		e.close(runlog.ErrFenced)
		return
	}
	if seq < e.last {
		if e.missing++; e.missing >= maxMissing {
			e.lost(errors.New("the servers have lost it"))
			return
		}
	}
	e.retry(now, errors.New("the message was refused"))
}

// stored goes on behind a message that is stored.
func (e *entry) stored(seq uint64, now time.Time) {
	e.last = seq
	if e.first && e.part == 0 {
		e.begin = seq
	}
	if e.warned {
		e.log.log.Info("run is stored again", slog.String("run", e.run.ID), slog.Duration("away", now.Sub(e.failing)))
	}
	e.attempts, e.missing, e.failing, e.warned = 0, 0, time.Time{}, false
	e.from += min(e.log.largest, len(e.records)-e.from)
	e.part++
	if e.from < len(e.records) {
		e.store(now)
		return
	}
	if cap(e.records) > 2*maxBatch || len(e.records) < cap(e.records)/4 && cap(e.records) > 4<<10 { // it was for something that seldom comes
		e.records = nil
	}
	e.life, e.pages, e.paged = e.named, 0, e.paged[:0]
	for _, to := range e.asks {
		e.reply(to)
	}
	e.asks = nil
	e.phase = phaseIdle
	e.log.pump.unset(e)
	e.shown(now)
}

// shown has readers see what is stored, and goes on.
func (e *entry) shown(now time.Time) {
	e.run.Tube.Show(e.end)
	if e.final {
		e.log.unnote(e.log.cluster.Replica(), e.run.ID)
		e.close(nil)
		return
	}
	if e.run.Tube.Unshown() > 0 || len(e.asks) > 0 || e.ended.Load() != nil || e.opening.Load() != nil || e.left.Load() {
		e.look(now)
	}
	if len(e.log.pump.waiting) > 0 {
		e.log.pump.flushed(e)
	}
}

// clean says whether the events below n are stored, and the end where there is one.
func (e *entry) clean(n uint64) bool {
	return e.over || e.opened && e.phase <= phasePause && e.run.Tube.Len() >= n && e.ended.Load() == nil && e.opening.Load() == nil
}

// lost gives the run up.
func (e *entry) lost(why error) {
	e.log.log.Error("lost a stored run", slog.String("run", e.run.ID), slog.Any("error", why))
	e.close(runlog.ErrLost)
}

// close writes no more of the run.
func (e *entry) close(err error) {
	if e.over {
		return
	}
	e.over, e.phase, e.records, e.paged, e.asks = true, phaseIdle, nil, nil, nil
	e.log.pump.unset(e)
	e.run.Tube.WhenSent(nil)
	if err != nil {
		e.trouble(err)
	}
	if e.final { // stays known to who may drop it
		e.run.Opening = nil
	}
	delete(e.log.pump.entries, e.handle)
	e.log.pump.flushed(e)
}

// forget removes what is stored of the run.
func (e *entry) forget() {
	fenced := e.over && !e.final
	e.close(nil)
	e.known = false
	if fenced {
		return // it is somebody else's
	}
	e.log.unnote(e.log.cluster.Replica(), e.run.ID)
	m := client.NewMsg("$JS.API.STREAM.PURGE." + e.log.runs.name)
	m.Data = purgeOf(e.subject)
	if err := e.log.conn.PublishMsg(m); err != nil {
		e.log.log.Debug("old run stays until it expires", slog.String("run", e.run.ID), slog.Any("error", err))
	}
}

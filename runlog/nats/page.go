package nats

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
)

// A page is a message with what several runs have sent, in a stream of its own:
//
//	kind     1 byte: page or seal; no page is stored behind a seal
//	version  1 byte
//	floor    uvarint: what pages of lower sequences have is all in messages of runs
//	before   uvarint: sequence of the page before, 0 where there is none; of a seal always
//
// and then, in a page, for each run
//
//	run      uvarint: which of the replica's runs
//	after    uvarint: sequence of the run's own message that this comes behind
//	number   uvarint, from 1: of what pages have behind that message
//	records  length and bytes: pieces
const (
	kindPage    = 'P'
	kindSeal    = 'S'
	pageVersion = 1
)

const (
	// pageEvery is how long a page is collected. Readers see what is in it half of that later, in the mean.
	pageEvery = 1400 * time.Microsecond
	// restSlack is how much longer it is where nothing more is sent.
	restSlack = pageEvery / 2
	// busyFor is how long it is watched how much is written before there are pages, or none any more: where there are fewer in busyIn, or
	// on their way at the same time, each is written at once.
	busyFor, busyWrites, busyIn = 20 * time.Millisecond, 3, time.Millisecond
	// maxInPage is the most that a page has of a run: what is larger is worth a message. maxPage is when a page is full.
	maxInPage, maxPage = 4 << 10, 256 << 10
	// Of a run that has something in pages it is written once more to its own subject, after that time and a random part of it more,
	// so that runs that have begun together do not do so together, or when it is that much. Those of as long as ownTogether do it at
	// once: the connection and the server have less to do with them than if they came one by one.
	ownEvery, maxPaged = 3 * time.Second, 32 << 10
	ownTogether        = 50 * time.Millisecond
	// floorEvery is how often it is seen which is the first page that has something which is nowhere else.
	floorEvery = 50 * time.Millisecond
	// purgeEvery is how often the pages below it are removed: else they would stay for as long as runs may. Seldom enough for a server not to
	// rewrite the same file each time, and often enough for it not to stand still over it.
	purgeEvery = 10 * time.Second
)

// pager collects pages and sends one at a time. It is the pump's goroutine's.
//
// A page is sent once. When it is not known whether it was stored, or it was refused since somebody has sealed its subject, all that
// it has goes to its runs' own subjects, which know whose the runs are, and what follows into pages of another subject: whatever
// became of the page, it says nothing else than what is stored then.
type pager struct {
	log     *Log
	always  bool   // for tests: whatever can be is put into pages
	life    uint64 // the subject's number
	message *client.Msg
	last    uint64 // sequence of the page before
	floor   uint64 // see page; it only grows
	floored time.Time
	purged  uint64 // the floor below which pages are removed
	purge   time.Time
	begin   time.Time
	often   time.Duration // purgeEvery
	own     time.Duration // ownEvery

	entries []*entry // that have something in the page that is collected
	body    []byte
	sent    []*entry // of the page that is on its way
	due     time.Time
	data    []byte // of that page, or the last one, for its memory
	head    int    // in front of its body

	// How busy the replica is.
	busy   bool
	writes int // since then
	since  time.Time
	took   time.Duration // that servers need to store a message, in the mean
	sentAt time.Time
	rest   time.Time // until then, what is sent is not looked at
}

// pageSubject is where a replica puts its pages.
func (l *Log) pageSubject(replica string, life uint64) string {
	return l.cluster.Subject(pagesToken, cluster.Token(replica+"\x00"+strconv.FormatUint(life, 36)))
}

func (p *pager) start(l *Log) {
	p.log, p.begin, p.often, p.own = l, time.Now(), purgeEvery, ownEvery
	p.another(rand.Uint64() >> 1)
}

// another begins a subject of pages. A run gets into them when a message of its own has named it.
func (p *pager) another(life uint64) {
	p.life, p.last, p.floor, p.purged, p.due = life, 0, 0, 0, time.Time{}
	// Answers come to the same subject: of a life one page is on its way, and none of which it is not known what became of it.
	p.message = client.NewMsg(p.log.pageSubject(p.log.cluster.Replica(), life))
	p.message.Reply = p.log.pump.prefix + "0." + strconv.FormatUint(life, 36)
}

// owed is when a run that has something in pages from now on is to be written to its own subject.
func (p *pager) owed(now time.Time) time.Time {
	wait := now.Sub(p.begin) + p.own + rand.N(p.own)
	return p.begin.Add(wait.Truncate(ownTogether))
}

// takes says whether what an entry has collected may be put into a page now.
func (p *pager) takes(e *entry, fresh []byte, now time.Time) bool {
	return (p.busy || p.always) && e.plain && e.life == p.life && now.After(e.followed) && len(fresh) <= maxInPage &&
		len(e.paged)+len(fresh) <= min(maxPaged, p.log.largest/4) && len(p.body)+len(fresh) <= min(maxPage, p.log.largest/2)
}

// put puts it there.
func (p *pager) put(e *entry, fresh []byte) {
	p.body = binary.AppendUvarint(p.body, e.handle)
	p.body = binary.AppendUvarint(p.body, e.last)
	p.body = binary.AppendUvarint(p.body, e.pages+1)
	p.body = appendText(p.body, fresh)
	e.inPage = [2]int{len(p.body) - len(fresh), len(p.body)}
	p.entries = append(p.entries, e)
}

// send sends what is collected, where nothing is on its way.
func (p *pager) send(now time.Time) {
	if len(p.entries) == 0 || len(p.sent) > 0 {
		return
	}
	if len(p.entries) == 1 && !p.always { // it costs the same by itself
		p.singly(p.entries, p.body, now)
		p.entries, p.body = p.entries[:0], p.body[:0]
		return
	}
	p.raise(now)
	p.data = appendPage(p.data[:0], kindPage, p.floor, p.last)
	p.head = len(p.data)
	p.data = append(p.data, p.body...)
	p.sent, p.entries, p.body = p.entries, p.sent, p.body[:0]
	m := p.message
	m.Header[expectLast] = append(m.Header[expectLast][:0], strconv.FormatUint(p.last, 10))
	m.Data = p.data
	p.due, p.sentAt = now.Add(p.log.ackWait), now
	if err := p.log.conn.PublishMsg(m); err != nil {
		p.fail(now, err)
	}
}

// raise sees which page is the floor. One that is too low has more read than need be, of a replica that is gone.
func (p *pager) raise(now time.Time) {
	if now.Sub(p.floored) < floorEvery && p.floor > 0 {
		return
	}
	p.floored, p.floor = now, p.last+1
	for _, e := range p.log.pump.entries {
		if e.pages > 0 && e.life == p.life {
			p.floor = min(p.floor, e.since)
		}
	}
}

func appendPage(dst []byte, kind byte, floor, before uint64) []byte {
	dst = append(dst, kind, pageVersion)
	return binary.AppendUvarint(binary.AppendUvarint(dst, floor), before)
}

// answer takes what a server says of the page that is on its way.
func (p *pager) answer(m *client.Msg, now time.Time) {
	if len(p.sent) == 0 {
		return // nothing is on its way
	}
	if m.Header.Get("Status") != "" { // nobody is there to store it
		p.fail(now, errNoAnswer)
		return
	}
	seq, _, err := parseAck(m.Data)
	if err != nil {
		p.fail(now, err)
		return
	}
	if seq <= p.last {
		return // it is of a page before
	}
	p.last, p.due = seq, time.Time{}
	p.answered(now.Sub(p.sentAt))
	stored, body := p.sent, p.data[p.head:]
	p.sent = nil // should a run turn out to be left, pages go on elsewhere, which is nothing to these any more
	for _, e := range stored {
		if !e.over {
			e.paginated(e.fresh(body), seq, now)
		}
	}
	clear(stored)
	p.sent = stored[:0]
	p.shed(now)
	if len(p.entries) > 0 { // it has waited for this answer: what was sent since it was collected need not wait for the next one
		p.log.pump.pass(now)
	}
	p.send(now)
}

// shed removes the pages below the floor. That is the one of the page that was stored just now: who reads the last page that there is
// looks for none below it.
func (p *pager) shed(now time.Time) {
	if p.floor <= p.purged || now.Sub(p.purge) < p.often {
		return
	}
	p.purged, p.purge = p.floor, now
	m := client.NewMsg("$JS.API.STREAM.PURGE." + p.log.pages.name)
	m.Data = purgeBelow(p.message.Subject, p.floor)
	if err := p.log.conn.PublishMsg(m); err != nil {
		p.log.log.Debug("old pages stay until they expire", slog.Any("error", err))
	}
}

// fail has all go to the runs' own subjects that is in pages and not known to be stored.
func (p *pager) fail(now time.Time, err error) {
	p.log.log.Debug("writing runs one by one", slog.Int("runs", len(p.sent)), slog.Any("error", err))
	p.another(p.life + 1)
	sent, entries, body := p.sent, p.entries, p.body
	p.sent, p.entries, p.body = nil, nil, nil
	p.singly(sent, p.data[p.head:], now)
	p.singly(entries, body, now)
}

// singly has what entries have in a page's body go to their runs' own subjects.
func (p *pager) singly(entries []*entry, body []byte, now time.Time) {
	for _, e := range entries {
		if !e.over {
			e.own(e.fresh(body), now)
		}
	}
}

// leave has what pages have of a run stay where it is found, when nobody writes it any more: who adopts it reads from the floor on, and that
// does not rise on a subject that gets no more pages.
func (p *pager) leave(e *entry, now time.Time) {
	if e.pages > 0 && e.life == p.life {
		p.fail(now, errLeft)
	}
}

var errLeft = errors.New("a run was left that has something in pages")

// answered takes how long it took to store a message.
func (p *pager) answered(took time.Duration) { p.took += (took - p.took) / 32 }

// watch finds out how busy the replica is. While servers stand still nothing is written, and that says nothing: should each run then be
// written by itself, they would have most to do just when they can do least.
func (p *pager) watch(now time.Time) {
	if len(p.sent) > 0 && now.Sub(p.sentAt) >= busyFor {
		p.writes, p.since = 0, now
	}
	if passed := now.Sub(p.since); passed >= busyFor {
		p.busy = float64(p.writes)*float64(max(busyIn, p.took)) >= busyWrites*float64(passed)
		p.writes, p.since = 0, now
	}
	if p.busy {
		p.rest = now.Add(pageEvery)
	}
}

// inPage is what a page has of a run.
type inPage struct {
	run, after, number uint64
	records            []byte
}

// parsePage gives take what a page has.
func parsePage(data []byte, take func(inPage) error) (floor, before uint64, err error) {
	if len(data) < 2 || data[0] != kindPage && data[0] != kindSeal || data[1] != pageVersion {
		return 0, 0, errMessage
	}
	p := parser{rest: data[2:]}
	floor, before = p.number(), p.number()
	for len(p.rest) > 0 && !p.bad {
		if in := (inPage{p.number(), p.number(), p.number(), p.text()}); !p.bad {
			if err := take(in); err != nil {
				return floor, before, err
			}
		}
	}
	if p.bad {
		return floor, before, errMessage
	}
	return floor, before, nil
}

// nothing takes what is not looked at.
func nothing(inPage) error { return nil }

func isSeal(data []byte) bool { return len(data) > 0 && data[0] == kindSeal }

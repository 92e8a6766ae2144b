package db

import (
	"context"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Events stores the events of chat platforms until they have ended, and what is still to be sent to the platforms.
//
// An event belongs to the replica that has claimed it, until that gives it back, ends it, or is not among the living ones of another claim. Changes by
// another replica are refused with [store.ErrMoved]. Other errors are those of [Tapes].
type Events struct {
	db       *DB
	maxOpen  int64
	maxBytes int64
}

const (
	maxOpenEvents = 10_000
	maxOpenBytes  = 64 << 20
	maxReplies    = 10_000

	eventLife   = 24 * time.Hour     // that the key of an ended event is known
	briefLife   = time.Minute        // likewise, of a brief one
	waitLife    = 7 * 24 * time.Hour // that an event or a reply waits for its channel
	attemptLife = 3 * time.Minute    // that an attempt of this process to send a reply may take, until it is lost

	maxGathers = 5 // a bundle waits for its events for so many times their own wait
)

// Events returns the store of events.
func (db *DB) Events() *Events {
	return &Events{db: db, maxOpen: maxOpenEvents, maxBytes: maxOpenBytes}
}

// notEnded begins conditions on the state of events that have not ended, so that SQLite uses an index.
const notEnded = "state <> 'ended' AND "

var errEventMoved = fmt.Errorf("%w: the event is another replica's, or has ended", store.ErrMoved)

// Accept stores events. isNew is false for those that are known. If there is no room for all, it stores none and returns [store.ErrFull].
func (e *Events) Accept(ctx context.Context, events []store.Event) (isNew []bool, err error) {
	err = e.db.Update(ctx, func(tx *Tx) {
		isNew = make([]bool, len(events))
		var open, bytes int64
		tx.scanOne([]any{&open, &bytes}, "SELECT count(*), coalesce(CAST(sum(length(raw)) AS BIGINT), 0) FROM events WHERE state <> 'ended'")
		for i := range events {
			if isNew[i] = tx.insertEvent(&events[i]); isNew[i] {
				open++
				bytes += int64(len(events[i].Raw))
			}
		}
		if open > e.maxOpen || bytes > e.maxBytes {
			tx.fail(fmt.Errorf("%w: too many events of chat platforms wait", store.ErrFull))
		}
	})
	return isNew, err
}

func (tx *Tx) insertEvent(e *store.Event) (added bool) {
	now := tx.db.clock()
	arrived, due := e.Arrived, e.Due
	if arrived.IsZero() {
		arrived = now
	}
	if due.IsZero() {
		due = arrived
	}
	key, lane := plainText(e.Key), plainText(e.Lane)
	if e.Bundle != "" { // all events of the bundle wait for this one, too
		const waiting = " WHERE lane = $1 AND bundle = $2 AND " + notEnded + "state = 'waiting' AND begun = 0"
		var first time.Time
		tx.scanOne([]any{date{&first}}, "SELECT min(arrived) FROM events"+waiting, lane, e.Bundle)
		if last := first.Add(maxGathers * due.Sub(arrived)); !first.IsZero() && due.After(last) {
			due = last
		}
		tx.exec("UPDATE events SET due = $3"+waiting, lane, e.Bundle, due.UnixMicro())
	}
	tx.exec("DELETE FROM events WHERE key = $1 AND state = 'ended' AND expires <= $2", key, now.UnixMicro())
	return tx.exec(`INSERT INTO events (key, login, lane, bundle, raw, state, leader, replica, arrived, due, brief, session, attempts, crashes, begun, progress, parked, outcome, expires)
		VALUES ($1, $2, $3, $4, $5, 'waiting', '', '', $6, $7, $8, '', 0, 0, 0, $9, '', '', 0) ON CONFLICT DO NOTHING`,
		key, e.Login, lane, e.Bundle, notNil(e.Raw), arrived.UnixMicro(), due.UnixMicro(), boolean(e.Brief), []byte{}) == 1
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lockEvents lets one transaction of all replicas claim at a time: what it reads of the others stays true.
func (tx *Tx) lockEvents() {
	if tx.db.lock != "" { // SQLite has one writer
		tx.exists("SELECT one FROM schema_version" + tx.db.lock)
	}
}

// Claim gives a replica the events that it can run now, the oldest first, and returns when the next one is due; zero: none is. What the replica has by an
// earlier claim is named in held; what else is stored as its own was claimed by a call whose answer was lost.
func (e *Events) Claim(ctx context.Context, c store.EventClaim, held []string) (events []store.Event, next time.Time, err error) {
	err = e.db.Update(ctx, func(tx *Tx) {
		events, next = nil, time.Time{}
		now := tx.db.clock().UnixMicro()
		if tx.lockEvents(); len(c.Logins) == 0 {
			return
		}
		logins := list(c.Logins)
		tx.exec(`UPDATE events SET state = 'waiting', replica = '', crashes = crashes + CASE WHEN replica = $1 THEN 0 ELSE 1 END
			WHERE `+notEnded+`state = 'running' AND login`+tx.db.in("$2")+` AND NOT (`+tx.db.lives("events.replica", "$3")+` AND (replica <> $1 OR key`+tx.db.in("$4")+`))`,
			c.Replica, logins, list(c.Alive), list(held))
		found := rowsOf(tx, readEvent, `SELECT key, login, lane, bundle, raw, arrived, brief, session, attempts, crashes, begun, progress FROM events e
			WHERE `+notEnded+`state = 'waiting' AND due <= $1 AND login`+tx.db.in("$4")+` AND NOT lane`+tx.db.in("$5")+` AND NOT key`+tx.db.in("$6")+`
			AND NOT EXISTS (SELECT 1 FROM events o WHERE o.lane = e.lane AND o.`+notEnded+`o.state = 'running' AND o.replica <> $2)
			AND NOT EXISTS (SELECT 1 FROM events o WHERE o.lane = e.lane AND o.`+notEnded+`o.state = 'waiting' AND (o.due <= $1 OR o.attempts = 0)
				AND (o.arrived < e.arrived OR o.arrived = e.arrived AND o.key < e.key))
			ORDER BY arrived, key LIMIT $3`, now, c.Replica, c.Limit, logins, list(c.Busy), list(held))
		for i := range found {
			if tx.claimEvent(&found[i], c.Replica) {
				events = append(events, found[i])
			}
		}
		tx.scanOne([]any{date{&next}}, "SELECT min(due) FROM events WHERE "+notEnded+"state = 'waiting' AND due > $1 AND login"+tx.db.in("$2"), now, logins)
	})
	return events, next, err
}

func readEvent(read row) (e store.Event) {
	read(&e.Key, &e.Login, &e.Lane, &e.Bundle, &e.Raw, date{&e.Arrived}, &e.Brief, &e.Session, &e.Attempts, &e.Crashes, &e.Begun, &e.Progress)
	return e
}

// claimEvent makes an event a replica's, and with it those of its bundle. claimed is false if it was erased meanwhile.
func (tx *Tx) claimEvent(e *store.Event, replica string) (claimed bool) {
	n := tx.exec("UPDATE events SET state = 'running', replica = $1, begun = 1 WHERE key = $2 AND state = 'waiting'", replica, e.Key)
	if n == 0 || e.Bundle == "" {
		return n > 0
	}
	if !e.Begun {
		tx.exec("UPDATE events SET state = 'merged', leader = $1 WHERE lane = $2 AND bundle = $3 AND "+notEnded+"state = 'waiting'", e.Key, e.Lane, e.Bundle)
	}
	for read := range tx.rows("SELECT key, raw FROM events WHERE key = $1 OR state = 'merged' AND leader = $1 ORDER BY arrived, key", e.Key) {
		var key string
		var raw []byte
		read(&key, &raw)
		if e.Parts = append(e.Parts, raw); key != e.Key {
			e.Merged = append(e.Merged, key)
		}
	}
	return true
}

// Note stores what the turn of an event has done.
func (e *Events) Note(ctx context.Context, key, replica string, n store.EventNote) error {
	return e.db.change(ctx, errEventMoved, "UPDATE events SET session = $1, progress = $2, crashes = CASE WHEN $3 = 1 THEN 0 ELSE crashes END WHERE key = $4 AND replica = $5 AND state = 'running'",
		plainText(n.Session), notNil(n.Progress), boolean(n.Advanced), plainText(key), replica)
}

// Release gives an event back, with those that were claimed with it.
func (e *Events) Release(ctx context.Context, r store.EventRelease) error {
	due := r.Due
	if due.IsZero() {
		due = e.db.clock()
	}
	return e.db.change(ctx, errEventMoved, `UPDATE events SET state = CASE WHEN $1 = '' THEN 'waiting' ELSE 'parked' END, replica = '', parked = $1, due = $2,
		attempts = attempts + $3, begun = CASE WHEN $3 = 1 OR $1 <> '' THEN 0 ELSE begun END WHERE key = $4 AND replica = $5 AND state = 'running'`,
		r.Parked, due.UnixMicro(), boolean(r.Failed), plainText(r.Key), r.Replica)
}

// Parked lists what events of a login are parked for.
func (e *Events) Parked(ctx context.Context, login string) (names []string, err error) {
	tx := e.db.reader(ctx)
	names = tx.texts("SELECT DISTINCT parked FROM events WHERE "+notEnded+"state = 'parked' AND login = $1", login)
	return names, tx.err
}

// Unpark lets the events wait that are parked for this; with drop they end, blocked.
func (e *Events) Unpark(ctx context.Context, login, parked string, drop bool) error {
	return e.db.Update(ctx, func(tx *Tx) {
		if drop {
			tx.endEvents("blocked", notEnded+"state = 'parked' AND login = $1 AND parked = $2", login, parked)
			return
		}
		tx.exec("UPDATE events SET state = 'waiting', due = $1 WHERE "+notEnded+"state = 'parked' AND login = $2 AND parked = $3", tx.db.clock().UnixMicro(), login, parked)
	})
}

// endEvents ends the events that match, and those that were claimed with them.
func (tx *Tx) endEvents(outcome, match string, args ...any) {
	keys := tx.texts("SELECT key FROM events WHERE "+match+tx.db.lock, args...)
	now := tx.db.clock()
	tx.exec(`UPDATE events SET state = 'ended', raw = $1, progress = $1, replica = '', parked = '', outcome = $2,
		expires = CASE WHEN brief = 1 THEN CAST($3 AS BIGINT) ELSE CAST($4 AS BIGINT) END WHERE key`+tx.db.in("$5")+` OR state = 'merged' AND leader`+tx.db.in("$5"),
		[]byte{}, outcome, now.Add(briefLife).UnixMicro(), now.Add(eventLife).UnixMicro(), list(keys))
}

// End ends an event, and stores the reply that is still to be sent. first reports that it can be sent now, by this replica: no other reply waits for
// its target.
func (e *Events) End(ctx context.Context, end store.EventEnd) (id int64, first bool, err error) {
	err = e.db.Update(ctx, func(tx *Tx) {
		if end.Reply != nil {
			tx.lockEvents() // in the order of Claim
		}
		if !tx.exists("SELECT 1 FROM events WHERE key = $1 AND replica = $2 AND state = 'running'"+tx.db.lock, plainText(end.Key), end.Replica) {
			tx.fail(errEventMoved)
		}
		if end.Reply != nil {
			id, first = tx.putReply(end.Reply, end.Replica)
		}
		tx.endEvents(end.Outcome, "key = $1", plainText(end.Key))
	})
	return id, first, err
}

// EraseOf removes the events of lanes, and the replies of a session. What runs is not removed.
func (e *Events) EraseOf(ctx context.Context, session string, lanes []string) error {
	err := e.db.Update(ctx, func(tx *Tx) {
		tx.exec("DELETE FROM replies WHERE session = $1", plainText(session))
		tx.exec("DELETE FROM events WHERE state <> 'running' AND (session = $1 AND session <> '' OR lane"+tx.db.in("$2")+")", plainText(session), list(lanes))
	})
	if err == nil {
		err = e.db.finishErasing(context.WithoutCancel(ctx), true)
	}
	return err
}

// Pending counts the events that have not ended and the replies that are to be sent, by login.
func (e *Events) Pending(ctx context.Context) (events, replies map[string]int, err error) {
	counts := [2]map[string]int{{}, {}}
	tx := e.db.reader(ctx)
	for read := range tx.rows("SELECT 0, login, count(*) FROM events WHERE state <> 'ended' GROUP BY login UNION ALL SELECT 1, login, count(*) FROM replies GROUP BY login") {
		var of, n int
		var login string
		read(&of, &login, &n)
		counts[of][login] = n
	}
	return counts[0], counts[1], tx.err
}

// putReply stores a reply, behind lockEvents. first reports that no other one waits for its target: then it is claimed for the replica.
func (tx *Tx) putReply(r *store.Reply, replica string) (id int64, first bool) {
	var waiting, before int64
	tx.scanOne([]any{&waiting, &before, &id},
		"SELECT count(*), coalesce(sum(CASE WHEN target = $1 THEN 1 ELSE 0 END), 0), coalesce(max(id), 0) FROM replies", plainText(r.Target))
	if waiting >= maxReplies {
		tx.fail(fmt.Errorf("%w: too many replies to chat platforms wait", store.ErrFull))
	}
	now := tx.db.clock().UnixMicro()
	id, first = max(id+1, now), before == 0
	owner, attempts, due := "", 0, now
	if first {
		owner, attempts, due = replica, 1, now+attemptLife.Microseconds()
	}
	tx.exec("INSERT INTO replies (id, login, target, session, block, created, due, attempts, replica, unsure) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)",
		id, r.Login, plainText(r.Target), plainText(r.Session), r.Block, now, due, attempts, owner)
	return id, first
}

// ClaimReplies gives a replica the replies that it can send now: of each target the first. An attempt is counted. It returns when the next one is due;
// zero: none is. What is stored as its own for longer than an attempt may take was claimed by a call whose answer was lost.
func (e *Events) ClaimReplies(ctx context.Context, c store.EventClaim) (replies []store.Reply, next time.Time, err error) {
	err = e.db.Update(ctx, func(tx *Tx) {
		replies, next = nil, time.Time{}
		now := tx.db.clock().UnixMicro()
		if tx.lockEvents(); len(c.Logins) == 0 {
			return
		}
		tx.exec("UPDATE replies SET unsure = 1, replica = '', due = $2 WHERE replica <> '' AND NOT ("+tx.db.lives("replies.replica", "$3")+" AND (replica <> $1 OR due > $2))",
			c.Replica, now, list(c.Alive))
		firsts := " FROM replies r WHERE replica = '' AND login" + tx.db.in("$1") + " AND NOT EXISTS (SELECT 1 FROM replies o WHERE o.target = r.target AND o.id < r.id)"
		replies = rowsOf(tx, func(read row) (r store.Reply) {
			read(&r.ID, &r.Login, &r.Target, &r.Session, &r.Block, date{&r.Created}, &r.Attempts, &r.Unsure)
			r.Attempts++
			return r
		}, "SELECT id, login, target, session, block, created, attempts, unsure"+firsts+" AND due <= $2 ORDER BY id LIMIT $3", list(c.Logins), now, c.Limit)
		for _, r := range replies {
			tx.exec("UPDATE replies SET replica = $1, attempts = attempts + 1, due = $2 WHERE id = $3", c.Replica, now+attemptLife.Microseconds(), r.ID)
		}
		tx.scanOne([]any{date{&next}}, "SELECT min(due)"+firsts+" AND due > $2", list(c.Logins), now)
	})
	return replies, next, err
}

// PostponeReply stores that an attempt to send a reply came to nothing, and when the next one may begin.
func (e *Events) PostponeReply(ctx context.Context, id int64, replica string, due time.Time, unsure bool) error {
	return e.db.change(ctx, errEventMoved, "UPDATE replies SET replica = '', due = $1, unsure = $2 WHERE id = $3 AND replica = $4", due.UnixMicro(), boolean(unsure), id, replica)
}

// ReplaceReply makes a reply that a replica is sending another one, whose attempt begins now.
func (e *Events) ReplaceReply(ctx context.Context, id int64, replica string, block []byte) error {
	due := e.db.clock().Add(attemptLife).UnixMicro()
	return e.db.change(ctx, errEventMoved, "UPDATE replies SET block = $1, unsure = 0, due = $4 WHERE id = $2 AND replica = $3", block, id, replica, due)
}

// EndReply removes a reply that was sent, or is not sent any more.
func (e *Events) EndReply(ctx context.Context, id int64, replica string) error {
	return e.db.change(ctx, errEventMoved, "DELETE FROM replies WHERE id = $1 AND replica = $2", id, replica)
}

// notNil returns bytes that are stored as an empty value if there are none.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

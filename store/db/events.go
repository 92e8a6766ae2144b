package db

import (
	"context"
	"database/sql"
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
	err = e.db.Update(ctx, func(tx *Tx) error {
		isNew = make([]bool, len(events))
		var open, bytes int64
		if _, err := tx.scanOne([]any{&open, &bytes}, "SELECT count(*), coalesce(CAST(sum(length(raw)) AS BIGINT), 0) FROM events WHERE state <> 'ended'"); err != nil {
			return err
		}
		for i := range events {
			added, err := tx.insertEvent(&events[i])
			if err != nil {
				return err
			}
			if isNew[i] = added; added {
				open++
				bytes += int64(len(events[i].Raw))
			}
		}
		if open > e.maxOpen || bytes > e.maxBytes {
			return fmt.Errorf("%w: too many events of chat platforms wait", store.ErrFull)
		}
		return nil
	})
	return isNew, err
}

func (tx *Tx) insertEvent(e *store.Event) (added bool, err error) {
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
		if _, err := tx.scanOne([]any{date{&first}}, "SELECT min(arrived) FROM events"+waiting, lane, e.Bundle); err != nil {
			return false, err
		}
		if last := first.Add(maxGathers * due.Sub(arrived)); !first.IsZero() && due.After(last) {
			due = last
		}
		if _, err := tx.exec("UPDATE events SET due = $3"+waiting, lane, e.Bundle, due.UnixMicro()); err != nil {
			return false, err
		}
	}
	if _, err := tx.exec("DELETE FROM events WHERE key = $1 AND state = 'ended' AND expires <= $2", key, now.UnixMicro()); err != nil {
		return false, err
	}
	n, err := tx.exec(`INSERT INTO events (key, login, lane, bundle, raw, state, leader, replica, arrived, due, brief, session, attempts, crashes, begun, progress, parked, outcome, expires)
		VALUES ($1, $2, $3, $4, $5, 'waiting', '', '', $6, $7, $8, '', 0, 0, 0, $9, '', '', 0) ON CONFLICT DO NOTHING`,
		key, e.Login, lane, e.Bundle, notNil(e.Raw), arrived.UnixMicro(), due.UnixMicro(), boolean(e.Brief), []byte{})
	return n == 1, err
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lockEvents lets one transaction of all replicas claim at a time: what it reads of the others stays true.
func (tx *Tx) lockEvents() error {
	if tx.db.lock == "" { // SQLite has one writer
		return nil
	}
	_, err := tx.exists("SELECT one FROM schema_version" + tx.db.lock)
	return err
}

// Claim gives a replica the events that it can run now, the oldest first, and returns when the next one is due; zero: none is. What the replica has by an
// earlier claim is named in held; what else is stored as its own was claimed by a call whose answer was lost.
func (e *Events) Claim(ctx context.Context, c store.EventClaim, held []string) (events []store.Event, next time.Time, err error) {
	err = e.db.Update(ctx, func(tx *Tx) error {
		events, next = nil, time.Time{}
		now := tx.db.clock().UnixMicro()
		if err := tx.lockEvents(); err != nil || len(c.Logins) == 0 {
			return err
		}
		logins := list(c.Logins)
		if _, err := tx.exec(`UPDATE events SET state = 'waiting', replica = '', crashes = crashes + CASE WHEN replica = $1 THEN 0 ELSE 1 END
			WHERE `+notEnded+`state = 'running' AND login`+tx.db.in("$2")+` AND NOT (replica`+tx.db.in("$3")+` AND (replica <> $1 OR key`+tx.db.in("$4")+`))`,
			c.Replica, logins, list(c.Alive), list(held)); err != nil {
			return err
		}
		found, err := rowsOf(tx, scanEvent, `SELECT key, login, lane, bundle, raw, arrived, brief, session, attempts, crashes, begun, progress FROM events e
			WHERE `+notEnded+`state = 'waiting' AND due <= $1 AND login`+tx.db.in("$4")+` AND NOT lane`+tx.db.in("$5")+` AND NOT key`+tx.db.in("$6")+`
			AND NOT EXISTS (SELECT 1 FROM events o WHERE o.lane = e.lane AND o.`+notEnded+`o.state = 'running' AND o.replica <> $2)
			AND NOT EXISTS (SELECT 1 FROM events o WHERE o.lane = e.lane AND o.`+notEnded+`o.state = 'waiting' AND (o.due <= $1 OR o.attempts = 0)
				AND (o.arrived < e.arrived OR o.arrived = e.arrived AND o.key < e.key))
			ORDER BY arrived, key LIMIT $3`, now, c.Replica, c.Limit, logins, list(c.Busy), list(held))
		if err != nil {
			return err
		}
		for i := range found {
			claimed, err := tx.claimEvent(&found[i], c.Replica)
			if err != nil {
				return err
			}
			if claimed {
				events = append(events, found[i])
			}
		}
		_, err = tx.scanOne([]any{date{&next}}, "SELECT min(due) FROM events WHERE "+notEnded+"state = 'waiting' AND due > $1 AND login"+tx.db.in("$2"), now, logins)
		return err
	})
	return events, next, err
}

func scanEvent(rows *sql.Rows) (e store.Event, err error) {
	err = rows.Scan(&e.Key, &e.Login, &e.Lane, &e.Bundle, &e.Raw, date{&e.Arrived}, &e.Brief, &e.Session, &e.Attempts, &e.Crashes, &e.Begun, &e.Progress)
	return e, err
}

// claimEvent makes an event a replica's, and with it those of its bundle. claimed is false if it was erased meanwhile.
func (tx *Tx) claimEvent(e *store.Event, replica string) (claimed bool, err error) {
	n, err := tx.exec("UPDATE events SET state = 'running', replica = $1, begun = 1 WHERE key = $2 AND state = 'waiting'", replica, e.Key)
	if err != nil || n == 0 || e.Bundle == "" {
		return n > 0, err
	}
	if !e.Begun {
		_, err := tx.exec("UPDATE events SET state = 'merged', leader = $1 WHERE lane = $2 AND bundle = $3 AND "+notEnded+"state = 'waiting'", e.Key, e.Lane, e.Bundle)
		if err != nil {
			return false, err
		}
	}
	err = tx.collect(func(rows *sql.Rows) (bool, error) {
		var key string
		var raw []byte
		err := rows.Scan(&key, &raw)
		if e.Parts = append(e.Parts, raw); key != e.Key {
			e.Merged = append(e.Merged, key)
		}
		return true, err
	}, "SELECT key, raw FROM events WHERE key = $1 OR state = 'merged' AND leader = $1 ORDER BY arrived, key", e.Key)
	return true, err
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
	return e.db.reader(ctx).readIDs("SELECT DISTINCT parked FROM events WHERE "+notEnded+"state = 'parked' AND login = $1", login)
}

// Unpark lets the events wait that are parked for this; with drop they end, blocked.
func (e *Events) Unpark(ctx context.Context, login, parked string, drop bool) error {
	return e.db.Update(ctx, func(tx *Tx) error {
		if drop {
			return tx.endEvents("blocked", notEnded+"state = 'parked' AND login = $1 AND parked = $2", login, parked)
		}
		_, err := tx.exec("UPDATE events SET state = 'waiting', due = $1 WHERE "+notEnded+"state = 'parked' AND login = $2 AND parked = $3", tx.db.clock().UnixMicro(), login, parked)
		return err
	})
}

// endEvents ends the events that match, and those that were claimed with them.
func (tx *Tx) endEvents(outcome, match string, args ...any) error {
	keys, err := tx.readIDs("SELECT key FROM events WHERE "+match+tx.db.lock, args...)
	if err != nil {
		return err
	}
	now := tx.db.clock()
	_, err = tx.exec(`UPDATE events SET state = 'ended', raw = $1, progress = $1, replica = '', parked = '', outcome = $2,
		expires = CASE WHEN brief = 1 THEN CAST($3 AS BIGINT) ELSE CAST($4 AS BIGINT) END WHERE key`+tx.db.in("$5")+` OR state = 'merged' AND leader`+tx.db.in("$5"),
		[]byte{}, outcome, now.Add(briefLife).UnixMicro(), now.Add(eventLife).UnixMicro(), list(keys))
	return err
}

// End ends an event, and stores the reply that is still to be sent. first reports that it can be sent now, by this replica: no other reply waits for
// its target.
func (e *Events) End(ctx context.Context, end store.EventEnd) (id int64, first bool, err error) {
	err = e.db.Update(ctx, func(tx *Tx) error {
		if end.Reply != nil {
			if err := tx.lockEvents(); err != nil { // in the order of Claim
				return err
			}
		}
		mine, err := tx.exists("SELECT 1 FROM events WHERE key = $1 AND replica = $2 AND state = 'running'"+tx.db.lock, plainText(end.Key), end.Replica)
		switch {
		case err != nil:
			return err
		case !mine:
			return errEventMoved
		case end.Reply != nil:
			if id, first, err = tx.putReply(end.Reply, end.Replica); err != nil {
				return err
			}
		}
		return tx.endEvents(end.Outcome, "key = $1", plainText(end.Key))
	})
	return id, first, err
}

// EraseOf removes the events of lanes, and the replies of a session. What runs is not removed.
func (e *Events) EraseOf(ctx context.Context, session string, lanes []string) error {
	err := e.db.Update(ctx, func(tx *Tx) error {
		if _, err := tx.exec("DELETE FROM replies WHERE session = $1", plainText(session)); err != nil {
			return err
		}
		_, err := tx.exec("DELETE FROM events WHERE state <> 'running' AND (session = $1 AND session <> '' OR lane"+tx.db.in("$2")+")", plainText(session), list(lanes))
		return err
	})
	if err == nil {
		err = e.db.finishErasing(context.WithoutCancel(ctx), true)
	}
	return err
}

// Pending counts the events that have not ended and the replies that are to be sent, by login.
func (e *Events) Pending(ctx context.Context) (events, replies map[string]int, err error) {
	counts := [2]map[string]int{{}, {}}
	err = e.db.reader(ctx).collect(func(rows *sql.Rows) (bool, error) {
		var of, n int
		var login string
		err := rows.Scan(&of, &login, &n)
		counts[of][login] = n
		return true, err
	}, "SELECT 0, login, count(*) FROM events WHERE state <> 'ended' GROUP BY login UNION ALL SELECT 1, login, count(*) FROM replies GROUP BY login")
	return counts[0], counts[1], err
}

// putReply stores a reply, behind lockEvents. first reports that no other one waits for its target: then it is claimed for the replica.
func (tx *Tx) putReply(r *store.Reply, replica string) (id int64, first bool, err error) {
	var waiting, before int64
	_, err = tx.scanOne([]any{&waiting, &before, &id},
		"SELECT count(*), coalesce(sum(CASE WHEN target = $1 THEN 1 ELSE 0 END), 0), coalesce(max(id), 0) FROM replies", plainText(r.Target))
	if err == nil && waiting >= maxReplies {
		err = fmt.Errorf("%w: too many replies to chat platforms wait", store.ErrFull)
	}
	if err != nil {
		return 0, false, err
	}
	now := tx.db.clock().UnixMicro()
	id, first = max(id+1, now), before == 0
	owner, attempts, due := "", 0, now
	if first {
		owner, attempts, due = replica, 1, now+attemptLife.Microseconds()
	}
	_, err = tx.exec("INSERT INTO replies (id, login, target, session, block, created, due, attempts, replica, unsure) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)",
		id, r.Login, plainText(r.Target), plainText(r.Session), r.Block, now, due, attempts, owner)
	return id, first, err
}

// ClaimReplies gives a replica the replies that it can send now: of each target the first. An attempt is counted. It returns when the next one is due;
// zero: none is. What is stored as its own for longer than an attempt may take was claimed by a call whose answer was lost.
func (e *Events) ClaimReplies(ctx context.Context, c store.EventClaim) (replies []store.Reply, next time.Time, err error) {
	err = e.db.Update(ctx, func(tx *Tx) error {
		replies, next = nil, time.Time{}
		now := tx.db.clock().UnixMicro()
		if err := tx.lockEvents(); err != nil || len(c.Logins) == 0 {
			return err
		}
		query := "UPDATE replies SET unsure = 1, replica = '', due = $2 WHERE replica <> '' AND NOT (replica" + tx.db.in("$3") + " AND (replica <> $1 OR due > $2))"
		if _, err := tx.exec(query, c.Replica, now, list(c.Alive)); err != nil {
			return err
		}
		firsts := " FROM replies r WHERE replica = '' AND login" + tx.db.in("$1") + " AND NOT EXISTS (SELECT 1 FROM replies o WHERE o.target = r.target AND o.id < r.id)"
		var err error
		replies, err = rowsOf(tx, func(rows *sql.Rows) (r store.Reply, err error) {
			err = rows.Scan(&r.ID, &r.Login, &r.Target, &r.Session, &r.Block, date{&r.Created}, &r.Attempts, &r.Unsure)
			r.Attempts++
			return r, err
		}, "SELECT id, login, target, session, block, created, attempts, unsure"+firsts+" AND due <= $2 ORDER BY id LIMIT $3", list(c.Logins), now, c.Limit)
		if err != nil {
			return err
		}
		for _, r := range replies {
			if _, err := tx.exec("UPDATE replies SET replica = $1, attempts = attempts + 1, due = $2 WHERE id = $3", c.Replica, now+attemptLife.Microseconds(), r.ID); err != nil {
				return err
			}
		}
		_, err = tx.scanOne([]any{date{&next}}, "SELECT min(due)"+firsts+" AND due > $2", list(c.Logins), now)
		return err
	})
	return replies, next, err
}

// ReplyWaits reports whether a reply to a target is stored.
func (e *Events) ReplyWaits(ctx context.Context, target string) (waits bool, err error) {
	return e.db.reader(ctx).exists("SELECT 1 FROM replies WHERE target = $1 LIMIT 1", plainText(target))
}

// PostponeReply stores that an attempt to send a reply came to nothing, and when the next one may begin.
func (e *Events) PostponeReply(ctx context.Context, id int64, replica string, due time.Time, unsure bool) error {
	return e.db.change(ctx, errEventMoved, "UPDATE replies SET replica = '', due = $1, unsure = $2 WHERE id = $3 AND replica = $4", due.UnixMicro(), boolean(unsure), id, replica)
}

// ReplaceReply makes a reply that a replica is sending another one.
func (e *Events) ReplaceReply(ctx context.Context, id int64, replica string, block []byte) error {
	return e.db.change(ctx, errEventMoved, "UPDATE replies SET block = $1, unsure = 0 WHERE id = $2 AND replica = $3", block, id, replica)
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

package replicas

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/store"
)

const (
	// TTL is how long a replica may be silent before the others take it for dead.
	TTL = 5 * time.Second

	beatEvery  = 1500 * time.Millisecond // three in a TTL
	beatAgain  = 200 * time.Millisecond  // after one that failed, or to be sure of another's death
	tickEvery  = 500 * time.Millisecond  // of the loop, which so notices that it was stopped
	longestGap = 2500 * time.Millisecond // between two beats of this replica that it has heard itself; else the store was away
)

// Reasons of the end of a life.
var (
	errTaken  = errors.New("the other replicas consider this one dead")
	errPaused = fmt.Errorf("this process was stopped, or had no CPU, for more than %v", TTL)
	errLate   = fmt.Errorf("no beat of this replica was stored for more than %v", TTL)
)

// life is the time in which the others know this replica. All leases of a replica are of one life and end with it.
type life struct {
	number uint64
	lost   chan struct{} // closed at its end

	// These are guarded by Members.mu.
	revision uint64    // of the last beat
	renewed  time.Time // when the last beat that was stored was sent
	doubt    bool      // the last attempt has failed: perhaps the store is away, and nobody dies while it is
	unsure   bool      // the clocks disagree about how long ago that was: only a beat can tell
}

// run beats until the members are closed.
func (m *Members) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.end.Done():
			return
		case <-timer.C:
		case <-m.kick:
		}
		timer.Reset(m.tick())
	}
}

// hurry has the loop look at once.
func (m *Members) hurry() {
	select {
	case m.kick <- struct{}{}:
	default: // it will look
	}
}

// tick does what is due, and returns when something will be.
func (m *Members) tick() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.check(now)
	if skew := wall(now, m.ticked) - now.Sub(m.ticked); skew > TTL/2 && m.life != nil { // a machine that slept, or a clock that was set
		m.life.unsure, m.beatDue = true, now
	}
	m.ticked = now
	if due := m.due(now); !m.beating && !m.closing && !now.Before(due) {
		m.beating, m.beat = true, now
		m.calls.Go(m.beatOnce)
	}
	for _, l := range m.leases {
		l.tend(now)
	}
	wait := tickEvery
	if due := m.due(now); !m.beating {
		wait = min(wait, due.Sub(now))
	}
	for _, member := range m.view {
		if quiet := member.quiet.Add(TTL).Sub(now); quiet > 0 {
			wait = min(wait, quiet)
		}
	}
	return max(wait, time.Millisecond)
}

func wall(now, then time.Time) time.Duration { return now.Round(0).Sub(then.Round(0)) }

// due returns when the next beat is due.
func (m *Members) due(now time.Time) time.Time {
	due := m.beat.Add(beatEvery)
	if m.beatDue.Before(due) {
		due = m.beatDue
	}
	if again := m.beat.Add(beatAgain); due.After(again) && len(m.silent(now)) > 0 {
		due = again // once this replica hears a beat of its own, that is the proof of a death
	}
	return due
}

// silent returns the other replicas of which nothing was heard for TTL.
func (m *Members) silent(now time.Time) (all []*member) {
	for id, member := range m.view {
		if id != m.o.ID && !member.ending && now.Sub(member.quiet) >= TTL {
			all = append(all, member)
		}
	}
	return all
}

// check ends the life of a replica that cannot be sure that the others know it. It does not ask them, so it works after a pause; see the
// package's comment on fencing. The caller has the lock.
func (m *Members) check(now time.Time) {
	l := m.life
	if l == nil || m.table == nil {
		return
	}
	age := now.Sub(l.renewed)
	switch {
	case now.Sub(m.ticked) > TTL:
		m.lose(errPaused)
	case age > TTL && !l.doubt:
		m.lose(errLate)
	case age > m.o.Grace:
		m.lose(fmt.Errorf("the store was away for more than %v", m.o.Grace))
	}
}

// holds reports whether a life goes on, as far as this replica can know without asking.
func (m *Members) holds(l *life) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l == m.life {
		m.check(time.Now())
	}
	return l == m.life && l != nil && !l.unsure
}

// lose ends the life. The loop begins another one as soon as possible. The caller has the lock.
func (m *Members) lose(why error) {
	l := m.life
	if l == nil {
		return
	}
	m.life, m.joined, m.beatDue = nil, make(chan struct{}), time.Now()
	close(l.lost)
	for _, leases := range m.leases {
		leases.drop(l)
	}
	m.wakeWaiters()
	m.hurry()
	if m.end.Err() == nil {
		m.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "lost this replica's leases", slog.Any("reason", why))
	}
}

// beatOnce sends one beat, the first one of a life if there is none, and takes the answer.
func (m *Members) beatOnce() {
	m.mu.Lock()
	l, after := m.life, store.AnyRev
	first := l == nil
	if first {
		l = &life{number: m.lives + 1, lost: make(chan struct{})}
	} else {
		after = l.revision
	}
	m.mu.Unlock()
	sent := time.Now()
	r, err := m.put(m.end, m.ownRecord(l, sent, false), after, replicaLife)

	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.hurry()
	m.beating = false
	if !first && l != m.life {
		return // it has ended meanwhile
	}
	m.beatDue = m.beat.Add(beatEvery)
	moved, isMoved := errors.AsType[*store.Moved](err)
	switch {
	case isMoved:
		var b beatRecord
		if moved.Rev == 0 || json.Unmarshal(moved.Meta, &b) != nil || b.Left || b.Life != l.number {
			m.lose(errTaken)
			return
		}
		l.revision, m.beatDue = moved.Rev, m.beat // an attempt without an answer was stored
	case err != nil:
		l.doubt = true
		m.beatDue = m.beat.Add(beatAgain)
		if m.failing.IsZero() {
			m.failing = sent
		}
	default:
		l.revision, l.renewed, l.doubt, l.unsure = r.Rev, sent, false, false
		if !m.failing.IsZero() {
			m.failed += sent.Sub(m.failing)
			m.failing = time.Time{}
		}
		if first && !m.closed {
			m.begin(l)
		}
	}
}

// ownRecord is the meta of this replica's record.
func (m *Members) ownRecord(l *life, now time.Time, left bool) beatRecord {
	if l.number != m.sinceOf {
		m.sinceOf, m.sinceAt = l.number, now
	}
	return beatRecord{Life: l.number, Name: m.o.Name, Since: m.sinceAt.UnixMilli(), Left: left}
}

// put changes the record of this replica.
func (m *Members) put(ctx context.Context, b beatRecord, after uint64, life time.Duration) (store.Record, error) {
	meta, err := json.Marshal(b)
	if err != nil {
		return store.Record{}, err
	}
	return m.change(ctx, store.Put{Key: replicaPrefix + m.o.ID, After: after, Meta: meta, Life: life})
}

// change makes one change of the table.
func (m *Members) change(ctx context.Context, p store.Put) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	_, _ = rand.Read(p.ID[:]) // never fails
	records, errs := m.table.Put(ctx, p)
	return records[0], errs[0]
}

// hearSelf takes a beat of this replica's own, and buries those that are dead by it. The caller has the lock.
func (m *Members) hearSelf(now time.Time) {
	for _, member := range m.dead(now) {
		if !m.closing {
			member.ending = true
			id, revision := member.replica.ID, member.revision
			m.calls.Go(func() { m.bury(id, revision) })
		}
	}
}

// dead returns those of whom nothing was heard for TTL in which this replica has heard itself: its own beats are the clock, which stands
// still while the store is away.
func (m *Members) dead(now time.Time) []*member {
	if now.Sub(m.heardAt) > longestGap { // the first one, too
		for _, member := range m.view {
			member.quiet = now
		}
	}
	m.heardAt = now
	return m.silent(now)
}

// bury deletes the record of a replica that is silent, if it is as it was.
func (m *Members) bury(id string, revision uint64) {
	_, err := m.change(m.end, store.Put{Key: replicaPrefix + id, After: revision, Delete: true})
	moved, isMoved := errors.AsType[*store.Moved](err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if member := m.view[id]; member != nil {
		member.ending = false
	}
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), isMoved && moved.Rev == 0:
		m.takeEnd(id, revision+1, Died)
	case isMoved:
		m.take(id, moved.Record, time.Now())
	}
}

// FailingSince returns when the first of the beats was sent that have failed since the last one that was stored, or zero if that was the
// last.
func (m *Members) FailingSince() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing
}

// Failed returns for how long beats have failed in all.
func (m *Members) Failed() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing.IsZero() {
		return m.failed
	}
	return m.failed + time.Since(m.failing)
}

// leave tells the others that this replica ends. It does not beat any more, and no other replica writes a life into its record.
func (m *Members) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*callWait)
	defer cancel()
	m.mu.Lock()
	l, after := m.life, store.AnyRev
	if l != nil {
		after = l.revision
	} else {
		l = &life{number: m.lives + 1}
	}
	m.mu.Unlock()
	left := m.ownRecord(l, time.Now(), true)
	_, err := m.put(ctx, left, after, leftLife)
	if errors.Is(err, store.ErrMoved) { // the answer to the last beat has not come
		_, err = m.put(ctx, left, store.AnyRev, leftLife)
	}
	if err != nil {
		m.o.Log.LogAttrs(ctx, slog.LevelWarn, "cannot announce this shutdown", slog.String("error", err.Error()))
	}
}

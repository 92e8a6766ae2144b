package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// TTL is how long a replica may be silent before the others take it for dead.
	TTL = 5 * time.Second

	beatEvery  = 1500 * time.Millisecond // three in a TTL
	beatAgain  = 200 * time.Millisecond  // after one that failed, or to be sure of another's death
	tickEvery  = 500 * time.Millisecond  // of the loop, which so notices that it was stopped
	longestGap = 2500 * time.Millisecond // between two beats of this replica that it has heard itself, else the servers were away
	unheard    = time.Second             // after which a beat that is stored and was not heard is missed
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

	// These are guarded by Presence.mu.
	revision uint64    // of the last beat
	renewed  time.Time // when the last beat that was stored was sent
	doubt    bool      // the last attempt has failed: perhaps the servers are away, and nobody dies while they are
	unsure   bool      // the clocks disagree about how long ago that was: only a beat can tell
}

// run beats until the cluster is closed, and waits for what it has started.
func (p *Presence) run() {
	defer func() {
		p.mu.Lock()
		p.closing = true
		p.mu.Unlock()
		p.calls.Wait()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.c.end.Done():
			return
		case <-timer.C:
		case <-p.kick:
		}
		timer.Reset(p.tick())
	}
}

// hurry has the loop look at once.
func (p *Presence) hurry() {
	select {
	case p.kick <- struct{}{}:
	default: // it will look
	}
}

// reconnected makes up for what was not heard, and beats at once.
func (p *Presence) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c.conn.IsConnected() {
		p.beatDue = time.Now()
		p.resync()
		p.hurry()
	}
}

// tick does what is due, and returns when something will be.
func (p *Presence) tick() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.check(now)
	if skew := wall(now, p.ticked) - now.Sub(p.ticked); skew > TTL/2 && p.life != nil { // a machine that slept, or a clock that was set
		p.life.unsure, p.beatDue = true, now
	}
	p.ticked = now
	if due := p.due(); !p.beating && !now.Before(due) {
		p.beating, p.beat = true, now
		p.calls.Go(p.beatOnce)
	}
	if l := p.life; l != nil && l.revision > p.heard && now.Sub(l.renewed) >= unheard {
		p.resync()
	}
	for _, l := range p.leases {
		l.tend(now)
	}
	wait := tickEvery
	if due := p.due(); !p.beating {
		wait = min(wait, due.Sub(now))
	}
	for _, m := range p.view {
		if quiet := m.quiet.Add(TTL).Sub(now); quiet > 0 {
			wait = min(wait, quiet)
		}
	}
	return max(wait, time.Millisecond)
}

func wall(now, then time.Time) time.Duration { return now.Round(0).Sub(then.Round(0)) }

// due is when the next beat is.
func (p *Presence) due() time.Time {
	due := p.beat.Add(beatEvery)
	if p.beatDue.Before(due) {
		due = p.beatDue
	}
	if again := p.beat.Add(beatAgain); due.After(again) && p.suspects(time.Now()) {
		due = again
	}
	return due
}

// suspects says whether someone is silent for so long that a beat of this replica, once it is heard, is the proof of its death.
func (p *Presence) suspects(now time.Time) bool {
	for id, m := range p.view {
		if id != p.c.replica && !m.ending && now.Sub(m.quiet) >= TTL {
			return true
		}
	}
	return false
}

// check ends the life of a replica that cannot be sure that the others know it. It does not ask them: it is for whoever goes on
// after a pause.
func (p *Presence) check(now time.Time) {
	l := p.life
	if l == nil {
		return
	}
	silent := now.Sub(l.renewed)
	switch {
	case now.Sub(p.ticked) > TTL:
		p.lose(errPaused)
	case silent > TTL && !l.doubt:
		p.lose(errLate)
	case silent > p.c.options.Grace:
		p.lose(fmt.Errorf("the servers were away for more than %v", p.c.options.Grace))
	}
}

// holds says whether a life goes on, as far as this replica can know without asking.
func (p *Presence) holds(l *life) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l == p.life {
		p.check(time.Now())
	}
	return l == p.life && l != nil && !l.unsure
}

// lose ends the life and begins another one as soon as can be.
func (p *Presence) lose(why error) {
	l := p.life
	if l == nil {
		return
	}
	p.life, p.joined, p.beatDue = nil, make(chan struct{}), time.Now()
	close(l.lost)
	for _, leases := range p.leases {
		leases.drop(l)
	}
	p.ended()
	p.hurry()
	if p.c.end.Err() == nil {
		p.c.options.Log.LogAttrs(context.Background(), slog.LevelWarn, "lost this replica's leases", slog.Any("reason", why))
	}
}

// beatOnce sends one beat, the first one of a life where there is none, and takes the answer.
func (p *Presence) beatOnce() {
	p.mu.Lock()
	l, expected, newest := p.life, (*uint64)(nil), p.newest
	if l == nil {
		l = &life{number: p.lives + 1, lost: make(chan struct{})}
	} else {
		expected = new(l.revision)
	}
	p.mu.Unlock()
	sent := time.Now()
	value := beatRecord{Life: l.number, Name: p.c.options.Name, Since: p.since(l.number, sent).UnixMilli()}
	key := p.key(replicaSpace, p.c.replica)
	revision, err := p.put(p.c.end, key, value, replicaLife, expected)
	var now record
	var wrong bool
	if WrongSequence(err) {
		if now, err = p.get(p.c.end, key); err == nil || errors.Is(err, errNoKey) {
			wrong, err = true, nil
		}
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
		p.remake()
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.hurry()
	p.beating = false
	if expected != nil && l != p.life {
		return // it has ended meanwhile
	}
	p.beatDue = p.beat.Add(beatEvery)
	switch {
	case err != nil:
		l.doubt = true
		p.beatDue = p.beat.Add(beatAgain)
		if p.failing.IsZero() {
			p.failing = sent
		}
	case wrong:
		var b beatRecord
		if now.marker || json.Unmarshal(now.value, &b) != nil || b.Life != l.number {
			p.lose(errTaken)
			return
		}
		l.revision, p.beatDue = now.revision, p.beat // an attempt without an answer was stored
	default:
		l.revision, l.renewed, l.doubt, l.unsure = revision, sent, false, false
		p.failing = time.Time{}
		if revision <= newest {
			p.forget()
		}
		if expected == nil {
			p.life, p.lives = l, l.number
			close(p.joined)
		}
	}
}

// forget begins anew with who is there: the bucket is another one, whose revisions are lower.
func (p *Presence) forget() {
	clear(p.view)
	clear(p.gone)
	p.newest, p.heard = 0, 0
	p.ended()
	p.resync()
}

// since is when a life began.
func (p *Presence) since(number uint64, now time.Time) time.Time {
	if number != p.sinceOf {
		p.sinceOf, p.sinceAt = number, now
	}
	return p.sinceAt
}

// remake makes the bucket again where somebody has erased it.
func (p *Presence) remake() {
	if since := p.failingSince(); since.IsZero() || time.Since(since) < probeWait {
		return // a leader is being elected, most likely
	}
	ctx, cancel := context.WithTimeout(p.c.end, callWait)
	defer cancel()
	_, err := p.c.js.Stream(ctx, kvStream+p.c.Name(leasesBucket))
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return
	}
	if _, err = p.c.leasesStream(ctx); err != nil && p.c.end.Err() == nil {
		p.c.complain(nil, nil, fmt.Errorf("the bucket of leases was erased and cannot be made again: %w", err))
	}
}

// failingSince is when the first of the beats was sent of which none was stored; zero where the last one was.
func (p *Presence) failingSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failing
}

// leave tells the others that this replica goes. With it go its leases. Nobody beats any more, but the answer to the last beat, the
// first one of a life perhaps, may not have been waited for.
func (p *Presence) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*callWait)
	defer cancel()
	if err := p.markLeft(ctx); err != nil {
		p.c.options.Log.LogAttrs(ctx, slog.LevelWarn, "cannot announce this shutdown", slog.String("error", p.c.reason(err)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose(ErrClosed)
}

func (p *Presence) markLeft(ctx context.Context) error {
	key := p.key(replicaSpace, p.c.replica)
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l != nil {
		_, err := p.mark(ctx, key, markerRecord{Life: l.number, Left: true}, goneLife, l.revision)
		if !WrongSequence(err) {
			return err
		}
	}
	now, err := p.get(ctx, key)
	var b beatRecord
	if errors.Is(err, errNoKey) || err == nil && (now.marker || json.Unmarshal(now.value, &b) != nil) {
		return nil // the others know
	}
	if err != nil {
		return err
	}
	_, err = p.mark(ctx, key, markerRecord{Life: b.Life, Left: true}, goneLife, now.revision)
	return err
}

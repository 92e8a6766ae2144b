package nats

import (
	"context"
	"maps"
	"slices"
	"time"
)

// follow hears of the events of others until the journal is closed. caught is called when it is known what waits.
func (j *Journal) follow(caught func()) {
	j.log.keepFollowing(j.end, j.subject("*"), j.hear, caught, func(err error) {
		j.o.Log.Warn("subscription to other replicas' events broke; retrying", "error", err)
	})
}

// hear takes a step that somebody has taken.
func (j *Journal) hear(subject string, m message) {
	r, err := recordOf(m)
	if err != nil {
		return // whoever wants it says so
	}
	token := tokenOf(subject)
	j.mu.Lock()
	defer j.mu.Unlock()
	if was, ok := j.others[token]; ok && was.seq >= m.seq {
		return
	}
	if r.Given && r.Owner == j.owner && r.State == accepted && j.own[token] == nil {
		j.setOtherLocked(token, nil)
		j.own[token] = &event{record: r, seq: m.seq, adrift: true}
		j.bytes += r.bytes()
		j.news = renew(j.news)
		return
	}
	if !r.waits() || r.Owner == j.owner {
		j.setOtherLocked(token, nil)
		return
	}
	if e := j.own[token]; e != nil && (e.seq >= m.seq || e.record.Owner == r.Owner) {
		return
	}
	if len(j.others) < mostOthers {
		j.setOtherLocked(token, &other{r, m.seq})
	}
	if j.dead[r.Owner] {
		j.news = renew(j.news)
	}
}

// mostOthers bounds what is known of the events of others: far more than may wait.
const mostOthers = 100_000

// watch does what comes up until the journal is closed: it looks who is dead, and stores what could not be stored.
func (j *Journal) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		j.mu.Lock()
		lost := j.lost
		j.mu.Unlock()
		select {
		case <-j.end.Done():
			return
		case <-lost:
			j.reborn()
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(j.end, lookWait)
		_ = j.look(ctx) // away: nobody dies
		j.measure(ctx)
		cancel()
		j.tidy()
	}
}

// look finds out who of the owners of events is dead.
func (j *Journal) look(ctx context.Context) error {
	j.mu.Lock()
	all := map[string]bool{}
	for _, o := range j.others {
		if !j.dead[o.record.Owner] {
			all[o.record.Owner] = true
		}
	}
	j.mu.Unlock()
	for owner := range all {
		alive, err := j.owners.alive(ctx, owner)
		if err != nil {
			return &Error{textAway, err}
		}
		if alive {
			continue
		}
		j.mu.Lock()
		j.dead[owner] = true
		j.news = renew(j.news)
		j.mu.Unlock()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.dead) > mostDead {
		left := map[string]bool{}
		for _, o := range j.others {
			left[o.record.Owner] = true
		}
		maps.DeleteFunc(j.dead, func(owner string, _ bool) bool { return !left[owner] })
	}
	return nil
}

// measure looks how large the stream is.
func (j *Journal) measure(ctx context.Context) {
	j.mu.Lock()
	idle := !j.grown && j.size <= j.o.Bytes
	j.grown = false
	j.mu.Unlock()
	if idle {
		return
	}
	info, err := j.log.stream.Info(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.grown = true
		return
	}
	size := int64(info.State.Bytes)
	if size > j.o.Bytes && j.size <= j.o.Bytes {
		j.o.Log.ErrorContext(ctx, "inbox is full; refusing events", "bytes", size)
	}
	j.size = size
}

// mostDead is how many dead are remembered that have left nothing.
const mostDead = 100

// reborn makes this replica an owner again, whose lease was lost: of all that nobody has taken over meanwhile.
func (j *Journal) reborn() {
	owner, lost, release, err := j.owners.begin(j.end)
	if err != nil { // it is tried again: lost stays closed
		select {
		case <-time.After(followPause):
		case <-j.end.Done():
		}
		return
	}
	j.mu.Lock()
	old := j.release
	j.owner, j.lost, j.release = owner, lost, release
	j.mu.Unlock()
	old()
	j.o.Log.Warn("other replicas took over this one's events")
	for _, t := range j.tokens() {
		j.keep(t, owner)
	}
}

// keep makes an event the new owner's. Where that cannot be done now, another replica may take it over.
func (j *Journal) keep(token, owner string) {
	defer j.locks.lock(token)()
	e, err := j.mine(token)
	if e == nil || err != nil {
		return
	}
	j.mu.Lock()
	next, last := e.record, e.seq
	next.Owner, next.Given = owner, false
	if e.todo != nil {
		e.todo.record.Owner = owner
	}
	j.mu.Unlock()
	seq, _, err := j.log.put(j.end, step{subject: j.subject(token), id: newID(), header: next.header(), last: last, alone: !next.Stored})
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e.record, e.seq = next, seq
}

// tidy stores the ends of claims that could not be stored, and finds out what became of events of which that is not known.
func (j *Journal) tidy() {
	if !j.c.Conn().IsConnected() {
		return
	}
	j.mu.Lock()
	var late []string
	for t, e := range j.own {
		if e.todo != nil {
			late = append(late, t)
		}
	}
	doubts := slices.Collect(maps.Keys(j.doubts))
	j.mu.Unlock()
	for _, t := range late {
		if j.end.Err() != nil || !j.retry(t) {
			return
		}
	}
	for _, t := range doubts {
		if j.end.Err() != nil || !j.resolve(t) {
			return
		}
	}
}

// retry is false where the servers are away.
func (j *Journal) retry(token string) bool {
	defer j.locks.lock(token)()
	e, err := j.mine(token)
	if err != nil || e == nil || e.todo == nil {
		return true
	}
	return j.finish(j.end, token, e) == nil
}

// resolve is false where the servers are away.
func (j *Journal) resolve(token string) bool {
	defer j.locks.lock(token)()
	j.mu.Lock()
	id, is := j.doubts[token]
	j.mu.Unlock()
	if !is {
		return true
	}
	isNew, err := j.known(j.end, token, id)
	if err != nil {
		return false
	}
	e, err := j.mine(token)
	if err != nil {
		return true
	}
	if isNew && e != nil {
		j.setAdrift(token)
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.doubts, token)
	return true
}

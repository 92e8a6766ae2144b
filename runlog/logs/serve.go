package logs

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
)

// What replicas ask each other: a byte, the replica that asks, the number of its session with the other one, and what follows here.
const (
	// run, its id: what pages have of it, and from now on all that is stored of it. The answer: number of its log's last entry, records.
	askWatch = 'w'
	// nothing: the session goes on.
	askRenew = 'n'
	// runs with records that are stored; without records: the run is to be read. The answer: runs that are not followed.
	askPush = 'p'
)

// codeUnknown is the code of the answer that the run, or the session, is not known.
const codeUnknown = "unknown"

const (
	// sessionLife is how long a session goes on that is not renewed.
	sessionLife = 15 * time.Second
	// sessionMemory is how long it is known that a session is over.
	sessionMemory = time.Hour
	// pushWait is for the answer to what was sent to a follower. Without one it has to read again.
	pushWait = 2 * time.Second
	// maxPush is the most that is sent of a run at once, and maxPending what may wait for a follower.
	maxPush, maxPending = 1 << 20, 8 << 20
	// maxAnswers is how many answers may be on their way.
	maxAnswers = 1024
)

// follower is a replica that follows runs of this one, in one session.
type follower struct {
	log     *Log
	replica string
	session uint64
	renewed time.Time // the pump's

	mu      sync.Mutex
	pending []byte // runs with records
	sending bool
	over    bool
}

func appendAsk(kind byte, replica string, session uint64) []byte {
	return binary.AppendUvarint(appendText([]byte{kind}, replica), session)
}

// serve takes what another replica asks. It does not block.
func (l *Log) serve(m replicas.Message, answer func(replicas.Message)) {
	var kind byte
	p := parser{}
	if len(m.Body) > 0 {
		kind, p.rest = m.Body[0], m.Body[1:]
	}
	replica, session := string(p.text()), p.number()
	if p.bad {
		return // of another version
	}
	if kind == askPush {
		l.answer(answer, l.takePush(replica, session, p.rest))
		return
	}
	l.pump.do(func() {
		f := l.pump.followers[replica]
		a := replicas.Message{Code: codeUnknown}
		switch known := f != nil && f.session == session; kind {
		case askRenew:
			if known && !f.ended() {
				f.renewed, a.Code = time.Now(), ""
			}
		case askWatch:
			e := l.pump.entries[p.number()]
			if e == nil || e.over || e.last == 0 || e.run.ID != string(p.text()) {
				break
			}
			if !known {
				f = l.pump.newFollower(replica, session)
			} else if f.ended() {
				break // the other runs of the session must be read again: the replica learns that when it renews it
			}
			if !slices.Contains(e.followers, f) {
				e.followers = append(e.followers, f)
			}
			a = replicas.Message{Body: append(binary.AppendUvarint(nil, e.last), e.paged...)}
		}
		l.answer(answer, a)
	})
}

// answer sends an answer, which may take its time.
func (l *Log) answer(answer func(replicas.Message), m replicas.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.answers >= maxAnswers { // who asks waits in vain, and reads the store
		return
	}
	l.answers++
	l.running.Go(func() {
		answer(m)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answers--
	})
}

// newFollower begins a session with a replica, which ends the one before.
func (p *pump) newFollower(replica string, session uint64) *follower {
	if f := p.followers[replica]; f != nil {
		f.end()
	}
	f := &follower{log: p.log, replica: replica, session: session, renewed: time.Now()}
	p.followers[replica] = f
	return f
}

// expire ends sessions that were not renewed. It remembers for a while that they ended: a replica that was stopped may still use them.
func (p *pump) expire(now time.Time) {
	for replica, f := range p.followers {
		switch idle := now.Sub(f.renewed); {
		case idle >= sessionMemory:
			f.end()
			delete(p.followers, replica)
		case idle >= sessionLife:
			f.end()
		}
	}
}

// push has followers of the run get records that are stored. Without records they read the store.
func (e *entry) push(records []byte) {
	if len(e.followers) == 0 {
		return
	}
	e.followers = slices.DeleteFunc(e.followers, func(f *follower) bool { return !f.add(e.handle, records) })
}

func (f *follower) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// end ends the session. The replica learns it when it renews it.
func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.pending = true, nil
}

// add has a run's records sent. It reports false if the session is over. It is called by the pump's goroutine.
func (f *follower) add(run uint64, records []byte) bool {
	if len(records) > maxPush {
		records = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending)+len(records) > maxPending {
		f.over, f.pending = true, nil
	}
	if f.over {
		return false
	}
	f.pending = appendText(binary.AppendUvarint(f.pending, run), records)
	if !f.sending {
		f.sending = true
		f.log.running.Go(f.send)
	}
	return true
}

// send sends what waits until nothing does.
func (f *follower) send() {
	l := f.log
	begin := appendAsk(askPush, l.options.Replica, f.session)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		<-timer.C
		f.mu.Lock()
		body := f.pending
		f.pending = nil
		if f.sending = len(body) > 0; !f.sending {
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		timer.Reset(l.options.Push)
		ctx, cancel := context.WithTimeout(l.ctx, pushWait)
		a, err := l.options.Bus.Ask(ctx, f.replica, replicas.Message{Wait: pushWait, Body: append(begin[:len(begin):len(begin)], body...)})
		cancel()
		if err != nil || a.Code != "" {
			f.end()
			return
		}
		if len(a.Body) > 0 {
			l.pump.do(func() { f.unfollow(a.Body) })
		}
	}
}

// unfollow sends nothing more of runs.
func (f *follower) unfollow(runs []byte) {
	for p := (parser{rest: runs}); len(p.rest) > 0; {
		if e := f.log.pump.entries[p.number()]; e != nil {
			e.followers = slices.DeleteFunc(e.followers, func(o *follower) bool { return o == f })
		}
	}
}

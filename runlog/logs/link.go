package logs

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
)

const (
	// renewEvery is how often a session is renewed, and how soon a tail learns that the owner of its run is gone.
	renewEvery = 1500 * time.Millisecond
	// askWait is for an answer of the owner. Without one, what is stored is read.
	askWait = time.Second
	// maxQueue is how many bytes may wait for a tail's goroutine. Beyond it the tail reads again.
	maxQueue = 4 << 20
)

// link is a session with the owner of runs that are followed here. It is guarded by the log's lock.
type link struct {
	log     *Log
	replica string
	session uint64
	tails   map[uint64]*tail // by run
	down    time.Time        // when the owner did not answer; zero: it does
}

// join adds a tail to the link with the owner of a run, and makes one if there is none.
func (l *Log) join(t *tail, h *head) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.links[h.replica]
	if k == nil {
		if l.closed {
			return nil
		}
		k = &link{log: l, replica: h.replica, session: rand.Uint64() >> 1, tails: map[uint64]*tail{}}
		l.links[h.replica] = k
		l.running.Go(k.renew) // ends when it has no tails
	}
	k.tails[h.run] = t
	return k
}

// part removes a tail from a link.
func (l *Log) part(t *tail, k *link, run uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k != nil && k.tails[run] == t {
		delete(k.tails, run)
	}
}

// renew keeps the session up while there are tails. If the owner does not know it, or does not answer, the tails read the store.
func (k *link) renew() {
	l := k.log
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		if len(k.tails) == 0 {
			delete(l.links, k.replica)
			l.mu.Unlock()
			return
		}
		session := k.session
		l.mu.Unlock()
		a, err := k.ask(appendAsk(askRenew, l.options.Replica, session))
		if err != nil || a.Code != "" {
			k.reset(session, err != nil)
		}
	}
}

// reset begins another session: what was sent in the one before may be lost.
func (k *link) reset(session uint64, down bool) {
	k.log.mu.Lock()
	defer k.log.mu.Unlock()
	if down {
		k.down = time.Now()
	}
	if k.session != session {
		return
	}
	k.session = rand.Uint64() >> 1
	for _, t := range k.tails {
		t.lose()
	}
}

func (k *link) ask(body []byte) (replicas.Message, error) {
	ctx, cancel := context.WithTimeout(k.log.ctx, askWait)
	defer cancel()
	return k.log.options.Bus.Ask(ctx, k.replica, replicas.Message{Wait: askWait, Body: body})
}

// watch asks the owner of a run for what pages have of it, and to be sent what is stored from now on. ok is false if it does not answer, or
// is not the owner any more.
func (k *link) watch(a *applied) (last uint64, records []byte, ok bool) {
	l := k.log
	l.mu.Lock()
	session := k.session
	down := !k.down.IsZero() && time.Since(k.down) < renewEvery
	l.mu.Unlock()
	if down {
		return 0, nil, false
	}
	body := binary.AppendUvarint(appendAsk(askWatch, l.options.Replica, session), a.head.run)
	m, err := k.ask(appendText(body, a.run))
	if err != nil {
		k.reset(session, true)
		return 0, nil, false
	}
	l.mu.Lock()
	k.down = time.Time{}
	same := session == k.session
	l.mu.Unlock()
	p := parser{rest: m.Body}
	last = p.number()
	return last, p.rest, m.Code == "" && !p.bad && same
}

// takePush takes what the owner of runs sends, and returns the answer.
func (l *Log) takePush(replica string, session uint64, items []byte) replicas.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.links[replica]
	if k == nil || k.session != session {
		return replicas.Message{Code: codeUnknown}
	}
	var unknown []byte
	for p := (parser{rest: items}); len(p.rest) > 0; {
		run, records := p.number(), p.text()
		if t := k.tails[run]; t != nil {
			t.push(records)
		} else {
			unknown = binary.AppendUvarint(unknown, run)
		}
	}
	return replicas.Message{Body: unknown}
}

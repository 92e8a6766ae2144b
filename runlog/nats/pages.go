package nats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/runlog"
)

// writer is who has written a run's last message, and where it may have more of it.
type writer struct {
	replica   string
	run, life uint64 // no life: no pages
}

// readPages takes what pages have of a run behind its own messages. What its owner, should it be alive, puts into pages meanwhile, may
// not be in it.
func (l *Log) readPages(ctx context.Context, a *applied) error {
	subject := l.pageSubject(a.wrote.replica, a.wrote.life)
	last, data, err := l.lastOn(ctx, &l.pages, subject)
	if errors.Is(err, runlog.ErrUnknown) || err == nil && last <= a.page {
		return nil
	}
	if err != nil {
		return err
	}
	floor, _, err := parsePage(data, nothing)
	if err != nil {
		return err
	}
	from := max(floor, a.page+1)
	if from > last {
		return nil
	}
	pages, err := l.pagesOf(ctx, subject, from, last)
	if err != nil {
		return err
	}
	return a.takePages(pages)
}

// stored is a message that is stored.
type stored struct {
	seq  uint64
	data []byte
}

// pagesOf reads those of a subject from a sequence on, up to one that is stored.
func (l *Log) pagesOf(ctx context.Context, subject string, from, last uint64) ([]stored, error) {
	wait := staleWait
	for range readTries {
		var all []stored
		if err := l.batches(ctx, l.pages.name, subject, from, func(seq uint64, m *client.Msg) (bool, error) {
			all = append(all, stored{seq, m.Data})
			return seq >= last, nil
		}); err != nil {
			return nil, err
		}
		if whole(all, from, last) {
			return all, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		wait *= 2
	}
	return nil, errStale
}

// whole says whether no page is missing between the two, above the floor of the last one: who writes them may have removed what is below
// since it was seen where it is.
func whole(pages []stored, from, last uint64) bool {
	if len(pages) == 0 || pages[len(pages)-1].seq < last {
		return false
	}
	for _, p := range pages {
		if floor, _, err := parsePage(p.data, nothing); err == nil {
			from = max(from, floor)
		}
	}
	for i, p := range pages {
		_, before, err := parsePage(p.data, nothing)
		if err != nil || isSeal(p.data) {
			continue // the one is told when it is taken; the other is the last
		}
		if i == 0 && before >= from || i > 0 && before >= from && before != pages[i-1].seq {
			return false
		}
	}
	return true
}

// sealed is a subject of pages behind which nothing comes any more.
type sealed struct {
	mu    sync.Mutex
	at    uint64   // sequence of the seal; 0 before it is known
	floor uint64   // what is stored before it is nothing that is missed
	from  uint64   // what is stored from there on is in pages
	pages []stored // a replica that is gone leaves many runs: they are read once
	used  time.Time
}

// sealedFor is how long they are held for other runs.
const sealedFor = time.Minute

// seal has the pages of whoever wrote the run refused from now on, and takes what they have of it.
func (l *Log) seal(ctx context.Context, a *applied) error {
	subject := l.pageSubject(a.wrote.replica, a.wrote.life)
	now := time.Now()
	l.mu.Lock()
	for other, s := range l.sealed {
		if now.Sub(s.used) > sealedFor {
			delete(l.sealed, other)
		}
	}
	s := l.sealed[subject]
	if s == nil {
		s = new(sealed)
		l.sealed[subject] = s
	}
	s.used = now
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == 0 {
		seq, data, err := l.lastOn(ctx, &l.pages, subject)
		if err != nil && !errors.Is(err, runlog.ErrUnknown) {
			return err
		}
		if err == nil {
			if s.floor, _, err = parsePage(data, nothing); err != nil {
				return err
			}
		}
		if !isSeal(data) { // what is stored meanwhile has no lower floor
			m := client.NewMsg(subject)
			m.Data = appendPage(nil, kindSeal, s.floor, 0)
			if seq, err = l.request(ctx, m); err != nil {
				return fmt.Errorf("%w: %w", runlog.ErrAway, err)
			}
		}
		s.at, s.from = seq, seq
	}
	if from := max(s.floor, a.page+1); from < s.from {
		pages, err := l.pagesOf(ctx, subject, from, s.at)
		if err != nil {
			return err
		}
		s.pages, s.from = pages, from
	}
	return a.takePages(s.pages)
}

// takePages takes what pages have of the run.
func (a *applied) takePages(pages []stored) error {
	for _, p := range pages {
		if _, _, err := parsePage(p.data, a.takeInPage); err != nil {
			return fmt.Errorf("page %d: %w", p.seq, err)
		}
	}
	return nil
}

// takeInPage takes what a page has of a run, where it is this one.
func (a *applied) takeInPage(in inPage) error {
	switch {
	case in.run != a.wrote.run || in.after < a.whole || in.after == a.whole && in.number <= a.number:
		return nil // of another run, or there already
	case in.after > a.whole || in.number > a.number+1:
		return errStale // it is behind a message that was not read, which is there by now
	}
	a.number++
	a.paged = append(a.paged, in.records...)
	return a.records(in.records)
}

// Who follows a run tells its owner, and tells it again every followEvery. The owner writes it by itself then, as it goes, and no
// pages of it, until it has not been told for followFor.
const (
	followsToken = "follows"
	followEvery  = 5 * time.Second
	followFor    = 4 * followEvery
	// followWait is for an owner's answer: it has then written what it had in pages.
	followWait = 300 * time.Millisecond
	// asks is how many of those may wait for the goroutine, and maxAsks for a run.
	asks, maxAsks = 4 << 10, 64
)

func (l *Log) followed(a *applied) (subject string, question []byte) {
	return l.cluster.Subject(followsToken, cluster.Token(a.wrote.replica)), append(binary.AppendUvarint(nil, a.wrote.run), a.run...)
}

// tell tells the owner of a run that it is followed here.
func (l *Log) tell(a *applied) error {
	subject, question := l.followed(a)
	return l.conn.Publish(subject, question)
}

// ask does that, and takes what the owner has written by then; false where it does not say.
func (l *Log) ask(ctx context.Context, a *applied) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, min(followWait, 10*l.ackWait))
	defer cancel()
	subject, question := l.followed(a)
	m, err := l.conn.RequestWithContext(wait, subject, question)
	if err != nil {
		return false, context.Cause(ctx)
	}
	if lose := l.lose; lose != nil && lose(m) {
		return false, nil
	}
	seq, n := binary.Uvarint(m.Data)
	if n <= 0 {
		return false, nil
	}
	if seq <= a.last {
		return true, nil
	}
	return true, l.readUpTo(ctx, a, seq)
}

// asked takes the word that a run is followed at another replica.
func (p *pump) asked(m *client.Msg, now time.Time) {
	handle, n := binary.Uvarint(m.Data)
	if n <= 0 {
		return
	}
	if e := p.entries[handle]; e != nil && e.run.ID == string(m.Data[n:]) {
		e.follow(m.Reply, now)
	}
}

// follow writes the run by itself from now on, and answers when there is nothing of it that is only in pages.
func (e *entry) follow(reply string, now time.Time) {
	e.followed = now.Add(followFor)
	if e.pages == 0 && e.phase != phasePage {
		e.reply(reply)
		return
	}
	if reply != "" && len(e.asks) < maxAsks {
		e.asks = append(e.asks, reply)
	}
	e.owed = now
	e.look(now)
}

// reply says up to where the run is written. Who does not hear it reads pages.
func (e *entry) reply(to string) {
	if to != "" {
		_ = e.log.conn.Publish(to, binary.AppendUvarint(nil, e.last))
	}
}

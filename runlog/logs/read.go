package logs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

const (
	// staleWait is how long to wait for what changes while it is read; it becomes longer each time, up to readTries.
	staleWait = 2 * time.Millisecond
	readTries = 11
)

// errStale says that what was read does not fit together, since it has changed meanwhile.
var errStale = fmt.Errorf("%w: what is stored cannot be read", runlog.ErrAway)

// info returns what a run's log is, and its head; [runlog.ErrUnknown].
func (l *Log) info(ctx context.Context, run string) (store.Info, head, error) {
	info, err := l.runs.Info(ctx, runName(run))
	if errors.Is(err, store.ErrNotFound) {
		return info, head{}, runlog.ErrUnknown
	}
	if err != nil {
		return info, head{}, away(err)
	}
	h, err := parseHead(info.Head)
	return info, h, err
}

// expired reports whether entries, or their log, were removed.
func expired(err error) bool {
	return errors.Is(err, store.ErrExpired) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDeleted)
}

// readOwn takes what the run's log has behind a.last.
func (l *Log) readOwn(ctx context.Context, a *applied) error {
	info, h, err := l.info(ctx, a.run)
	if err != nil {
		return err
	}
	next := a.last + 1
	if a.last == 0 {
		next = h.begin
	}
	if next <= info.Last {
		for e, err := range l.runs.Read(ctx, a.name, store.Range{From: next, Before: info.Last + 1}) {
			switch {
			case expired(err):
				return errBegun
			case err != nil:
				return away(err)
			case e.N != next:
				return errStale
			}
			if err := a.takeEntry(e.N, e.Data); err != nil {
				return err
			}
			next++
		}
		if next <= info.Last || a.follower == nil {
			return errStale
		}
		a.paged = nil
	}
	if h.life != a.head.life || !h.sameOwner(&a.head) {
		a.page = 0
	}
	a.rev, a.head = info.Rev, h
	return nil
}

// readPages takes what pages have of the run behind its log. What its owner puts into pages meanwhile may not be in it.
func (l *Log) readPages(ctx context.Context, a *applied) error {
	name := pageName(a.head.replica, a.head.life)
	info, err := l.pages.Info(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return away(err)
	}
	from := max(a.page, a.head.page) + 1
	return l.eachPage(ctx, name, max(from, info.First), info.Last, func(n uint64, data []byte) error {
		a.page = n
		return parsePage(data, a.takeItem)
	})
}

// eachPage gives take the entries of a page log from one to another.
func (l *Log) eachPage(ctx context.Context, name string, from, last uint64, take func(n uint64, data []byte) error) error {
	if from > last {
		return nil
	}
	for e, err := range l.pages.Read(ctx, name, store.Range{From: from, Before: last + 1}) {
		switch {
		case expired(err) || err == nil && e.N != from:
			return errStale // they were removed, so the runs' logs have it by now
		case err != nil:
			return away(err)
		}
		if err := take(e.N, e.Data); err != nil {
			return err
		}
		from++
	}
	if from <= last {
		return errStale
	}
	return nil
}

// takeItem takes what a page has of a run, if it is this one.
func (a *applied) takeItem(it pageItem) error {
	switch {
	case it.run != a.head.run || it.after < a.last:
		return nil
	case it.after > a.last:
		return errStale // the run's log has more by now
	}
	a.paged = append(a.paged, it.records...)
	return stale(a.take(it.records))
}

// stale makes a gap an errStale.
func stale(err error) error {
	if gap, ok := errors.AsType[*tube.GapError](err); ok {
		return fmt.Errorf("%w: %w", errStale, gap)
	}
	return err
}

// again reads until what is read fits together.
func again(ctx context.Context, read func() error) error {
	pauses := backoff.New(staleWait, staleWait<<readTries)
	for try := 1; ; try++ {
		err := read()
		if !errors.Is(err, errStale) || try == readTries {
			return err
		}
		if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// unchanged returns an errStale if the run's log has changed since it was read.
func (l *Log) unchanged(ctx context.Context, a *applied) error {
	info, _, err := l.info(ctx, a.run)
	if err == nil && info.Rev != a.rev {
		return errStale
	}
	return err
}

// readRecords gives take the records of the batch that begins with an entry of a run's log.
func (l *Log) readRecords(ctx context.Context, run string, n uint64, take func(record)) error {
	var records []byte
	for limit := 1; ; limit = 0 { // mostly they are one entry
		records = records[:0]
		next := n
		for e, err := range l.runs.Read(ctx, runName(run), store.Range{From: n, Limit: limit}) {
			switch {
			case expired(err) || err == nil && e.N != next:
				return errBegun
			case err != nil:
				return away(err)
			case len(e.Data) == 0:
				return errRecord
			}
			next++
			if records = append(records, e.Data[1:]...); e.Data[0] == entryLast {
				return parseRecords(records, func(r record) error { take(r); return nil })
			}
		}
		if next == n || limit == 0 {
			return errStale
		}
	}
}

// sealed is a page log behind which nothing comes any more.
type sealed struct {
	mu    sync.Mutex
	done  bool
	items map[uint64][]pageItem // by run: a replica that is gone leaves many runs, and they are read once
	used  time.Time
}

// sealedFor is how long that is kept for other runs.
const sealedFor = time.Minute

// seal has the owner of a run write no more pages where it did, and takes what they have of the run.
func (l *Log) seal(ctx context.Context, a *applied) error {
	name, now := pageName(a.head.replica, a.head.life), time.Now()
	l.mu.Lock()
	for other, s := range l.sealed {
		if now.Sub(s.used) > sealedFor {
			delete(l.sealed, other)
		}
	}
	s := l.sealed[name]
	if s == nil {
		s = new(sealed)
		l.sealed[name] = s
	}
	s.used = now
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		if err := l.readSealed(ctx, name, s); err != nil {
			return err
		}
	}
	for _, it := range s.items[a.head.run] {
		if err := a.takeItem(it); err != nil {
			return err
		}
	}
	return nil
}

// readSealed seals a page log and reads it.
func (l *Log) readSealed(ctx context.Context, name string, s *sealed) error {
	info, err := l.pages.Append(ctx, name, store.Batch{ID: newID(), After: store.Any, Entries: []store.Entry{{Data: []byte{pageSeal}}}})
	if err != nil {
		return away(err)
	}
	items := map[uint64][]pageItem{}
	if err := l.eachPage(ctx, name, max(info.First, 1), info.Last, func(_ uint64, data []byte) error {
		return parsePage(data, func(it pageItem) error {
			items[it.run] = append(items[it.run], it)
			return nil
		})
	}); err != nil {
		return err
	}
	s.items, s.done = items, true
	return nil
}

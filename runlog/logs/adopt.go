package logs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
)

// Find is that of [runlog.Shared].
func (l *Log) Find(ctx context.Context, run string) (f runlog.Found, err error) {
	err = again(ctx, func() error {
		f, err = l.find(ctx, run)
		return err
	})
	return f, err
}

func (l *Log) find(ctx context.Context, run string) (runlog.Found, error) {
	_, h, err := l.info(ctx, run)
	if err != nil {
		return runlog.Found{}, err
	}
	f := runlog.Found{ID: run, Replica: h.replica, Ended: h.end > 0}
	take := func(r record) {
		switch r.kind {
		case recordRun, recordOther:
			f.Opening = r.text
		case recordEnd:
			f.Head = r.text
		}
	}
	if err := l.readRecords(ctx, run, h.opening, take); err != nil {
		return runlog.Found{}, err
	}
	if f.Ended && h.end != h.opening {
		if err := l.readRecords(ctx, run, h.end, take); err != nil {
			return runlog.Found{}, err
		}
	}
	return f, nil
}

// Running is that of [runlog.Shared].
func (l *Log) Running(ctx context.Context, replica string) (all []runlog.Going, err error) {
	prefix := ""
	if replica != "" {
		prefix = store.KeyPart(replica) + "/"
	}
	for r, err := range l.going.Range(ctx, prefix, false) {
		if err != nil {
			return nil, away(err)
		}
		if g, ok := parseRunning(r.Meta); ok {
			all = append(all, g)
		}
	}
	return all, nil
}

// Adopt is that of [runlog.Shared].
func (l *Log) Adopt(ctx context.Context, run, from string) (*runlog.Left, error) {
	var a *applied
	var noted uint64
	err := again(ctx, func() (err error) {
		if noted, err = l.noted(ctx, from, run); err != nil {
			return err
		}
		a = l.newApplied(run)
		err = l.readOwn(ctx, a)
		switch {
		case err != nil:
			return err
		case a.ended():
			return runlog.ErrEnded
		case a.head.replica != from:
			return runlog.ErrFenced
		}
		return l.seal(ctx, a)
	})
	if err != nil {
		if errors.Is(err, runlog.ErrUnknown) || errors.Is(err, runlog.ErrEnded) || errors.Is(err, runlog.ErrFenced) {
			l.unnote(from, run, noted)
		}
		return nil, err
	}
	note, err := l.noteRunning(ctx, run)
	if err != nil {
		return nil, away(err)
	}
	p, err := l.claim(a)
	if err != nil {
		if errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrUnknown) {
			l.unnote(l.options.Replica, run, note)
		}
		return nil, err
	}
	if from != l.options.Replica {
		l.unnote(from, run, noted)
	}
	p.note = note
	l.mu.Lock()
	l.adopted[run] = p
	l.mu.Unlock()
	l.log.InfoContext(ctx, "took over a run from another replica", slog.String("run", run), slog.String("replica", from))
	return &runlog.Left{ID: run, Opening: load(&a.opening), Tube: p.tube}, nil
}

// noted returns the revision of a replica's record in the table running; 0 is none. Only that revision is deleted: the replica may adopt the run
// again meanwhile, and replaces the record before it does. A revision that is too old deletes nothing, and the record is found once more.
func (l *Log) noted(ctx context.Context, replica, run string) (rev uint64, err error) {
	r, err := l.going.Peek(ctx, runningKey(replica, run))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return r.Rev, away(err)
}

func (l *Log) unnote(replica, run string, rev uint64) {
	l.pump.do(func() { l.pump.unnote(replica, run, rev) })
}

// claim writes the batch that makes a run this replica's. It does not end with its caller: the batch may be stored although there is no answer,
// and a run whose owner does not know of it would never end.
func (l *Log) claim(a *applied) (*position, error) {
	life := make(chan uint64, 1)
	if !l.pump.do(func() { life <- l.pump.page.life }) {
		return nil, runlog.ErrClosed
	}
	h := head{replica: l.options.Replica, run: l.handles.Add(1), begin: a.head.begin, opening: a.head.opening}
	select {
	case h.life = <-life:
	case <-l.ctx.Done():
		return nil, runlog.ErrClosed
	}
	records := append([]byte{entryLast, recordAdopt}, a.paged...)
	b := store.Batch{ID: newID(), After: a.rev, Entries: entriesOf(records), Head: h.append(nil)}
	for pauses := backoff.New(firstRetry, lastRetry); ; {
		info, err := l.runs.Append(l.ctx, a.name, b)
		if err == nil {
			t := a.follower.Tube()
			return &position{tube: t, next: t.Len(), at: t.Behind(), rev: info.Rev, last: info.Last, head: h}, nil
		}
		if moved, ok := errors.AsType[*store.MovedLog](err); ok {
			if moved.Rev == store.New {
				return nil, runlog.ErrUnknown // dropped since it was read
			}
			return nil, runlog.ErrFenced
		}
		if backoff.Sleep(l.ctx, pauses.NextBackOff()) != nil {
			return nil, runlog.ErrClosed
		}
	}
}

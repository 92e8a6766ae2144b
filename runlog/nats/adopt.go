package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/runlog"
)

// Find is that of [runlog.Shared].
func (l *Log) Find(ctx context.Context, run string) (f runlog.Found, err error) {
	err = l.again(ctx, func() error {
		f, err = l.find(ctx, run)
		return err
	})
	return f, err
}

func (l *Log) find(ctx context.Context, run string) (runlog.Found, error) {
	seq, data, err := l.last(ctx, run)
	if err != nil {
		return runlog.Found{}, err
	}
	h, _, err := parse(data)
	if err != nil {
		return runlog.Found{}, err
	}
	f := runlog.Found{ID: run, Replica: h.replica}
	a := &applied{run: run, lean: true, options: l.options.Tube(), begin: h.begin}
	if h.begin == 0 {
		a.begin = seq
	}
	take := func(n uint64, data []byte) (bool, error) {
		err := a.take(n, data)
		return a.follower != nil || n >= seq, err
	}
	if h.flags&flagOther != 0 || h.flags&(flagEnded|flagMore) == flagEnded && h.part > 0 {
		err = l.readUpTo(ctx, a, seq) // the opening is somewhere, or the head in more than one message
	} else {
		err = l.read(ctx, run, max(a.begin, 1), take)
		if err == nil && a.follower == nil {
			err = l.readUpTo(ctx, a, seq) // the leader has it, and the server that has answered did not yet
		}
		if err == nil && h.flags&flagEnded != 0 && a.last < seq {
			err = a.take(seq, data)
		}
	}
	if err == nil && a.follower == nil {
		err = l.begun(ctx, a)
		f.Replica = a.owner
	}
	if err != nil {
		return runlog.Found{}, err
	}
	f.Opening, f.Head = load(&a.opening), load(&a.head)
	f.Ended = f.Head != nil
	return f, nil
}

// Adopt is that of [runlog.Shared].
func (l *Log) Adopt(ctx context.Context, run, from string) (*runlog.Left, error) {
	a, err := l.replay(ctx, run)
	switch {
	case errors.Is(err, runlog.ErrUnknown):
		l.unnote(from, run)
		return nil, err
	case err != nil:
		return nil, err
	case a.ended():
		l.unnote(from, run)
		return nil, runlog.ErrEnded
	case a.owner != from:
		l.unnote(from, run)
		return nil, runlog.ErrFenced
	}
	if a.wrote.life != 0 {
		if err := l.again(ctx, func() error { return l.seal(ctx, a) }); err != nil {
			return nil, err
		}
	}
	me := l.cluster.Replica()
	if _, err := l.request(ctx, l.note(me, run)); err != nil {
		return nil, fmt.Errorf("%w: %w", runlog.ErrAway, err)
	}
	seq, err := l.claim(ctx, a)
	if err != nil {
		if errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrUnknown) {
			l.unnote(me, run)
		}
		return nil, err
	}
	if from != me {
		l.unnote(from, run)
	}
	t := a.follower.Tube()
	l.mu.Lock()
	l.adopted[run] = &position{tube: t, next: t.Len(), at: t.Behind(), last: seq, begin: a.begin, other: a.other}
	l.mu.Unlock()
	l.log.InfoContext(ctx, "took over a run from another replica", slog.String("run", run), slog.String("replica", from))
	return &runlog.Left{ID: run, Opening: load(&a.opening), Tube: t}, nil
}

// claim writes the message that makes a run this replica's.
func (l *Log) claim(ctx context.Context, a *applied) (uint64, error) {
	mine := head{id: id{l.cluster.Replica(), l.handles.Add(1), 1, 0}, begin: a.begin, before: a.last}
	if a.other {
		mine.flags |= flagOther
	}
	m := client.NewMsg(l.subject(a.run))
	m.Header[expectLast] = []string{strconv.FormatUint(a.last, 10)}
	m.Data = append(append(mine.append(nil), recordAdopt), a.paged...)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		seq, err := l.request(ctx, m)
		if err == nil {
			return seq, nil
		}
		var refused *apiError
		if errors.As(err, &refused) && refused.ErrCode == errWrongLast {
			seq, data, err := l.last(ctx, a.run)
			if errors.Is(err, runlog.ErrUnknown) {
				return 0, err // dropped since it was read
			}
			if err == nil && seq > a.last {
				if h, _, err := parse(data); err == nil && h.id == mine.id {
					return seq, nil
				}
				return 0, runlog.ErrFenced
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", runlog.ErrAway, err)
		}
	}
}

func (l *Log) request(ctx context.Context, m *client.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ackWait)
	defer cancel()
	answer, err := l.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	if lose := l.lose; lose != nil && lose(answer) {
		return 0, errNoAnswer
	}
	seq, _, err := parseAck(answer.Data)
	return seq, err
}

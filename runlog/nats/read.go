package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/runlog"
)

const (
	// readBatch and readBytes are what is asked for at once of what is stored.
	readBatch = 256
	readBytes = 4 << 20
	// answerWait is for one answer of a server, or the next message of a batch.
	answerWait = 2 * time.Second
	// staleWait is how long to wait for a server that has not yet what another one has; it becomes longer each time.
	staleWait = 2 * time.Millisecond
	// askWait is when the leader is asked whether there is anything.
	askWait = 10 * time.Millisecond
	// readTries is how often a server may not have it.
	readTries = 11
)

// last returns the last message of a run, as the leader has it. [runlog.ErrUnknown] is for certain: it is not for who led once to say that.
func (l *Log) last(ctx context.Context, run string) (seq uint64, data []byte, err error) {
	return l.lastOn(ctx, &l.runs, l.subject(run))
}

// lastOn does that for a subject of a stream.
func (l *Log) lastOn(ctx context.Context, s *stream, subject string) (seq uint64, data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	m, err := l.conn.RequestWithContext(ctx, lastRequest(s.name), lastOf(subject))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", runlog.ErrAway, err)
	}
	if seq, data, err = parseLast(m.Data); errors.Is(err, runlog.ErrUnknown) {
		return s.certain(ctx, subject)
	}
	return seq, data, err
}

// certain returns the last message of a subject, as nobody has it who led once.
func (s *stream) certain(ctx context.Context, subject string) (seq uint64, data []byte, err error) {
	m, err := s.barrier.Last(ctx, subject)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %w", runlog.ErrAway, err)
	case m == nil:
		return 0, nil, runlog.ErrUnknown
	}
	seq, err = sequenceOf(m)
	return seq, m.Data, err
}

func sequenceOf(m *client.Msg) (uint64, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("runlog: a message without a sequence: %w", err)
	}
	return seq, nil
}

// lastHere returns the sequence of the last message of a run that the server has that answers. It may lack the newest, and costs
// the leader nothing.
func (l *Log) lastHere(ctx context.Context, run string) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	m, err := l.conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+l.runs.name+"."+l.subject(run), nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", runlog.ErrAway, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return sequenceOf(m)
	case "404":
		return 0, runlog.ErrUnknown
	default:
		return 0, fmt.Errorf("%w: %s %s", runlog.ErrAway, status, m.Header.Get("Description"))
	}
}

// read gives take what a run has stored from a sequence on, as far as the server that answers has it, until take says that it is
// enough.
func (l *Log) read(ctx context.Context, run string, from uint64, take func(seq uint64, data []byte) (enough bool, err error)) error {
	return l.batches(ctx, l.runs.name, l.subject(run), from, func(seq uint64, m *client.Msg) (bool, error) { return take(seq, m.Data) })
}

// batches does that for a stream and the subjects in it.
func (l *Log) batches(ctx context.Context, stream, subject string, from uint64, take func(seq uint64, m *client.Msg) (enough bool, err error)) error {
	messages := make(chan *client.Msg, readBatch+1) // and the end
	sub, err := l.conn.ChanSubscribe(l.conn.NewInbox(), messages)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // an error says that the connection is gone
	for {
		ask := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`, from, subject, readBatch, readBytes)
		if err := l.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, ask); err != nil {
			return fmt.Errorf("%w: %w", runlog.ErrAway, err)
		}
		for more := true; more; {
			m, err := next(ctx, messages)
			if err != nil {
				return fmt.Errorf("%w: %w", runlog.ErrAway, err)
			}
			switch m.Header.Get("Status") {
			case "":
			case "204": // the end of the batch
				if n, _ := strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64); n == 0 {
					return nil
				}
				more = false
				continue
			case "404":
				return nil
			default:
				return fmt.Errorf("runlog: %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
			}
			seq, err := sequenceOf(m)
			if err != nil {
				return err
			}
			from = seq + 1
			if enough, err := take(seq, m); err != nil || enough {
				return err
			}
		}
	}
}

func next(ctx context.Context, messages <-chan *client.Msg) (*client.Msg, error) {
	late := time.NewTimer(answerWait)
	defer late.Stop()
	select {
	case m := <-messages:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late.C:
		return nil, errNoAnswer
	}
}

// errStale says that no server has had what one of them has acknowledged.
var errStale = fmt.Errorf("%w: what is stored cannot be read", runlog.ErrAway)

// again does what fails while the servers elect, until ctx ends, or more than that is the matter.
func (l *Log) again(ctx context.Context, do func() error) error {
	begin, wait := time.Now(), firstRetry
	for {
		err := do()
		if !errors.Is(err, runlog.ErrAway) || time.Since(begin) >= awayAfter {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-l.ctx.Done():
			return runlog.ErrClosed
		}
		wait = min(2*wait, lastRetry)
	}
}

// readUpTo takes what is stored behind a.last, up to the message of a sequence at least. A server that does not have it yet is asked
// again.
func (l *Log) readUpTo(ctx context.Context, a *applied, seq uint64) error {
	wait := staleWait
	for range readTries {
		from := a.last + 1
		if a.last == 0 {
			from = max(a.begin, 1)
		}
		if err := l.read(ctx, a.run, from, func(n uint64, data []byte) (bool, error) {
			if h, _, err := parse(data); err == nil && a.last > 0 && h.before != a.last {
				return true, nil // this server lacks one between: it is asked again
			}
			return n >= seq, a.take(n, data)
		}); err != nil {
			return err
		}
		if a.last >= seq {
			return nil
		}
		if wait > askWait {
			if _, _, err := l.last(ctx, a.run); errors.Is(err, runlog.ErrUnknown) {
				return err // it was dropped meanwhile
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait *= 2
	}
	return errStale
}

// replay takes all that is stored of a run in its own messages.
func (l *Log) replay(ctx context.Context, run string) (a *applied, err error) {
	err = l.again(ctx, func() error {
		a, err = l.replayOnce(ctx, run)
		return err
	})
	return a, err
}

func (l *Log) replayOnce(ctx context.Context, run string) (*applied, error) {
	seq, data, err := l.last(ctx, run)
	if err != nil {
		return nil, err
	}
	h, _, err := parse(data)
	if err != nil {
		return nil, err
	}
	a := &applied{run: run, options: l.options.Tube(), begin: h.begin}
	if h.begin == 0 {
		a.begin = seq
	}
	if err := l.readUpTo(ctx, a, seq); err != nil {
		return nil, err
	}
	if a.follower == nil {
		return a, l.begun(ctx, a)
	}
	return a, nil
}

// begun reads on where of a run's beginning only a part is found, as far as the leader says that there is any, or who led once. Where there is
// no more it is [runlog.ErrUnknown]: whoever wrote it has not shown anything, and is at it, or gone.
func (l *Log) begun(ctx context.Context, a *applied) error {
	wait, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	seq, _, err := l.runs.certain(wait, l.subject(a.run))
	if err == nil && seq > a.last {
		err = l.readUpTo(ctx, a, seq)
	}
	if err == nil && a.follower == nil {
		err = runlog.ErrUnknown
	}
	return err
}

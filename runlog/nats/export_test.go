package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/runlog"
)

// Crash ends a log as the end of its process would.
func Crash(l *Log) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.running.Wait()
	l.unwatch()
}

// Lose has a log not see what lose says, and wait for answers no longer than ack. It is called before there is a run.
func Lose(l *Log, ack time.Duration, lose func(*client.Msg) bool) { l.lose, l.ackWait = lose, ack }

// Back is what a log does when the servers are back.
func Back(l *Log) { l.back() }

// ClaimDropped claims a run that was dropped after it was read.
func ClaimDropped(ctx context.Context, l *Log, run string, drop func()) error {
	a, err := l.replay(ctx, run)
	if err != nil {
		return err
	}
	drop()
	for {
		if _, _, err := l.last(ctx, run); err != nil {
			break
		}
	}
	_, err = l.claim(ctx, a)
	if !errors.Is(err, runlog.ErrUnknown) {
		return fmt.Errorf("claim: %w", err)
	}
	// One that is read meanwhile is not there, either.
	a.last, a.follower = 0, nil
	return l.readUpTo(ctx, a, a.begin)
}

// Always has whatever can be put into pages, and pages removed as soon as nobody needs them, which is soon. It is called before there is
// a run.
func Always(l *Log) {
	l.pump.page.always, l.pump.page.often, l.pump.page.own = true, 0, ownEvery/10
}

// Hoard has no pages removed.
func Hoard(l *Log) {
	l.pump.do(func() { l.pump.page.often = time.Hour })
}

// InPages counts the runs of which something is only in pages.
func InPages(l *Log) (n int) {
	done := make(chan struct{})
	if l.pump.do(func() {
		for _, e := range l.pump.entries {
			if e.pages > 0 {
				n++
			}
		}
		close(done)
	}) {
		<-done
	}
	return n
}

// SealedPages counts the pages that were read to take runs over.
func SealedPages(l *Log) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sealed {
		n += len(s.pages)
	}
	return n
}

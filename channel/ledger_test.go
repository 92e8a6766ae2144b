package channel_test

import (
	"context"
	"sync"

	"github.com/lingserve/lingserve/channel"
)

// memoryLedger is a ledger of one process.
type memoryLedger struct {
	mu     sync.Mutex
	events map[string]channel.ReceiptState
}

func newLedger() *memoryLedger { return &memoryLedger{events: map[string]channel.ReceiptState{}} }

func (l *memoryLedger) Sending(ctx context.Context, event string) error {
	return l.Sent(ctx, event, channel.UnknownWhether)
}

func (l *memoryLedger) Sent(_ context.Context, event string, s channel.ReceiptState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.events[event]; !ok || was != channel.Sent && was != channel.Partial {
		l.events[event] = s
	}
	return nil
}

func (l *memoryLedger) Seen(_ context.Context, event string) (channel.ReceiptState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.events[event]; ok {
		return s, nil
	}
	return channel.NotSent, nil
}

func (l *memoryLedger) Forget(_ context.Context, event string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.events, event)
	return nil
}

package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

const askChat = `{"workflow":"chat","input":{"question":"q"}}`

// While the memory is nearly used up, turns wait that come by other doors, and those of this one are refused.
func TestTurnsWaitWhileThereIsLittleMemory(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	press(&a.s.shed.memory, true)
	turnedAway(t, a.say("hello", ""), 503, wire.CodeOverloaded, "memory")
	k, err := a.s.o.Turns.Submit(t.Context(), &turn.Envelope{SessionID: "s", Channel: "chat", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if now := a.s.o.Turns.Lanes(); now.Running != 0 || now.Waiting != 1 {
		t.Errorf("%+v", now)
	}
	press(&a.s.shed.memory, false)
	if _, err := k.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// That answers wait for memory is told once, and once that they do not any more.
func TestTheLogSaysThatAnswersWaitForMemory(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Ledger = adapter.NewLedger(1 << 20) })
	defer b.s.Close()
	l, now := b.s.o.Ledger, time.Now()
	one, other := l.Open(), l.Open()
	if err := one.Reserve(t.Context(), 1<<20); err != nil { // it takes the reserve
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = other.Reserve(ctx, 1<<20) }()
	eventually(t, "somebody waits", func() bool { return l.Holdings().Waiting == 1 })
	b.s.shed.lookAtWaiting(now)
	b.s.shed.lookAtWaiting(now.Add(time.Second))
	cancel()
	<-done
	b.s.shed.lookAtWaiting(now.Add(2 * time.Second))
	b.s.shed.lookAtWaiting(now.Add(time.Minute))
	b.s.shed.lookAtWaiting(now.Add(2 * time.Minute))
	text := b.log.String()
	if strings.Count(text, "model answers wait for memory") != 1 || strings.Count(text, "model answers no longer wait for memory") != 1 || !strings.Contains(text, "reason="+run.LimitMemory) {
		t.Error(text)
	}
}

package web

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/native"
)

// appendDocument appends the parts of the run's document.
func appendDocument(dst []byte, r *run.Run, reserved bool) []byte {
	return append(dst, bytes.Join(native.Document(r, reserved), nil)...)
}

// memoryBench is a server that may use so much memory for its runs, whose model writes a document of about so many bytes.
func memoryBench(t *testing.T, memory int64, document int, edit func(*Options)) *bench {
	b := newBench(t, func(o *Options) {
		o.Ledger = adapter.NewLedger(memory)
		if edit != nil {
			edit(o)
		}
	})
	piece := strings.Repeat("many words ", 100)
	b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		if !yield(`{"a":"`) {
			return nil
		}
		for n := 0; n < document; n += len(piece) {
			if !yield(piece) {
				return nil
			}
		}
		yield(`"}`)
		return nil
	}
	return b
}

const askChat = `{"workflow":"chat","input":{"question":"q"}}`

// FT-31: documents that do not fit together are all made, one after the other; and when nobody holds them any more nothing is counted.
func TestDocumentsThatDoNotFitTogetherAreAllMade(t *testing.T) {
	const n, size = 8, 512 << 10
	b := memoryBench(t, 12<<20, size, func(o *Options) { o.MemoryOfEnded, o.Data, o.Retention = 1, t.TempDir(), time.Nanosecond }).serve()
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			resp := b.do("POST", "/v1/runs?format="+[]string{"json", "sse"}[i%2], askChat)
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || !bytes.Contains(body, []byte(`"completed"`)) || bytes.Count(body, []byte("many words ")) < size/11 {
				t.Errorf("%d, %d bytes, %v: %s", resp.StatusCode, len(body), err, wording.Clip(string(body)))
			}
		})
	}
	clients.Wait()
	b.s.wire.Wait(nil) // until nobody follows a run any more
	b.quiet()
	b.s.runs.Inspect().Sweep(time.Now().Add(time.Hour))
	if h := b.s.Load().Memory; h.Bytes != 0 || h.Waiting != 0 || h.Refused != 0 {
		t.Errorf("afterwards: %+v", h)
	}
}

// FT-31: a document for which there is no memory ends with what was made of it, and the caller is told when to come back.
func TestADocumentForWhichThereIsNoMemorySaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		held int64 // by another
		code string
		took time.Duration
	}{
		"because of others": {8 << 20, wire.CodeOverloaded, 30 * time.Second}, // the reserve
		"at any time":       {0, wire.CodeTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memoryBench(t, 8<<20, 4<<20, nil)
				b.servePipes()
				defer b.down()
				other := b.s.o.Ledger.Open()
				if err := other.Reserve(t.Context(), tt.held); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				d := readDocument(t, b.do("POST", "/v1/runs", askChat))
				if d.Status != run.StatusFailed || len(d.Errors) == 0 || d.Errors[0].Code != tt.code || d.Errors[0].Retryable != (tt.code == wire.CodeOverloaded) {
					t.Fatalf("%s %+v", d.Status, d.Errors)
				}
				if !strings.Contains(string(d.Result), "many words") {
					t.Errorf("what there is was not kept: %s", d.Result)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

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

// Those who are sent the same document share it.
func TestAnEndedRunsDocumentIsMadeOnceForAllWhoAreSentIt(t *testing.T) {
	b := memoryBench(t, 0, 100<<10, nil).serve()
	d := readDocument(t, b.do("POST", "/v1/runs", askChat))
	r := b.s.runs.Inspect().InMemory()[d.Run]
	eventually(t, "who has asked for it holds it no more", func() bool { return !b.s.runs.Inspect().Reads(r) })
	first, second := r.Hold(), r.Hold()
	_, one, _ := r.Result()
	_, other, _ := r.Result()
	if &one[0] != &other[0] {
		t.Error("it was made twice")
	}
	first()
	second()
	_, again, _ := r.Result()
	if _, more, _ := r.Result(); &again[0] == &one[0] || &again[0] == &more[0] {
		t.Error("it is kept for nobody")
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

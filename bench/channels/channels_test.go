package channels

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

var (
	seconds = flag.Int("seconds", 2, "how long events come")
	rate    = flag.Int("rate", 1000, "events a second, every second of which is a duplicate")
)

// message is what the platform sends.
type message struct{ id, conversation string }

// adapter reads it.
func (p *platform) adapter() *kernel.Adapter[message] {
	return &kernel.Adapter[message]{
		Ingest: func(_ context.Context, m message) (*channel.Input, error) {
			return &channel.Input{ID: m.id, ConversationID: m.conversation, SenderID: m.conversation, RawText: "hello"}, nil
		},
		Resolve: func(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
			return &kernel.Turn{
				Facts: channel.Facts{
					Channel: "fake", MessageID: in.ID, Sender: channel.SenderFacts{ID: in.SenderID},
					Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: in.ConversationID},
					Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:" + in.ConversationID},
					Reply:        channel.ReplyPlanFacts{To: in.ConversationID},
					Access:       channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}},
					Message:      channel.MessageFacts{RawBody: in.RawText},
				},
				Delivery: &kernel.Delivery{Deliver: delivery{p, in.ID}.deliver, Durable: true},
			}, nil
		},
	}
}

// platform counts the answers that it gets to each message, and how long they took.
type platform struct {
	mu      sync.Mutex
	sent    map[string]time.Time
	answers map[string]int
	delays  []time.Duration
}

type delivery struct {
	*platform
	message string
}

func (d delivery) deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[d.message]++
	d.delays = append(d.delays, time.Since(d.sent[d.message]))
	return channel.Receipt{MessageIDs: []string{b.Key}}, nil
}

// agent answers at once.
type agent struct{}

func (agent) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "an answer"})
}

// TestAThousandEventsASecondHalfOfThemDuplicates sends events of 300 bytes of 100 conversations, at a steady rate, each twice: the
// second soon after the first or long after it. -seconds 30 is the full form.
func TestAThousandEventsASecondHalfOfThemDuplicates(t *testing.T) {
	d, err := db.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "bench.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{sent: map[string]time.Time{}, answers: map[string]int{}}
	k := &kernel.Kernel{
		Agent: agent{}, Store: d.Events(),
	}
	q := kernel.NewQueue(k, kernel.QueueOptions{Replica: "bench"})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- q.Serve(ctx, kernel.Handler{Channel: "fake", Run: func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
			key, err := channel.ParseEventKey(e.Key)
			if err != nil {
				return channel.Result{}, err
			}
			return kernel.Run(ctx, k, m, message{key.ID, key.Conversation}, p.adapter())
		}}, nil)
	}()

	raw := make([]byte, 300)
	total := *seconds * *rate
	var heap uint64
	var news, known int
	var mu sync.Mutex
	var refused int
	deliver := func(i int) {
		e := kernel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: fmt.Sprint(i % 100), ID: fmt.Sprint(i)}, Raw: raw}
		for {
			isNew, err := q.Accept(ctx, e)
			mu.Lock()
			switch {
			case errors.Is(err, store.ErrFull): // as a platform: once more, later
				refused++
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				continue
			case err != nil:
				t.Error(err)
			case isNew[0]:
				news++
			default:
				known++
			}
			mu.Unlock()
			return
		}
	}
	began := time.Now()
	const doors = 8 // requests of the platform at a time
	events := make(chan int, doors)
	var wg sync.WaitGroup
	for range doors {
		wg.Go(func() {
			for i := range events {
				deliver(i)
			}
		})
	}
	for n := range total {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(*rate))))
		i := n / 2 // the second time at once
		if n%4 == 3 {
			i = max(0, n-2*(*rate)) / 2 // or after two seconds
		}
		p.mu.Lock()
		if p.sent[fmt.Sprint(i)].IsZero() {
			p.sent[fmt.Sprint(i)] = time.Now()
		}
		p.mu.Unlock()
		events <- i
		if n%*rate == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap = max(heap, m.HeapInuse)
		}
	}
	close(events)
	wg.Wait()
	took := time.Since(began)
	for time.Since(began) < took+time.Minute {
		events, _, err := k.Store.Pending(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if events["fake"] == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	q.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) != len(p.sent) || news != len(p.sent) {
		t.Errorf("of %d messages %d were new and %d were answered", len(p.sent), news, len(p.answers))
	}
	for id, n := range p.answers {
		if n != 1 {
			t.Errorf("the message %s was answered %d times", id, n)
		}
	}
	slices.Sort(p.delays)
	if len(p.delays) == 0 {
		t.Fatal("nothing was answered")
	}
	at := func(q float64) time.Duration {
		return p.delays[int(q*float64(len(p.delays)-1))].Round(10 * time.Microsecond)
	}
	t.Logf("%d events in %v: %.0f a second; %d new, %d duplicates, %d refused for a while; answered after %v (median), %v (99%%), %v (last); heap at most %.1f MB",
		total, took.Round(time.Millisecond), float64(total)/took.Seconds(), news, known, refused, at(.5), at(.99), at(1), float64(heap)/1e6)
	if limit := uint64(256 << 20); heap > limit {
		t.Errorf("the heap grew to %d bytes, expected at most %d", heap, limit)
	}
}

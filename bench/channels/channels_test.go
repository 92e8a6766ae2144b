package channels

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
)

var (
	seconds = flag.Int("seconds", 2, "how long events come")
	rate    = flag.Int("rate", 1000, "events a second, every second of which is a duplicate")
)

// message is what the platform sends.
type message struct{ id, conversation string }

// adapter reads it.
type adapter struct{ platform *platform }

func (a *adapter) Ingest(_ context.Context, m message) (*channel.Input, error) {
	return &channel.Input{ID: m.id, ConversationID: m.conversation, SenderID: m.conversation, RawText: "hello"}, nil
}

func (a *adapter) Resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	return &channel.Assembled{
		Common: channel.Common{Facts: channel.Facts{
			Channel: "fake", MessageID: in.ID, Sender: channel.SenderFacts{ID: in.SenderID},
			Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: in.ConversationID},
			Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:" + in.ConversationID},
			Reply:        channel.ReplyPlanFacts{To: in.ConversationID},
			Access:       channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}},
			Message:      channel.MessageFacts{RawBody: in.RawText},
		}},
		Delivery: delivery{a.platform, in.ID},
	}, nil
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

func (d delivery) Deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
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
	journal := channeltest.Open(t, t.TempDir())
	p := &platform{sent: map[string]time.Time{}, answers: map[string]int{}}
	k := &channel.Kernel{
		Agent: agent{}, Journal: journal,
		Limits: channel.Limits{SenderRate: channel.Rate{PerMinute: -1}, ChatRate: channel.Rate{PerMinute: -1}},
	}
	door := channel.NewDoor(k, channel.DoorOptions{
		Channel: "fake",
		Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			return channel.Run(ctx, k, channel.Event[message]{Meta: m, Raw: message{e.Key.ID, e.Key.Conversation}, Adapter: &adapter{p}})
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- door.Serve(ctx, nil) }()

	raw := make([]byte, 300)
	total := *seconds * *rate
	var heap uint64
	var news, known int
	var mu sync.Mutex
	var refused int
	deliver := func(i int) {
		e := channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: fmt.Sprint(i % 100), ID: fmt.Sprint(i)}, Raw: raw}
		for {
			isNew, err := door.Accept(ctx, e)
			mu.Lock()
			switch {
			case errors.Is(err, channel.ErrJournalFull): // as a platform: once more, later
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
	for len(journal.Waiting()) > 0 && time.Since(began) < took+time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := journal.Close(); err != nil {
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

package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
)

// chat is a conversation as the person sees it.
type chat struct {
	mu      sync.Mutex
	replies int
	notices int
	during  func() error // before the platform answers a send
}

func (c *chat) Deliver(context.Context, channel.Block) (channel.Receipt, error) {
	c.mu.Lock()
	c.replies++
	during := c.during
	c.mu.Unlock()
	if during != nil {
		if err := during(); err != nil {
			return channel.Receipt{}, err
		}
	}
	return channel.Receipt{MessageIDs: []string{"1"}}, nil
}

// speaker is an agent that says one thing.
type speaker func(context.Context) error

func (s speaker) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	if err := s(ctx); err != nil {
		return channel.DispatchResult{}, err
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "answer"})
}

// life is one process: a kernel with its journal and its door.
type life struct {
	journal *process
	door    *channel.Door
	stop    context.CancelFunc
	served  chan error
}

func begin(t *testing.T, dir string, c *chat, say speaker, claimed func()) *life {
	t.Helper()
	l := &life{journal: open(t, vfs.At(dir), inbox.Options{}), served: make(chan error, 1)}
	k := &channel.Kernel{Agent: say, Journal: l.journal}
	l.door = channel.NewDoor(k, channel.DoorOptions{
		Channel: "fake", Grace: time.Millisecond,
		Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			if claimed != nil {
				claimed()
			}
			return k.RunAssembled(ctx, m, &channel.Assembled{Delivery: c, Common: channel.Common{Facts: channel.Facts{
				Channel: "fake", MessageID: e.Key.ID, Sender: channel.SenderFacts{ID: "p"},
				Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "c"},
				Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:c"},
				Reply:        channel.ReplyPlanFacts{To: "c"},
				Access:       channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}},
				Message:      channel.MessageFacts{RawBody: string(e.Raw)},
			}}})
		},
		Incomplete: func(context.Context, channel.JournalEntry) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.notices++
			return nil
		},
	})
	return l
}

func (l *life) serve() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() { l.served <- l.door.Serve(ctx, nil) }()
}

// die ends the process: the stores first, so that nothing of what its goroutines still do is kept.
func (l *life) die() {
	l.journal.Abandon()
	if l.stop != nil {
		l.stop()
	}
}

func TestAReplyIsSeenAtMostOnceAndSomethingAtLeastOnceWhereverTheProcessDies(t *testing.T) { // CH-74, CH-192
	errDead := errors.New("dead")
	for _, point := range []string{"after accept", "after claim", "during dispatch", "between send and receipt", "after the receipt"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := &chat{}
				var first *life
				at := func(p string) func() error {
					return func() error {
						if p != point {
							return nil
						}
						first.die()
						return errDead
					}
				}
				c.during = at("between send and receipt")
				first = begin(t, dir, c, func(context.Context) error { return at("during dispatch")() }, func() { _ = at("after claim")() })
				k := channel.EventKey{Channel: "fake", Conversation: "c", ID: "1"}
				if _, err := first.door.Accept(t.Context(), channel.Arrival{Key: k, Raw: []byte("hi")}); err != nil {
					t.Fatal(err)
				}
				if point != "after accept" {
					first.serve()
					synctest.Wait()
				}
				if point == "after accept" || point == "after the receipt" {
					first.die()
				}
				if first.stop != nil {
					<-first.served
				}
				c.during = nil
				for range 3 { // and no later start does it again
					next := begin(t, dir, c, func(context.Context) error { return nil }, nil)
					next.serve()
					time.Sleep(time.Minute)
					next.stop()
					if err := <-next.served; err != nil {
						t.Error(err)
					}
					if state, err := next.journal.Peek(t.Context(), k); err != nil || state != channel.ClaimSettled {
						t.Errorf("the event is %q, %v at the end, expected %q", state, err, channel.ClaimSettled)
					}
					_ = next.journal.Close()
				}
				if c.replies > 1 || c.notices > 1 || c.replies+c.notices == 0 {
					t.Errorf("the person sees %d replies and %d notices", c.replies, c.notices)
				}
				if want := map[string]int{"between send and receipt": 1}[point]; c.notices != want {
					t.Errorf("the person sees %d notices, expected %d", c.notices, want)
				}
			})
		})
	}
}

func TestEventsOfManyLivesAreEachAnsweredOnce(t *testing.T) { // CH-192
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]int{}
		var mu sync.Mutex
		for n := range 20 {
			j := open(t, vfs.At(dir), inbox.Options{})
			dead := false
			d := channel.NewDoor(&channel.Kernel{Journal: j}, channel.DoorOptions{
				Channel: "fake", Running: 4,
				Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					if dead {
						return channel.Result{}, errors.New("dead")
					}
					seen[string(e.Raw)]++
					return channel.Result{}, m.Claim.Commit(ctx, channel.OutcomeVisible)
				},
			})
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error)
			go func() { served <- d.Serve(ctx, nil) }()
			for i := range 10 {
				id := fmt.Sprint(n, "-", i)
				if _, err := d.Accept(ctx, channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: fmt.Sprint(i), ID: id}, Raw: []byte(id)}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(1500 * time.Millisecond)
			mu.Lock()
			dead = n < 19
			mu.Unlock()
			if n == 19 {
				time.Sleep(time.Hour)
			} else {
				j.Abandon()
			}
			stop()
			<-served
		}
		var wrong []string
		for id, n := range seen {
			if n != 1 {
				wrong = append(wrong, id)
			}
		}
		slices.Sort(wrong)
		if len(seen) != 200 || wrong != nil {
			t.Errorf("%d of 200 events were answered, and %q more than once", len(seen), wrong)
		}
	})
}

package kernel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

// process runs one process with the channel "chat" for a while. What it stores counts until alive ends.
func process(t *testing.T, d *db.DB, answer agentFunc, delivery *kernel.Delivery, sender kernel.Sender, alive, life time.Duration) {
	t.Helper()
	stored := &mortal{Store: d.Events()}
	time.AfterFunc(alive, func() {
		stored.mu.Lock()
		defer stored.mu.Unlock()
		stored.dead = true
	})
	k := &kernel.Kernel{Agent: answer, Store: stored, Settings: &openSettings{policy: openPolicy()}}
	q := kernel.NewQueue(k, kernel.QueueOptions{Replica: t.Name() + time.Now().String()})
	ctx, stop := context.WithTimeout(t.Context(), life)
	defer stop()
	if _, err := q.Accept(ctx, kernel.Arrival{Key: channel.EventKey{Channel: "chat", Conversation: "ann", ID: "1"}, Raw: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	h := kernel.Handler{Channel: "chat", Grace: time.Second, Sender: sender, Run: func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		f := directFacts("ann", "1", "hello")
		f.Access = openPolicy().Access(f.Sender.Identity(), channel.MentionFacts{})
		return k.RunAssembled(ctx, m, &kernel.Turn{Facts: f, Delivery: delivery})
	}}
	if err := q.Serve(ctx, h, nil); err != nil {
		t.Error(err)
	}
	q.Close(context.Background())
}

func TestTheSignOfWorkThatACrashHasLeftIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		signed := false
		waits := func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
			<-ctx.Done()
			return channel.DispatchResult{}, context.Cause(ctx)
		}
		process(t, d, waits, &kernel.Delivery{
			Deliver: new(chat).deliver, Working: func(context.Context) error { signed = true; return nil },
			Rest: func(context.Context) error { return errors.New("of a dead process") },
		}, kernel.Sender{}, 3*time.Second, 5*time.Second)
		if !signed {
			t.Fatal("there is no sign of work")
		}
		process(t, d, echo, &kernel.Delivery{ // the answer is there before a sign of work
			Deliver: new(chat).deliver, Working: func(context.Context) error { return errors.New("not now") },
			Rest: func(context.Context) error { signed = false; return nil },
		}, kernel.Sender{}, time.Hour, time.Minute)
		if signed {
			t.Error("the sign of work is left")
		}
	})
}

// A process dies while a block takes the place of its preview. The next block is another message, for the first may be there.
func TestABlockThatMayHaveBeenSentIsNotReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &chat{}
		agent := agentFunc(steps)
		preview := func(ctx context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
			return c.deliver(ctx, b)
		}
		process(t, d, agent, &kernel.Delivery{Preview: preview, PreviewEvery: 10 * time.Millisecond, Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			_, err := c.deliver(ctx, b)
			<-ctx.Done()
			return channel.Receipt{}, errors.Join(context.Cause(ctx), err)
		}}, kernel.Sender{}, 3*time.Second, 5*time.Second)
		process(t, d, agent, &kernel.Delivery{Preview: preview, PreviewEvery: 10 * time.Millisecond, Deliver: c.deliver}, kernel.Sender{}, time.Hour, time.Minute)
		if got := c.shownTo(""); len(got) < 3 || !slices.Equal(got[:3], []string{"one ", "two ", "three"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAReplyThatCanBeRepeatedIsSentAgain(t *testing.T) {
	for name, repeatable := range map[string]bool{"repeatable": true, "not": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				var texts []string
				send := func(b channel.Block) (channel.Receipt, error) {
					if texts = append(texts, b.Text); len(texts) == 1 {
						return channel.Receipt{}, errors.New("the connection was cut")
					}
					return channel.Receipt{}, nil
				}
				process(t, d, echo, &kernel.Delivery{Durable: true, Deliver: func(_ context.Context, b channel.Block) (channel.Receipt, error) { return send(b) }}, kernel.Sender{
					Send:       func(_ context.Context, out channel.Outbound) (channel.Receipt, error) { return send(out.Block) },
					Repeatable: func(channel.Outbound, time.Duration) bool { return repeatable },
				}, time.Hour, time.Minute)
				if len(texts) != 2 || (texts[1] == texts[0]) != repeatable {
					t.Errorf("sent %q", texts)
				}
			})
		})
	}
}

// A channel ends while a reply is being sent, and then the platform does not confirm the reply.
func TestAnUnsureReplyOfAChannelThatEndsIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		process(t, d, echo, &kernel.Delivery{Durable: true, Deliver: func(context.Context, channel.Block) (channel.Receipt, error) {
			time.Sleep(5 * time.Second)
			return channel.Receipt{}, errors.New("the connection was cut")
		}}, kernel.Sender{}, time.Hour, 2*time.Second)
		c := &chat{}
		process(t, d, echo, &kernel.Delivery{Deliver: c.deliver}, kernel.Sender{Send: func(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
			return c.deliver(ctx, out.Block)
		}}, time.Hour, time.Minute)
		if got := c.shown(); strings.Contains(got, "\n") || !strings.Contains(got, "may be missing") {
			t.Errorf("people see %q", got)
		}
	})
}

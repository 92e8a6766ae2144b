package kernel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

// sendUnsure answers one message, on a platform that confirms what is sent to it only after some time. It returns when texts were sent, and the texts.
func sendUnsure(t *testing.T, d *db.DB, sender kernel.Sender, unconfirmed time.Duration) (at []time.Duration, texts []string) {
	t.Helper()
	began, waiting := time.Now(), 0
	send := func(b channel.Block) (channel.Receipt, error) {
		at, texts = append(at, time.Since(began)), append(texts, b.Text)
		if time.Since(began) < unconfirmed {
			return channel.Receipt{}, errors.New("the connection was cut")
		}
		return channel.Receipt{}, nil
	}
	sender.Send = func(_ context.Context, out channel.Outbound) (channel.Receipt, error) { return send(out.Block) }
	for i, up := range []time.Duration{20 * time.Minute, time.Minute} { // a server runs for a while, and another one a day later
		time.Sleep(time.Duration(i) * 25 * time.Hour)
		k := &kernel.Kernel{Agent: agentFunc(echo), Store: d.Events(), Settings: &openSettings{policy: openPolicy()}}
		q := kernel.NewQueue(k, kernel.QueueOptions{Replica: "a"})
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		h := kernel.Handler{Channel: "chat", Sender: sender, Run: func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
			f := directFacts("ann", "1", "hello")
			f.Access = openPolicy().Access(f.Sender.Identity(), channel.MentionFacts{})
			return k.RunAssembled(ctx, m, &kernel.Turn{Facts: f, Delivery: &kernel.Delivery{Durable: true, Deliver: func(_ context.Context, b channel.Block) (channel.Receipt, error) {
				return send(b)
			}}})
		}}
		go func() { served <- q.Serve(ctx, h, nil) }()
		if i == 0 {
			if _, err := q.Accept(ctx, kernel.Arrival{Key: channel.EventKey{Channel: "chat", Conversation: "ann", ID: "1"}, Raw: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(up)
		_, replies, err := q.Pending(ctx)
		if waiting = replies["chat"]; err != nil {
			t.Error(err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		q.Close(t.Context())
	}
	if waiting != 0 {
		t.Errorf("after a day %d replies wait", waiting)
	}
	return at, texts
}

func TestAnUnsureReplyIsSentAgainWhileThePlatformIgnoresCopies(t *testing.T) {
	for name, test := range map[string]struct {
		unconfirmed time.Duration
		notices     int
	}{"it is confirmed in time": {time.Minute, 0}, "it is never confirmed": {240 * time.Hour, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				at, texts := sendUnsure(t, d, kernel.Sender{Repeatable: func(_ channel.Outbound, age time.Duration) bool { return age < 10*time.Minute }}, test.unconfirmed)
				answers, notices := 0, 0
				for i, text := range texts {
					if text != "echo hello" {
						notices++
					} else if answers++; at[i] >= 10*time.Minute {
						t.Errorf("the answer was sent after %v", at[i])
					}
				}
				if answers < 3 || notices != test.notices {
					t.Errorf("sent %q", texts)
				}
			})
		})
	}
}

func TestAReplyThatCannotBeReconciledEndsAfterADay(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		asked := 0
		_, texts := sendUnsure(t, d, kernel.Sender{Reconcile: func(context.Context, channel.Outbound) (channel.Receipt, error) {
			asked++
			return channel.Receipt{State: channel.UnknownWhether}, nil
		}}, 240*time.Hour)
		if len(texts) != 2 || !strings.Contains(texts[1], "may be missing") || asked < 5 {
			t.Errorf("sent %q, asked %d times", texts, asked)
		}
	})
}

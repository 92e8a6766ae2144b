package slack

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// BenchmarkEvent is a message from the request to the end of its turn, with stores in memory and an agent that says nothing; every second
// one is a repetition.
func BenchmarkEvent(b *testing.B) {
	fake := fakeslack.New(nil)
	c, err := New(Settings{
		Token: secret.Text(fake.Token()), SigningSecret: secret.Text(fake.Secret()), API: "http://api.test/api", Client: &http.Client{Transport: fake.Transport()},
		Agent: "assistant", Preview: PreviewOff,
	})
	if err != nil {
		b.Fatal(err)
	}
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{"slack": {AccountPlace: channel.AccountPlace{
		Place: channel.Place{DMPolicy: channel.PolicyOpen, Agent: "assistant"},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{}, 1)
	k := &channel.Kernel{
		Settings: tree, Routes: tree,
		Agent: agentFunc(func(_ context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			t.Queued()
			ended <- struct{}{}
			return channel.DispatchResult{NoReply: true}, nil
		}),
		Limits: channel.Limits{SenderRate: channel.Rate{PerMinute: -1}, ChatRate: channel.Rate{PerMinute: -1}},
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, k) }()
	defer func() { stop(); <-done }()
	for c.self().UserID == "" {
		time.Sleep(time.Millisecond)
	}
	fake.AddPerson("U1", "ann", "Ann")
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		body := fake.Envelope(map[string]any{
			"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "text": "hello", "ts": fmt.Sprintf("1700000000.%06d", n),
		})
		h := sign(fake.Secret(), body, time.Now())
		for range 2 {
			if w := ask(c, http.MethodPost, h, body); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
		}
		<-ended
	}
	b.ReportMetric(2*float64(n)/b.Elapsed().Seconds(), "events/s")
}

package feishu

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// The whole way over real sockets: the question for the address, an event, and a card that grows.
func TestTheChannelWorksOverTheNetwork(t *testing.T) {
	var c *Channel
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.Webhook().ServeHTTP(w, r) }))
	defer here.Close()
	fake := fakefeishu.New(&fakefeishu.Options{URL: here.URL + "/v1/channels/feishu/webhook", Deliver: here.Client()})
	api := httptest.NewServer(fake)
	defer api.Close()
	defer fake.Close()
	s := settings(fake)
	s.API, s.Client = api.URL, nil
	var err error
	if c, err = New(s); err != nil {
		t.Fatal(err)
	}
	k := kernel(t, channel.Place{})
	k.Agent = agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		turn.Sink.Preview(channel.Payload{Text: "half"})
		if err := fake.Await(ctx, func() bool { return len(fake.Ours(private)) == 1 }); err != nil {
			return channel.DispatchResult{}, err
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "half and **whole**"})
	})
	fake.AddChat(private, "p2p")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it took too long"))
	defer cancel()
	if p := fake.Post(ctx, fake.Challenge("c")); p.Status != http.StatusOK {
		t.Errorf("the question is answered with %d %s", p.Status, p.Body)
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Serve(serving, k) }()
	if err := fake.Await(ctx, func() bool { return len(fake.Calls("info")) > 0 }); err != nil {
		t.Fatal(err)
	}
	e, _ := fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hello"})
	for fake.Post(ctx, e).Status != http.StatusOK && ctx.Err() == nil { // the bot's id may not have been read yet
		continue
	}
	err = fake.Await(ctx, func() bool {
		shown := fake.Texts(private)
		return len(shown) == 1 && shown[0] == "half and **whole**"
	})
	if err != nil {
		t.Errorf("%v: %q is shown", err, fake.Texts(private))
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

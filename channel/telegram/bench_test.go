package telegram

import (
	"context"
	"testing"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
)

var update = []byte(`{"update_id":812345678,"message":{"message_id":4711,"from":{"id":7,"is_bot":false,"first_name":"Ann","username":"ann","language_code":"en"},` +
	`"chat":{"id":-1001234567890,"title":"Team","type":"supergroup","is_forum":true},"date":1763760000,"message_thread_id":7,"is_topic_message":true,` +
	`"text":"@ling_bot what is the weather like in Berlin today?","entities":[{"offset":0,"length":9,"type":"mention"}]}}`)

// One update from its bytes to a plan: what the channel itself costs of a message.
func BenchmarkUpdate(b *testing.B) {
	c, err := New(Settings{Token: "42:x"})
	if err != nil {
		b.Fatal(err)
	}
	c.me.Store(&models.User{ID: 42, IsBot: true, Username: "ling_bot"})
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{
		"telegram": {AccountPlace: channel.AccountPlace{Place: channel.Place{GroupPolicy: channel.PolicyOpen, Agent: "a"}}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	k := &channel.Kernel{Settings: tree, Routes: tree}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		u, err := Raw(update)
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := c.arrival(ctx, u, update); !ok {
			b.Fatal("it is nothing")
		}
		a := &adapter{c: c, k: k, u: u}
		in, err := a.Ingest(ctx, u)
		if err != nil {
			b.Fatal(err)
		}
		class, _ := a.Classify(ctx, in)
		pf, _ := a.Preflight(ctx, in, class)
		if _, err := a.Resolve(ctx, in, class, pf); err != nil {
			b.Fatal(err)
		}
	}
}

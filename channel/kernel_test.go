package channel_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// agent answers turns by a function.
type agent func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agent) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// says is an agent that says one thing.
func says(text string) agent {
	return func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Queued()
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
	}
}

// platform is where a fake channel sends to. It counts what could be noticed there.
type platform struct {
	mu     sync.Mutex
	blocks []string
	ids    []string
	err    error
}

func (p *platform) Deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocks, p.ids = append(p.blocks, b.Text), append(p.ids, b.Key)
	return channel.Receipt{MessageIDs: []string{b.Key}}, p.err
}

func (p *platform) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.blocks...)
}

// open lets everybody talk in direct conversations.
var open = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}}

// facts are those of a direct message.
func facts(id, text string) channel.Facts {
	return channel.Facts{
		Channel: "fake", MessageID: id, Sender: channel.SenderFacts{ID: "42"},
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42"},
		Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "fake:42"},
		Reply:        channel.ReplyPlanFacts{To: "42"},
		Access:       open,
		Message:      channel.MessageFacts{RawBody: text},
	}
}

var errTest = errors.New("it failed")

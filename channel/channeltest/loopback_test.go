package channeltest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// loopback is the smallest channel there is, and its platform: messages are values, and what is sent is a list.
type loopback struct {
	q    *kernel.Queue
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	shown  []string
	writes int
	fail   channeltest.Failure
}

// maxText is the longest message that the platform takes.
const maxText = 4096

func start(_ *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
	p := &loopback{q: q}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	h := kernel.Handler{Channel: "loopback", Grace: grace, Run: func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		return kernel.Run(ctx, q.Kernel(), m, e.Raw, &kernel.Adapter[[]byte]{Ingest: p.ingest, Resolve: p.resolve})
	}}
	p.wg.Go(func() { _ = q.Serve(ctx, h, nil) })
	return p
}

func (p *loopback) Stop() error {
	p.stop()
	p.wg.Wait()
	return nil
}

func (p *loopback) Send(ctx context.Context, m channeltest.Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	in := input(m)
	_, err = p.q.Accept(ctx, kernel.Arrival{
		Key: channel.EventKey{Channel: "loopback", Conversation: in.ConversationID, ID: in.ID}, Raw: raw,
	})
	return err
}

func (p *loopback) Shown() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.shown...)
}

func (p *loopback) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

func (p *loopback) Fail(f channeltest.Failure) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = f
	return true
}

func input(m channeltest.Message) *channel.Input {
	chat := strconv.Itoa(cmp.Or(m.Chat, 1))
	if m.Group {
		chat = "group-" + chat
	}
	return &channel.Input{ID: strconv.Itoa(m.ID), RawText: m.Text, ConversationID: chat, SenderID: strconv.Itoa(cmp.Or(m.Sender, 1)), Raw: m}
}

func (*loopback) ingest(_ context.Context, raw []byte) (*channel.Input, error) {
	var m channeltest.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return input(m), nil
}

func (p *loopback) resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	m := in.Raw.(channeltest.Message)
	sender := channel.SenderFacts{ID: in.SenderID}
	place := channel.ConversationFacts{Kind: channel.Direct, ID: in.ConversationID}
	if m.Group {
		place.Kind = channel.Group
	}
	policy := p.q.Kernel().Settings.Policy(channel.PolicyQuery{Channel: "loopback", Conversation: place.ID, Kind: place.Kind})
	return &kernel.Turn{Delivery: &kernel.Delivery{Deliver: p.deliver, Preview: p.preview}, Facts: channel.Facts{
		Channel: "loopback", MessageID: in.ID, Sender: sender, Conversation: place,
		Route:   channel.RouteFacts{RouteSessionKey: "loopback:" + place.ID},
		Reply:   channel.ReplyPlanFacts{To: place.ID},
		Access:  policy.Access(sender, channel.MentionFacts{CanDetect: true, WasMentioned: m.Mention}),
		Message: channel.MessageFacts{RawBody: in.RawText},
	}}, nil
}

var errRefused = errors.New("refused")

// deliver sends a block. A preview that stands there becomes the first message.
func (p *loopback) deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fail := p.fail
	p.fail = 0
	if fail == channeltest.FailRefused {
		return channel.Receipt{}, &channel.NotSentError{Err: errRefused}
	}
	var r channel.Receipt
	rest := b.Text
	for first := true; rest != ""; first = false {
		n := min(len(rest), maxText)
		if n < len(rest) {
			n = strings.LastIndexByte(rest[:n], ' ') + 1
		}
		p.writes++
		if first && b.Preview != nil {
			at, _ := strconv.Atoi(b.Preview.MessageIDs[0])
			p.shown[at] = rest[:n]
			r.MessageIDs = append(r.MessageIDs, b.Preview.MessageIDs[0])
		} else {
			r.MessageIDs = append(r.MessageIDs, strconv.Itoa(len(p.shown)))
			p.shown = append(p.shown, rest[:n])
		}
		switch fail {
		case channeltest.FailUnknown:
			return r, errors.New("the connection was cut")
		case channeltest.FailPartial:
			return r, &channel.PartialError{Receipt: r, Err: errRefused}
		}
		rest = rest[n:]
	}
	return r, nil
}

func (p *loopback) preview(_ context.Context, b channel.Block, prev channel.Receipt) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	if len(prev.MessageIDs) > 0 {
		at, _ := strconv.Atoi(prev.MessageIDs[0])
		p.shown[at] = b.Text
		return prev, nil
	}
	p.shown = append(p.shown, b.Text)
	return channel.Receipt{MessageIDs: []string{strconv.Itoa(len(p.shown) - 1)}}, nil
}

func TestALoopbackIsAChannel(t *testing.T) {
	channeltest.Run(t, channeltest.Fixture{Start: start, Groups: true, Redelivers: true, Streams: true, Bubble: true})
}

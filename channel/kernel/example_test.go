package kernel_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// post is a message of the chat of these examples. "@ling" is a mention.
type post struct {
	id, from, text string
	image          string // a file below the media folder
	direct         bool
	replyTo        *post
}

// board reads the posts of that chat, and prints what is sent.
func board(policy channel.Policy) *kernel.Adapter[post] {
	return &kernel.Adapter[post]{
		Ingest: func(_ context.Context, m post) (*channel.Input, error) {
			return &channel.Input{ID: m.id, RawText: m.text, ConversationID: "kitchen", SenderID: m.from, HasMedia: m.image != "", Raw: m}, nil
		},
		Resolve: func(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
			m := in.Raw.(post)
			mentioned := strings.Contains(m.text, "@ling")
			sender := channel.SenderFacts{ID: m.from, Name: m.from}
			f := channel.Facts{
				MessageID: m.id, Sender: sender,
				Conversation: channel.ConversationFacts{Kind: channel.Group, ID: in.ConversationID, Label: "Kitchen"},
				Route:        channel.RouteFacts{AgentID: "ling", RouteSessionKey: "board:" + in.ConversationID},
				Reply:        channel.ReplyPlanFacts{To: in.ConversationID},
				Access:       policy.Access(sender, channel.MentionFacts{CanDetect: true, WasMentioned: mentioned, HasAnyMention: mentioned}),
				Message:      channel.MessageFacts{RawBody: m.text, BodyForAgent: strings.TrimSpace(strings.ReplaceAll(m.text, "@ling", ""))},
				Media:        images(m),
			}
			if m.direct {
				f.Conversation, f.Reply.To = channel.ConversationFacts{Kind: channel.Direct, ID: m.from}, m.from
			}
			if q := m.replyTo; q != nil {
				f.Supplemental.Quote = &channel.Quote{ID: q.id, Body: q.text, Sender: q.from, Media: images(*q), SenderAllowed: channel.Yes}
			}
			return &kernel.Turn{Facts: f, Delivery: &kernel.Delivery{Deliver: func(_ context.Context, b channel.Block) (channel.Receipt, error) {
				fmt.Printf("to %s: %s\n", b.Target.To, b.Text)
				return channel.Receipt{}, nil
			}}}, nil
		},
	}
}

func images(m post) []channel.MediaFact {
	if m.image == "" {
		return nil
	}
	return []channel.MediaFact{{Path: m.image, Kind: channel.MediaImage, MessageID: m.id}}
}

// reader is an agent that prints what it is given.
func reader(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	names := func(media []channel.MediaFact) (names []string) {
		for _, m := range media {
			names = append(names, filepath.Base(m.Path))
		}
		return names
	}
	c := t.Context
	for _, h := range c.InboundHistory {
		fmt.Printf("  before, %s: %s %s\n", h.Sender, h.Body, names(h.Media))
	}
	if c.ReplyToID != "" {
		fmt.Printf("  in reply to %s: %q\n", c.ReplyToSender, c.ReplyToBody)
	}
	fmt.Printf("  %s: %s %s\n", c.SenderName, c.BodyForAgent, names(c.Media))
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "ok"})
}

// talk posts messages to an agent, one after the other.
func talk(posts ...post) {
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = os.WriteFile(filepath.Join(dir, "soup.png"), []byte("\x89PNG\r\n\x1a\n and more"), 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	media, err := channel.OpenMediaRoot(dir, 1<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = media.Close() }()
	k := &kernel.Kernel{Agent: agentFunc(reader), Media: media, Window: channel.NewWindow(nil, channel.WindowOptions{Media: media})}
	everybody := board(channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RequireMention: true, RouteAllowed: true, Unmentioned: channel.UnmentionedHistory,
	})
	for _, m := range posts {
		r, err := kernel.Run(context.Background(), k, kernel.Meta{Channel: "board", Queued: func() {}}, m, everybody)
		fmt.Println(m.id, r.Outcome, r.Admission.Reason, err)
	}
}

// In a group, a message that does not address the agent waits until another one does.
func ExampleRun_mention() {
	talk(
		post{id: "1", from: "Ann", text: "the soup is salty"},
		post{id: "2", from: "Bob", text: "@ling what can we do?"},
	)
	// Output:
	// 1 blocked missing_mention <nil>
	//   before, Ann: the soup is salty []
	//   Bob: what can we do? []
	// to kitchen: ok
	// 2 visible  <nil>
}

// An image comes first, and the mention later: the agent sees both.
func ExampleRun_imageFirst() {
	talk(
		post{id: "1", from: "Ann", image: "soup.png"},
		post{id: "2", from: "Ann", text: "@ling what is this?"},
	)
	// Output:
	// 1 blocked missing_mention <nil>
	//   before, Ann: [image] [soup.png]
	//   Ann: what is this? []
	// to kitchen: ok
	// 2 visible  <nil>
}

// A reply that quotes an image brings the image.
func ExampleRun_quotedImage() {
	talk(post{id: "2", from: "Bob", text: "@ling what is this?", replyTo: &post{id: "1", from: "Ann", text: "look", image: "soup.png"}})
	// Output:
	//   in reply to Ann: "look"
	//   Bob: what is this? [soup.png]
	// to kitchen: ok
	// 2 visible  <nil>
}

// A direct message is answered without a mention, and there is no history but the session's own.
func ExampleRun_direct() {
	talk(
		post{id: "1", from: "Ann", text: "hello", direct: true},
		post{id: "2", from: "Ann", text: "and now?", direct: true},
	)
	// Output:
	//   Ann: hello []
	// to Ann: ok
	// 1 visible  <nil>
	//   Ann: and now? []
	// to Ann: ok
	// 2 visible  <nil>
}

// A prepared turn has its own dispatch: the kernel authorizes and records the turn, and the channel sends what it likes.
func ExampleKernel_RunPrepared() {
	policy, sender := channel.Policy{DM: channel.PolicyOpen}, channel.SenderFacts{ID: "42"}
	f := facts("1", "hello")
	f.Access = policy.Access(sender, channel.MentionFacts{})
	k := &kernel.Kernel{}
	r, err := k.RunPrepared(context.Background(), kernel.Meta{Channel: "paper"}, &kernel.Turn{
		Facts:                f,
		OnPreDispatchFailure: func(_ context.Context, err error) { fmt.Println("not dispatched:", err) },
		OnFinalize: func(_ context.Context, r channel.Result) error {
			fmt.Println("finalized:", r.Outcome)
			return nil
		},
		Dispatch: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			if t.Context.ObserveOnly { // nothing may be seen
				return channel.DispatchResult{}, nil
			}
			fmt.Println("a card with", t.Context.BodyForAgent)
			return channel.DispatchResult{Sent: true}, nil
		},
	})
	fmt.Println(r.Outcome, r.Dispatch.Sent, err)
	// Output:
	// a card with hello
	// finalized: visible
	// visible true <nil>
}

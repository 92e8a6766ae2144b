package channel_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/lingserve/lingserve/channel"
)

// post is what the chat of these examples knows of a message.
type post struct {
	id, from, text string
	image          string // a file below the media root
	direct         bool
	replyTo        *post
}

// board is the adapter of that chat. "@ling" is a mention.
type board struct{ policy channel.Policy }

// Ingest implements [channel.Adapter].
func (board) Ingest(_ context.Context, m post) (*channel.Input, error) {
	return &channel.Input{ID: m.id, RawText: m.text, ConversationID: "kitchen", SenderID: m.from, HasMedia: m.image != "", Raw: m}, nil
}

// Resolve implements [channel.Adapter].
func (b board) Resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	m := in.Raw.(post)
	mentioned := strings.Contains(m.text, "@ling")
	sender := channel.SenderFacts{ID: m.from, Name: m.from}
	f := channel.Facts{
		MessageID: m.id, Sender: sender,
		Conversation: channel.ConversationFacts{Kind: channel.Group, ID: in.ConversationID, Label: "Kitchen"},
		Route:        channel.RouteFacts{AgentID: "ling", RouteSessionKey: "board:" + in.ConversationID},
		Reply:        channel.ReplyPlanFacts{To: in.ConversationID},
		Access:       b.policy.Access(sender.Identity(), channel.MentionFacts{CanDetect: true, WasMentioned: mentioned, HasAnyMention: mentioned}),
		Message:      channel.MessageFacts{RawBody: m.text, BodyForAgent: strings.TrimSpace(strings.ReplaceAll(m.text, "@ling", ""))},
		Media:        images(m),
	}
	if m.direct {
		f.Conversation = channel.ConversationFacts{Kind: channel.Direct, ID: m.from}
		f.Reply.To = m.from
	}
	if q := m.replyTo; q != nil {
		f.Supplemental.Quote = &channel.Quote{ID: q.id, Body: q.text, Sender: q.from, Media: images(*q), SenderAllowed: channel.Yes}
	}
	return &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: printer{}}, nil
}

func images(m post) []channel.MediaFact {
	if m.image == "" {
		return nil
	}
	return []channel.MediaFact{{Path: m.image, Kind: channel.MediaImage, MessageID: m.id}}
}

// reader is an agent that tells what it is given.
func reader(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
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

func names(media []channel.MediaFact) (names []string) {
	for _, m := range media {
		names = append(names, filepath.Base(m.Path))
	}
	return names
}

// talk posts messages to an agent, one after the other.
func talk(posts ...post) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "soup.png"), []byte("\x89PNG\r\n\x1a\n and more"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	media, err := channel.OpenMediaRoot(dir, 1<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = media.Close() }()
	k := &channel.Kernel{
		Agent: agent(reader), Media: media, Window: channel.NewWindow(nil, channel.WindowOptions{Media: media}),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	everybody := board{channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RequireMention: true, RouteAllowed: true, Unmentioned: channel.UnmentionedHistory,
	}}
	for _, m := range posts {
		r, err := channel.Run(context.Background(), k, channel.Event[post]{Meta: channel.Meta{Channel: "board"}, Raw: m, Adapter: everybody})
		fmt.Println(m.id, r.Outcome, r.Admission.Reason, err)
	}
}

// In a group, a message that does not address the agent is not answered; it waits until another one does (CH-194).
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

// An image comes first, and the mention later: the agent sees both (CH-194).
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

// A reply that quotes an image brings the image (CH-194).
func ExampleRun_quotedImage() {
	talk(post{id: "2", from: "Bob", text: "@ling what is this?", replyTo: &post{id: "1", from: "Ann", text: "look", image: "soup.png"}})
	// Output:
	//   in reply to Ann: "look"
	//   Bob: what is this? [soup.png]
	// to kitchen: ok
	// 2 visible  <nil>
}

// A direct message is answered without any mention, and there is no history but the session's own (CH-194).
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

// BuildContext maps facts to what an agent is told, for channels that run their turns by themselves.
func ExampleBuildContext() {
	c, err := channel.BuildContext(channel.Facts{
		Channel: "paper", MessageID: "1", From: "42", Sender: channel.SenderFacts{ID: "42", Name: "Ann"},
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42"},
		Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "paper:42"},
		Reply:        channel.ReplyPlanFacts{To: "42"},
		Message:      channel.MessageFacts{RawBody: "hello"},
		Media: []channel.MediaFact{
			{Path: "/media/a.png", ContentType: "image/png"},
			{URL: "https://example.com/b.ogg", ContentType: "audio/ogg", Transcribed: true},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.SessionKey, c.SenderName, c.BodyForAgent)
	fmt.Printf("%q %q %q %v\n", c.MediaPaths(), c.MediaURLs(), c.MediaTypes(), c.MediaTranscribedIndexes())
	_, err = channel.BuildContext(channel.Facts{Channel: "paper"})
	fmt.Println(err)
	// Output:
	// paper:42 Ann hello
	// ["/media/a.png" ""] ["" "https://example.com/b.ogg"] ["image/png" "audio/ogg"] [1]
	// channel: Facts.MessageID is missing
}

// A prepared plan has a dispatch of its own: the kernel authorizes and records the turn, and the channel sends what it likes.
func ExampleKernel_RunPrepared() {
	k := &channel.Kernel{}
	policy := channel.Policy{DM: channel.PolicyOpen}
	sender := channel.SenderFacts{ID: "42"}
	r, err := k.RunPrepared(context.Background(), channel.Meta{Channel: "paper"}, &channel.Prepared{
		Common: channel.Common{
			Facts: channel.Facts{
				Channel: "paper", MessageID: "1", Sender: sender,
				Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42"},
				Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "paper:42"},
				Reply:        channel.ReplyPlanFacts{To: "42"},
				Access:       policy.Access(sender.Identity(), channel.MentionFacts{}),
				Message:      channel.MessageFacts{RawBody: "hello"},
			},
			OnPreDispatchFailure: func(_ context.Context, err error) { fmt.Println("not dispatched:", err) },
			OnFinalize: func(_ context.Context, r channel.Result) error {
				fmt.Println("finalized:", r.Outcome)
				return nil
			},
		},
		Dispatch: func(ctx context.Context, t *channel.Turn, _ channel.Agent) (channel.DispatchResult, error) {
			_, err := t.Sink.Do(ctx, channel.Block{Kind: channel.ReplyFinal}, func(context.Context) (channel.Receipt, error) {
				fmt.Println("a card with", t.Context.BodyForAgent)
				return channel.Receipt{MessageIDs: []string{"7"}}, nil
			})
			return channel.DispatchResult{}, err
		},
	})
	fmt.Println(r.Outcome, r.Dispatch.Final, err)
	// Output:
	// a card with hello
	// finalized: visible
	// visible 1 <nil>
}

// directory is a recorder that looks the name of a group up beside the turn.
type directory struct{}

func (directory) Record(_ context.Context, r channel.Row) error {
	fmt.Println("recorded:", r.SessionKey, r.CreateIfMissing)
	return nil
}

func (directory) LastRoute(context.Context, channel.Row) error { return nil }

func (directory) Enrich(r channel.Row) func(context.Context) error {
	return func(context.Context) error { return fmt.Errorf("nobody knows the group %s", r.Group.ID) }
}

// Track gets the recorder's task. NoDelivery is for an agent that only observes.
func ExampleEnricher() {
	k := &channel.Kernel{Recorder: directory{}, Agent: agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{NoReply: true}, nil
	})}
	var wait func(context.Context) error
	r, err := k.RunAssembled(context.Background(), channel.Meta{Channel: "paper"}, &channel.Assembled{
		Delivery: channel.NoDelivery{},
		Common: channel.Common{
			Facts: channel.Facts{
				Channel: "paper", MessageID: "1", Sender: channel.SenderFacts{ID: "42"},
				Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "7"},
				Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "paper:7"},
				Reply:        channel.ReplyPlanFacts{To: "7"},
				Access:       channel.AccessFacts{Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}},
				Message:      channel.MessageFacts{RawBody: "hello"},
			},
			Record: channel.RecordOptions{CreateIfMissing: true, Track: func(w func(context.Context) error) { wait = w }},
		},
	})
	fmt.Println(r.Outcome, err)
	fmt.Println(wait(context.Background()))
	// Output:
	// recorded: paper:7 true
	// silent <nil>
	// nobody knows the group 7
}

package platform

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// Message is a message of a platform, or another event of a conversation, as its channel has read it.
type Message struct {
	Input *channel.Input
	Kind  channel.EventKind
	Press *channel.Press // of a button of a question; nil
	Files []Attachment

	Mentions func(channel.Names) channel.MentionFacts // returns the mentions in the message; nil: it has none
	Edited   string                                   // the id of the message that has this text from now on; ""
	Deleted  []string                                 // ids of messages
}

// Event runs the turn of an event: of one message, or of several by one sender, of which the last is answered. [Service] sets the fields before Messages,
// and the channel the others. Acknowledge, ShowPress and Finalize may be nil.
type Event struct {
	Kernel *kernel.Kernel
	Meta   kernel.Meta
	Agent  string // answers if the settings name none
	Media  *MediaStore

	Messages  []Message // in order; none: the event means nothing to an agent
	Sender    channel.SenderFacts
	Place     channel.ConversationFacts
	Reply     channel.ReplyPlanFacts
	Thread    string            // names the session, if the answer begins a thread; "" is that of Place
	Admission channel.Admission // of preflight

	// Acknowledge tells the platform that the event has come, if it cannot wait.
	Acknowledge func(context.Context)
	// Complete adds the quoted message to the facts. It returns its files, and mentions beside those of Messages, such as a reply to the bot.
	Complete func(context.Context, *channel.Facts, channel.Policy) (m channel.MentionFacts, quoted []Attachment)
	// Delivery returns how the answer is sent.
	Delivery func(*channel.Facts) *kernel.Delivery
	// ShowPress shows the result of a press to the person who pressed.
	ShowPress func(context.Context, channel.Pressed)
	Finalize  func(context.Context, channel.Result) error
}

// ReplyPlan says that the answer goes to a conversation: to one of its threads, or as a reply to a message, where these are named. Its messages reply to
// replyTo in a thread, too.
func ReplyPlan(kind channel.ChatType, to, thread, replyTo string) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{To: to, OriginatingTo: to, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyChannel}
	if kind == channel.Direct {
		r.Mode = channel.ReplyDirect
	}
	if replyTo != "" {
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(replyTo)
	}
	if thread != "" {
		r.Mode, r.MessageThreadID = channel.ReplyThread, channel.Some(thread)
	}
	return r
}

// Run runs the turn.
func (e *Event) Run(ctx context.Context) (channel.Result, error) {
	return kernel.Run(ctx, e.Kernel, e.Meta, e.Messages, &kernel.Adapter[[]Message]{
		Ingest: e.ingest, Classify: e.classify, Preflight: e.preflight, Resolve: e.resolve, Finalize: e.finalize,
	})
}

func (e *Event) ingest(_ context.Context, list []Message) (*channel.Input, error) {
	var inputs []*channel.Input
	for _, m := range list {
		inputs = append(inputs, m.Input)
	}
	return channel.MergeInputs(inputs), nil
}

func (e *Event) last() *Message { return &e.Messages[len(e.Messages)-1] }

// classify lets a message, a command and the press of a button of a question start a turn.
func (e *Event) classify(ctx context.Context, in *channel.Input) (channel.EventClass, error) {
	if e.Acknowledge != nil {
		e.Acknowledge(ctx)
	}
	kind, press := e.last().Kind, e.last().Press != nil
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		kind = channel.EventCommand
	}
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || kind == channel.EventCommand || press}, nil
}

// preflight says how the images of a message that is not answered are loaded, which wait with it for a later mention.
func (e *Event) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	pf := channel.Preflight{Admission: e.Admission}
	if in.HasMedia {
		images := slices.DeleteFunc(e.files(), func(a Attachment) bool { return a.Fact.Kind != channel.MediaImage })
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			all, _ := e.Media.Load(ctx, images)
			return all, nil
		}
	}
	return pf, nil
}

func (e *Event) files() (all []Attachment) {
	for _, m := range e.Messages {
		all = append(all, m.Files...)
	}
	return all
}

func (e *Event) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	f, quoted := e.Facts(ctx, in)
	if p := e.last().Press; p != nil {
		return e.Kernel.PressTurn(f, *p, e.ShowPress), nil
	}
	e.addMedia(ctx, &f, quoted)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: e.Delivery(&f)}, nil
}

// Facts returns what is known of the event but for its files, and the files of the message that it quotes.
func (e *Event) Facts(ctx context.Context, in *channel.Input) (f channel.Facts, quoted []Attachment) {
	key := channel.KeyParts{Channel: e.Meta.Channel, Account: e.Meta.Account, Conversation: e.Place.ID}
	f = channel.Facts{
		Channel: key.Channel, Account: key.Account, MessageID: in.ID, From: e.Sender.ID, Timestamp: in.Timestamp, Sender: e.Sender, Conversation: e.Place,
		Route: channel.RouteFacts{CreateIfMissing: true}, Reply: e.Reply,
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, Preview: channel.Preview(in.RawText),
		},
	}
	if key.Thread = cmp.Or(e.Thread, e.Place.ThreadID); key.Thread != "" || e.Place.ParentID != "" {
		parent := channel.KeyParts{Channel: key.Channel, Account: key.Account, Conversation: cmp.Or(e.Place.ParentID, key.Conversation)}
		f.Route.ParentSessionKey = channel.SessionKey(parent)
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
	policy := e.Kernel.PolicyOf(ctx, &f)
	who := f.Sender // without the name that Complete may ask the platform for
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	f.Route.AgentID = cmp.Or(policy.Agent, e.Agent)
	mentions, quoted := e.Complete(ctx, &f, policy)
	names := channel.NewNames(policy.Patterns)
	for _, one := range e.Messages {
		if one.Mentions != nil {
			mentions = channel.MergeMentions(mentions, one.Mentions(names))
		}
	}
	f.Message.SenderLabel = f.Sender.Label()
	f.Access = policy.Access(who, mentions)
	return f, quoted
}

// addMedia adds the files of the event, and of the message that it quotes, to its facts. They are loaded if the gates let the message in; those of what
// context_visibility hides are not (CH-109).
func (e *Event) addMedia(ctx context.Context, f *channel.Facts, quoted []Attachment) {
	local := e.files()
	f.Media = factsOf(local)
	if f.Supplemental.Quote != nil {
		f.Supplemental.Quote.Media = factsOf(quoted)
	}
	if len(local)+len(quoted) == 0 || channel.Evaluate(*f).Admission.Stops() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	seen, hidden := f.Supplemental.Visible(f.Access.Visibility)
	if !hidden {
		var notes []string
		f.Media, notes = e.Media.Load(ctx, local)
		f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
	}
	if seen.Quote != nil {
		f.Supplemental.Quote.Media, _ = e.Media.Load(ctx, quoted)
	}
}

// finalize answers a press that the gates did not let in, changes a message that was edited or deleted where it waits in the window
// (CH-98), and calls the hook.
func (e *Event) finalize(ctx context.Context, r channel.Result) error {
	m := e.last()
	if refused, ok := channel.RefusedPress(r); ok && m.Press != nil {
		e.ShowPress(ctx, refused)
	}
	f := &channel.Facts{Channel: e.Meta.Channel, Account: e.Meta.Account, Conversation: e.Place, Sender: e.Sender}
	key, window := f.WindowKey(), e.Kernel.Window
	switch {
	case m.Deleted != nil:
		window.Forget(ctx, key, m.Deleted...)
	case m.Edited == "" || e.Place.Kind == channel.Direct:
	default:
		if policy := e.Kernel.PolicyOf(ctx, f); policy.Sees(e.Place.Kind, f.Sender) == channel.Yes {
			window.Edit(ctx, key, m.Edited, m.Input.TextForAgent)
		} else { // its sender may not talk there any more
			window.Forget(ctx, key, m.Edited)
		}
	}
	if e.Finalize == nil {
		return nil
	}
	return e.Finalize(ctx, r)
}

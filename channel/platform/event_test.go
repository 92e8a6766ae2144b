package platform_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// settings have one policy for all places.
type settings struct{ policy channel.Policy }

func (s settings) Policy(channel.PolicyQuery) channel.Policy { return s.policy }

// newEvent returns an event with a message of Ann in the group -5, and a pointer to what the agent is given.
func newEvent(t *testing.T, p channel.Policy, m platform.Message) (*platform.Event, **channel.TurnContext) {
	t.Helper()
	got := new(*channel.TurnContext)
	agent := channeltest.AgentFunc(func(_ context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		*got = turn.Context
		return channel.DispatchResult{NoReply: true}, nil
	})
	p.RouteAllowed = true
	media := &platform.MediaStore{Dir: t.TempDir(), Prefix: "x-", Limit: 100, Log: slog.New(slog.DiscardHandler)}
	media.Fetch = func(_ context.Context, a platform.Attachment, w io.Writer) error {
		_, err := io.WriteString(w, a.ID)
		return err
	}
	root, err := channel.OpenMediaRoot(media.Dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &platform.Event{
		Kernel: &kernel.Kernel{Agent: agent, Settings: settings{p}, Media: root, Window: channel.NewWindow(nil, channel.WindowOptions{})},
		Meta:   kernel.Meta{Channel: "x", Account: "work"}, Agent: "assistant", Media: media, Messages: []platform.Message{m},
		Sender: channel.SenderFacts{ID: "7", Name: "Ann", Username: "ann"},
		Place:  channel.ConversationFacts{Kind: channel.Group, ID: "-5", ThreadID: "3"}, Reply: channel.ReplyPlanFacts{To: "-5"},
		Complete: func(context.Context, *channel.Facts, channel.Policy) (channel.MentionFacts, []platform.Attachment) {
			return channel.MentionFacts{}, nil
		},
		Delivery: func(*channel.Facts) *kernel.Delivery { return nil },
	}, got
}

func message(text string) *channel.Input {
	return &channel.Input{ID: "5", ConversationID: "-5", SenderID: "7", RawText: "@bot " + text, TextForAgent: text, TextForCommands: text}
}

func TestWhichEventsStartATurn(t *testing.T) {
	press := &channel.Press{ID: "1", Approve: true}
	for name, tt := range map[string]struct {
		m    platform.Message
		want channel.EventClass
	}{
		"a message":       {platform.Message{Input: message("hi"), Kind: channel.EventMessage}, channel.MessageClass},
		"a command":       {platform.Message{Input: message(",help me"), Kind: channel.EventMessage}, channel.EventClass{Kind: channel.EventCommand, CanStartAgentTurn: true}},
		"an edit":         {platform.Message{Input: message(",help me"), Kind: channel.EventLifecycle}, channel.EventClass{Kind: channel.EventLifecycle}},
		"a press":         {platform.Message{Input: message(""), Kind: channel.EventInteraction, Press: press}, channel.EventClass{Kind: channel.EventInteraction, CanStartAgentTurn: true}},
		"another's press": {platform.Message{Input: message(""), Kind: channel.EventInteraction}, channel.EventClass{Kind: channel.EventInteraction}},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := newEvent(t, channel.Policy{}, tt.m)
			var shown []channel.Pressed
			e.ShowPress = func(_ context.Context, s channel.Pressed) { shown = append(shown, s) }
			if r, err := e.Run(t.Context()); r.Class != tt.want || err != nil {
				t.Errorf("got %+v, %v", r.Class, err)
			}
			if want := tt.m.Press != nil; want != slices.Equal(shown, []channel.Pressed{channel.PressRefused}) {
				t.Errorf("the person who pressed was shown %v", shown)
			}
		})
	}
}

func TestFactsNameTheSessionAndTheAgent(t *testing.T) {
	e, _ := newEvent(t, channel.Policy{SystemPrompt: "be brief"}, platform.Message{Input: message("hi")})
	f, _ := e.Facts(t.Context(), e.Messages[0].Input)
	if f.Route.RouteSessionKey != "x@work:-5#3" || f.Route.ParentSessionKey != "x@work:-5" || f.Route.AgentID != "assistant" || f.MessageID != "5" ||
		f.Message.BodyForAgent != "hi" || f.Message.CommandBody != "hi" || f.Message.SenderLabel != "Ann (@ann)" || f.Supplemental.GroupSystemPrompt != "be brief" {
		t.Errorf("%+v", f)
	}
	for thread, want := range map[string]string{"": "x@work:-5", "9": "x@work:-5#9"} {
		e.Place.ThreadID, e.Thread = "", thread
		if f, _ = e.Facts(t.Context(), e.Messages[0].Input); f.Route.RouteSessionKey != want || (f.Route.ParentSessionKey != "") != (thread != "") {
			t.Errorf("%q: %+v", thread, f.Route)
		}
	}
}

// CH-109, CH-178
func TestFilesAreLoadedForWhatTheAgentSees(t *testing.T) {
	for name, tt := range map[string]struct {
		policy     channel.PolicyKind
		visibility channel.Visibility
		author     channel.Tri // of the quote
		forwarded  channel.Tri
		loaded     []string
	}{
		"let in":           {channel.PolicyOpen, channel.VisibleAll, channel.No, channel.Yes, []string{"own", "quoted"}},
		"denied":           {channel.PolicyDisabled, channel.VisibleAll, channel.Yes, channel.Yes, nil},
		"a hidden quote":   {channel.PolicyOpen, channel.VisibleAllowlist, channel.No, channel.Yes, []string{"own"}},
		"a hidden forward": {channel.PolicyOpen, channel.VisibleAllowlist, channel.Yes, channel.No, []string{"quoted"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := message("hi")
			in.HasMedia = true
			files := []platform.Attachment{{ID: "own", Name: "own"}, {ID: "large", Name: "large", Fact: channel.MediaFact{Kind: channel.MediaDocument, Size: 1000}}}
			e, got := newEvent(t, channel.Policy{Group: tt.policy, Visibility: tt.visibility}, platform.Message{Input: in, Kind: channel.EventMessage, Files: files})
			e.Complete = func(_ context.Context, f *channel.Facts, _ channel.Policy) (channel.MentionFacts, []platform.Attachment) {
				f.Supplemental.Quote = &channel.Quote{ID: "1", SenderAllowed: tt.author}
				f.Supplemental.Forwarded = &channel.Forwarded{From: "Zed", SenderAllowed: tt.forwarded}
				return channel.MentionFacts{}, []platform.Attachment{{ID: "quoted"}}
			}
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			var loaded []string
			if *got != nil {
				for _, m := range (*got).Media {
					if data, err := os.ReadFile(m.Path); err == nil {
						loaded = append(loaded, string(data))
					}
				}
				want := "hi\n[document \"large\" is too large: 1000 bytes; expected at most 100]"
				if own := slices.Contains(tt.loaded, "own"); own && (*got).BodyForAgent != want {
					t.Errorf("the agent reads %q, expected %q", (*got).BodyForAgent, want)
				}
			}
			if stored, _ := os.ReadDir(e.Media.Dir); !slices.Equal(loaded, tt.loaded) || len(stored) != len(tt.loaded) {
				t.Errorf("loaded %q, and stored %d files", loaded, len(stored))
			}
		})
	}
}

// CH-98
func TestAWaitingMessageIsEditedOrRemoved(t *testing.T) {
	for name, tt := range map[string]struct {
		policy channel.PolicyKind
		kind   channel.ChatType
		want   []string
	}{
		"by a sender who may talk": {channel.PolicyOpen, channel.Group, []string{"new"}},
		"by one who may not":       {channel.PolicyDisabled, channel.Group, nil},
		"in a direct conversation": {channel.PolicyDisabled, channel.Direct, []string{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := newEvent(t, channel.Policy{Group: tt.policy}, platform.Message{Input: message("new"), Kind: channel.EventLifecycle, Edited: "1"})
			key, w := channel.WindowKey{Channel: "x", Account: "work", Conversation: "-5", Thread: "3"}, e.Kernel.Window
			if err := w.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, MessageID: "1", Message: channel.MessageFacts{RawBody: "old"}}); err != nil {
				t.Fatal(err)
			}
			e.Place.Kind = tt.kind
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range w.Snapshot(t.Context(), key, 0).Entries {
				got = append(got, e.Body)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

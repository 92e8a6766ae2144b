package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tool"
)

// fullFacts are a message with all that the page of the turn kernel knows of one.
func fullFacts() channel.Facts {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return channel.Facts{
		Account: "work", MessageID: "m1", MessageIDFull: "c/m1", Timestamp: at, From: "user:42",
		Sender: channel.SenderFacts{ID: "42", Name: "Ann", Username: "ann", Tag: "ann#1", DisplayLabel: "Ann (work)", Roles: []string{"r1"}},
		Conversation: channel.ConversationFacts{
			Kind: channel.Group, ID: "c", Label: "Kitchen", SpaceID: "space", ParentID: "parent", ThreadID: "thread", NativeChannelID: "native",
			RoutePeer: channel.Peer{Kind: channel.Group, ID: "peer"},
		},
		Route: channel.RouteFacts{
			AccountID: "route-account", RouteSessionKey: "route", DispatchSessionKey: "dispatch", PersistedSessionKey: "persisted",
			ParentSessionKey: "parent-session", ModelParentSessionKey: "model-parent", MainSessionKey: "main", CreateIfMissing: true,
		},
		Reply: channel.ReplyPlanFacts{
			To: "c", OriginatingTo: "origin", NativeChannelID: "native-reply", ReplyTarget: "visible", DeliveryTarget: "low", ReplyToID: channel.Some("m0"),
			MessageThreadID: channel.Some("t7"), ThreadParentID: channel.Some("t0"), Mode: channel.ReplyThread,
		},
		Access: channel.AccessFacts{
			DM:       channel.DMFacts{Policy: channel.PolicyDisabled, AllowFrom: []string{"42"}, Sender: true},
			Group:    channel.GroupFacts{Policy: channel.PolicyAllowlist, RouteAllowed: true, Sender: true, AllowFrom: []string{"42"}, RequireMention: true},
			Commands: channel.CommandFacts{Authorizers: []channel.Authorizer{{Name: "operators", Role: tool.Operator, Configured: true, Allowed: true}}},
			Mentions: channel.MentionFacts{CanDetect: true, WasMentioned: true, HasAnyMention: true},
		},
		Message: channel.MessageFacts{
			RawBody: "raw", Body: "envelope: raw", BodyForAgent: "for the agent", CommandBody: ",help", EnvelopeFrom: "Ann", SenderLabel: "Ann!", Preview: "ra…",
		},
		Media: []channel.MediaFact{{URL: "https://example.com/a.png", Kind: channel.MediaImage, ContentType: "image/png", MessageID: "m1", Transcribed: true}},
		Supplemental: channel.SupplementalFacts{
			Quote:     &channel.Quote{ID: "m0", FullID: "c/m0", Body: "quoted", Sender: "Bob", SenderAllowed: channel.Yes, IsQuote: true},
			Forwarded: &channel.Forwarded{From: "Carl", FromType: "user", FromID: "43", Date: at, SenderAllowed: channel.Yes},
			Thread:    &channel.Thread{ID: "thread", StarterBody: "starter", HistoryBody: "history", Label: "Soup", SenderAllowed: channel.Yes},
			Untrusted: []channel.Untrusted{{Kind: "topic", Text: "soups"}}, GroupSystemPrompt: "be short",
		},
	}
}

// peerSettings name the agent by the peer.
type peerSettings struct{ asked []channel.PolicyQuery }

func (s *peerSettings) Policy(q channel.PolicyQuery) (p channel.Policy) {
	s.asked = append(s.asked, q)
	if q.Conversation == "peer" {
		p.Agent = "agent"
	}
	return p
}

// Every entry point takes the facts of the page to the same place: the agent, the recorder, the delivery, the gates.
func TestAChannelUsesEveryFactAndEntryPointOfThePage(t *testing.T) {
	var first string
	for _, by := range []string{"run", "assembled", "prepared"} {
		s, settings, recorder := newRig(), &peerSettings{}, &rows{}
		s.facts = fullFacts()
		s.record = kernel.RecordOptions{UpdateLastRoute: true}
		s.kernel.Settings, s.kernel.Recorder = settings, recorder
		if by != "run" { // they have their route
			s.facts.Route.AgentID = "agent"
		}
		var got *channel.Turn
		s.kernel.Agent = agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			got = turn
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "answer"})
		})
		s.in = &channel.Input{
			ID: "m1", Timestamp: s.facts.Timestamp, RawText: "raw", TextForAgent: "for the agent", TextForCommands: ",help", ConversationID: "c", ThreadID: "thread",
			SenderID: "42", HasMedia: true, Raw: "raw event",
		}
		r, err := s.enter(t.Context(), by)
		if err != nil || r.Outcome != channel.OutcomeVisible || r.Route.AgentID != "agent" || r.SessionKey != "dispatch" {
			t.Fatalf("%s: got %+v, %v", by, r, err)
		}
		c := got.Context
		c.Channel = "" // the same for all
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if diff := cmp.Diff(first, string(text)); diff != "" {
			t.Errorf("%s: another context (-run +got):\n%s", by, diff)
		}
		route := channel.PolicyQuery{Channel: "fake", Account: "route-account", Conversation: "peer", Parent: "parent", Thread: "thread", Kind: channel.Group}
		if by == "run" && !slices.Contains(settings.asked, route) {
			t.Errorf("the settings were asked with %+v", settings.asked)
		}
		if row := recorder.rows[0]; row.SessionKey != "persisted" || !row.CreateIfMissing || row.Group.Label != "Kitchen" || !recorder.routed {
			t.Errorf("%s: recorded %+v", by, row)
		}
		if b := s.platform.blocks[0]; b.Target != s.facts.Reply {
			t.Errorf("%s: the block went to %+v", by, b.Target)
		}
	}
	for _, word := range []string{
		"for the agent", "envelope: raw", ",help", "user:42", "ann#1", "r1", "origin", "route-account", "parent-session", "model-parent", "c/m1", "c/m0", "quoted", "Bob", "Carl",
		"starter", "history", "Soup", "example.com", "native-reply", "Kitchen", "be short", "soups", "t7", "t0", "Ann",
	} {
		if !strings.Contains(first, word) {
			t.Errorf("the agent is not told %q: %s", word, first)
		}
	}
	for _, word := range []string{"persisted", "visible", "low", "main\"", "peer", "Ann!"} { // CH-141
		if strings.Contains(first, word) {
			t.Errorf("the agent is told %q", word)
		}
	}
	if f := fullFacts(); true { // BuildContext lists what is missing, and has no side effects
		f.Channel = "fake"
		if _, err := channel.BuildContext(f); err == nil || !strings.Contains(fmt.Sprint(err), "AgentID") {
			t.Errorf("got %v", err)
		}
	}
}

package channel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// topicRow is that of a message of a topic.
func topicRow(session, thread string) channel.Row {
	return channel.Row{
		SessionKey: session, Channel: "fake", Account: "a", Sender: "p",
		Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "c", ThreadID: thread},
		Reply:        channel.ReplyPlanFacts{To: "c", MessageThreadID: channel.Some(thread), ReplyToID: channel.Some("7")},
	}
}

// CH-23: what a turn needs that the server begins.
func TestTheLastRouteOfASessionIsKnown(t *testing.T) {
	s := channel.NewSessions(nil)
	for _, thread := range []string{"1", "2", "1"} {
		if err := s.Record(t.Context(), topicRow("s", thread), true); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := s.Last(t.Context(), "s")
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	want := topicRow("s", "1")
	want.Reply.ReplyToID = channel.Opt{} // a later message is no answer to this one
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	places, err := s.Places(t.Context(), "s")
	place := channel.WindowKey{Channel: "fake", Account: "a", Conversation: "c"}
	first, second := place, place
	first.Thread, second.Thread = "2", "1"
	if diff := cmp.Diff([]channel.WindowKey{first, second}, places); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, ok, err := s.Last(t.Context(), "other"); ok || err != nil {
		t.Errorf("a session that nobody wrote in has a last route, %v", err)
	}
	if err := s.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := s.Last(t.Context(), "s"); ok {
		t.Error("a session that was forgotten has a last route")
	}
}

// CH-23: only messages of the owner change the last route of a main session and of the sender's own.
func TestFirstSenderOwnsAMainSession(t *testing.T) {
	s := channel.NewSessions(nil)
	record := func(sender string, kind channel.ChatType, stored bool) {
		t.Helper()
		r := channel.Row{
			SessionKey: "fake:" + sender, Sender: sender, Route: channel.RouteFacts{MainSessionKey: "main"}, Conversation: channel.ConversationFacts{Kind: kind},
		}
		if err := s.Record(t.Context(), r, true); err != nil {
			t.Fatal(err)
		}
		last, ok, _ := s.Last(t.Context(), "main")
		_, own, _ := s.Last(t.Context(), r.SessionKey)
		if (ok && last.Sender == sender) != stored || own != stored {
			t.Errorf("%s: the last route is that of %q, its own is known: %t", sender, last.Sender, own)
		}
	}
	record("eve", channel.Group, false)
	record("ann", channel.Direct, true)
	record("bob", channel.Direct, false)
	if err := s.Forget(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	record("bob", channel.Direct, true)
}

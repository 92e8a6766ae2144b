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
	}
}

func TestThePlacesOfASessionAreKnown(t *testing.T) {
	s := channel.NewSessions(nil)
	for _, thread := range []string{"1", "2", "1"} {
		if err := s.Record(t.Context(), topicRow("s", thread), true); err != nil {
			t.Fatal(err)
		}
	}
	places, err := s.Places(t.Context(), "s")
	place := channel.WindowKey{Channel: "fake", Account: "a", Conversation: "c"}
	first, second := place, place
	first.Thread, second.Thread = "2", "1"
	if diff := cmp.Diff([]channel.WindowKey{first, second}, places); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if places, err := s.Places(t.Context(), "other"); places != nil || err != nil {
		t.Errorf("a session that nobody wrote in has the places %v, %v", places, err)
	}
	if err := s.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if places, _ := s.Places(t.Context(), "s"); places != nil {
		t.Errorf("a session that was forgotten has the places %v", places)
	}
}

// CH-23: only messages of the owner change the last route of a main session and of the sender's own.
func TestFirstSenderOwnsAMainSession(t *testing.T) {
	s := channel.NewSessions(nil)
	record := func(sender string, kind channel.ChatType, stored bool) {
		t.Helper()
		r := channel.Row{
			SessionKey: "fake:" + sender, Sender: sender, Route: channel.RouteFacts{MainSessionKey: "main"}, Conversation: channel.ConversationFacts{Kind: kind, ID: sender},
		}
		if err := s.Record(t.Context(), r, true); err != nil {
			t.Fatal(err)
		}
		places, _ := s.Places(t.Context(), "main")
		own, _ := s.Places(t.Context(), r.SessionKey)
		isLast := len(places) > 0 && places[len(places)-1].Conversation == sender
		if isLast != stored || (own != nil) != stored {
			t.Errorf("%s: the places are %v, its own are %v", sender, places, own)
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

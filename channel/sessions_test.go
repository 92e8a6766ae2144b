package channel_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// topicRow is that of a message of a topic.
func topicRow(session, thread string) channel.Row {
	return channel.Row{
		SessionKey: session, Channel: "fake", Account: "a", Sender: "p", At: time.Unix(1, 0).UTC(),
		Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "c", ThreadID: thread},
		Reply:        channel.ReplyPlanFacts{To: "c", MessageThreadID: channel.Some(thread), ReplyToID: channel.Some("7")},
	}
}

// CH-23: what a turn needs that the server begins.
func TestTheLastRouteOfASessionIsKnown(t *testing.T) {
	s := channel.NewSessions(nil, nil)
	for _, thread := range []string{"1", "2", "1"} {
		if err := s.LastRoute(t.Context(), topicRow("s", thread)); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := s.Last(t.Context(), "s")
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	want := topicRow("s", "1")
	want.Reply.ReplyToID = channel.Opt{} // a later message is no answer to this one
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(channel.Opt{})); diff != "" {
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

// CH-23: the kernel asks for the owner before it changes the last route of a main session.
func TestFirstSenderOwnsAMainSession(t *testing.T) {
	store := channel.NewTexts(0)
	record := func(sender string, kind channel.ChatType) {
		t.Helper()
		err := channel.NewSessions(store, nil).Record(t.Context(), channel.Row{
			SessionKey: "fake:" + sender, Sender: sender, Route: channel.RouteFacts{MainSessionKey: "main"}, Conversation: channel.ConversationFacts{Kind: kind},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	owner := func(want string) {
		t.Helper()
		if got, err := channel.NewSessions(store, nil).Owner(t.Context(), "main"); got != want || err != nil {
			t.Errorf("the owner is %q, %v, want %q", got, err, want)
		}
	}
	record("eve", channel.Group)
	owner("")
	record("ann", channel.Direct)
	record("bob", channel.Direct)
	owner("ann")
	if err := channel.NewSessions(store, nil).Forget(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	record("bob", channel.Direct)
	owner("bob")
}

package channel_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// topicRow is that of a message of a topic.
func topicRow(session, thread string) channel.Row {
	return channel.Row{SessionKey: session, Channel: "fake", Account: "a", Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "c", ThreadID: thread}}
}

// CH-76: what is erased with a session.
func TestThePlacesOfASessionAreKnown(t *testing.T) {
	s := channel.NewSessions(nil)
	record := func(thread string, lastRoute bool) {
		t.Helper()
		if err := s.Record(t.Context(), topicRow("s", thread), lastRoute); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(session string, threads ...string) {
		t.Helper()
		var want []channel.WindowKey
		for _, thread := range threads {
			want = append(want, channel.WindowKey{Channel: "fake", Account: "a", Conversation: "c", Thread: thread})
		}
		got, err := s.Places(t.Context(), session)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
	for _, thread := range []string{"1", "2", "1"} {
		record(thread, true)
	}
	record("3", false)
	expect("s", "2", "1")
	expect("other")
	for i := range 17 {
		record(fmt.Sprint("new ", i), true)
	}
	if places, err := s.Places(t.Context(), "s"); err != nil || len(places) != 16 || places[15].Thread != "new 16" {
		t.Errorf("got %+v, %v", places, err)
	}
	if err := s.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	expect("s")
}

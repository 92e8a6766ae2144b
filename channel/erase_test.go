package channel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// CH-76: by the name alone, where nobody has recorded where the session's messages came from.
func TestTheConversationOfASessionIsReadFromItsName(t *testing.T) {
	for name, want := range map[string]WindowKey{
		"telegram:42":              {Channel: "telegram", Conversation: "42"},
		"telegram:-100123#7":       {Channel: "telegram", Conversation: "-100123", Thread: "7"},
		"telegram@work:42~clerk":   {Channel: "telegram", Account: "work", Conversation: "42"},
		"web:alice#s-42":           {Channel: "web", Conversation: "alice", Thread: "s-42"},
		"slack:C%3A1#171.2":        {Channel: "slack", Conversation: "C:1", Thread: "171.2"},
		"telegram":                 {},
		"s-42":                     {},
		"telegram!0123456789abcde": {},
		"telegram:42:43":           {},
		"telegram:%zz":             {},
		"":                         {},
	} {
		got, ok := PlaceNamed(name)
		if ok != (want != WindowKey{}) || ok && got != want {
			t.Errorf("%q: got %+v, %v, expected %+v", name, got, ok, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("@:#~!%/a"))))
		want := WindowKey{
			Channel: part.Filter(func(s string) bool { return s != "" }).Draw(t, "channel"), Account: part.Draw(t, "account"),
			Conversation: part.Filter(func(s string) bool { return s != "" }).Draw(t, "conversation"), Thread: part.Draw(t, "thread"),
		}
		name := SessionKey(KeyParts{want.Channel, want.Account, want.Conversation, want.Thread, part.Draw(t, "agent")})
		if got, ok := PlaceNamed(name); strings.Contains(name, "!") == ok || ok && got != want {
			t.Errorf("%q: got %+v, %v, expected %+v", name, got, ok, want)
		}
	})
}

// CH-76
func TestNothingOfASessionThatIsErasedIsInTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openOutbox(t, OutboxOptions{}, nil)
		defer closeOutbox(t, o)
		put := func(session, text string) {
			t.Helper()
			out := Outbound{Channel: "fake", Sender: "fake", Session: session, Block: Block{Kind: ReplyFinal, Payload: Payload{Text: text}, Target: ReplyPlanFacts{To: session}}}
			id, err := o.put(t.Context(), out)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = o.first(t.Context(), id)
		}
		put("erased", "canary one") // nobody sends: it waits
		put("kept", "another")
		var p post
		during, release := make(chan struct{}), make(chan struct{})
		o.Register("slow", &p)
		p.answer = func(out Outbound) (Receipt, error) {
			close(during)
			<-release
			return Receipt{}, &NotSentError{Retryable: true}
		}
		go func() {
			out := Outbound{Channel: "fake", Sender: "slow", Session: "erased", Block: Block{Kind: ReplyFinal, Payload: Payload{Text: "canary two"}, Target: ReplyPlanFacts{To: "x"}}}
			id, _ := o.put(context.Background(), out)
			_, _, _ = o.first(context.Background(), id)
		}()
		<-during
		if err := o.Erase("erased"); err != nil {
			t.Fatal(err)
		}
		close(release) // it could be tried again, but is not
		synctest.Wait()
		o.Start()
		time.Sleep(time.Hour)
		if got := p.said(); len(got) != 1 {
			t.Errorf("sent %q, expected the one that was on its way", got)
		}
		if diff := cmp.Diff(map[string]int{"fake": 1}, o.Pending()); diff != "" {
			t.Error(diff)
		}
	})
}

// CH-76: the events and the words of a conversation are erased with its session, and those of no other.
func TestErasingASessionErasesItsConversation(t *testing.T) {
	sessions, journal := NewSessions(nil, nil), NewJournal(nil)
	k := &Kernel{Journal: journal, Window: NewWindow(NewTexts(100), WindowOptions{}), Recorder: sessions}
	of := func(conversation string) WindowKey {
		return WindowKey{Channel: "chat", Conversation: conversation, Thread: "7"}
	}
	for session, conversation := range map[string]string{"s": "hers", "other": "his"} {
		place := ConversationFacts{Kind: Group, ID: conversation, ThreadID: "7"}
		_, accepted := journal.Accept(t.Context(), EventKey{Channel: "chat", Conversation: conversation, Thread: "7", ID: "1"}, []byte(conversation))
		err := errors.Join(
			accepted, sessions.LastRoute(t.Context(), Row{SessionKey: session, Channel: "chat", Conversation: place, At: time.Now()}),
			k.Window.Record(t.Context(), Recording{Key: of(conversation), Message: MessageFacts{RawBody: conversation}}),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Erase(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	var events []string
	for e := range journal.Pending(t.Context()) {
		events = append(events, e.Key.Conversation)
	}
	if diff := cmp.Diff([]string{"his"}, events); diff != "" {
		t.Error(diff)
	}
	for session, conversation := range map[string]string{"s": "hers", "other": "his"} {
		_, routed, err := sessions.Last(t.Context(), session)
		waiting := len(k.Window.Snapshot(t.Context(), of(conversation), 0).Entries)
		if kept := session == "other"; routed != kept || (waiting == 1) != kept || err != nil {
			t.Errorf("%s: its route is known: %v, %v; %d messages wait", session, routed, err, waiting)
		}
	}
}

// DS-09: the words of a conversation without a session are found by the name that its session would have.
func TestTheWordsOfAConversationWithoutASessionAreErased(t *testing.T) {
	k := &Kernel{Window: NewWindow(NewTexts(100), WindowOptions{})}
	for _, conversation := range []string{"hers", "his"} {
		if err := k.Window.Record(t.Context(), Recording{Key: WindowKey{Channel: "chat", Conversation: conversation}, Message: MessageFacts{RawBody: "hi"}}); err != nil {
			t.Fatal(err)
		}
	}
	if !k.Keeps(t.Context(), "chat:hers") || k.Keeps(t.Context(), "chat:nobody") || k.Keeps(t.Context(), "s") {
		t.Error("what waits is not found by its name")
	}
	if err := k.Erase(t.Context(), "chat:hers"); err != nil || k.Keeps(t.Context(), "chat:hers") || !k.Keeps(t.Context(), "chat:his") {
		t.Errorf("the words of the one and of no other are to go: %v", err)
	}
}

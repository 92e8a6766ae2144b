package channel_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tape"
)

// Section 13: the form of a key.
func TestASessionKeyReadsAsWhereItIs(t *testing.T) {
	long := strings.Repeat("x", 600)
	for name, test := range map[string]struct {
		parts channel.KeyParts
		want  string
	}{
		"a direct conversation":    {channel.KeyParts{Channel: "telegram", Conversation: "42"}, "telegram:42"},
		"a topic of a group":       {channel.KeyParts{Channel: "telegram", Conversation: "-100123", Thread: "7"}, "telegram:-100123#7"},
		"a principal's session":    {channel.KeyParts{Channel: "web", Conversation: "alice", Thread: "s-42"}, "web:alice#s-42"},
		"everything":               {channel.KeyParts{Channel: "slack", Account: "work", Conversation: "C1", Thread: "2", Agent: "helper"}, "slack@work:C1#2~helper"},
		"nothing but the door":     {channel.KeyParts{Channel: "cli"}, "cli"},
		"marks in parts":           {channel.KeyParts{Channel: "a@b", Account: "c:d", Conversation: "e#f", Thread: "g~h", Agent: "i%j!"}, "a%40b@c%3Ad:e%23f#g%7Eh~i%25j%21"},
		"blanks, and other script": {channel.KeyParts{Channel: "web", Conversation: "a b\n灵"}, "web:a%20b%0A%E7%81%B5"},
		"as long as it may be":     {channel.KeyParts{Channel: "web", Conversation: long[:508]}, "web:" + long[:508]},
		"longer":                   {channel.KeyParts{Channel: "web", Conversation: long[:509]}, "web!"},
		"a long channel":           {channel.KeyParts{Channel: long}, "!"},
	} {
		t.Run(name, func(t *testing.T) {
			got := channel.SessionKey(test.parts)
			if prefix, _, hashed := strings.Cut(test.want, "!"); hashed {
				if !strings.HasPrefix(got, prefix+"!") || len(got) != len(prefix)+1+64 {
					t.Errorf("got %q, want a hash behind %q", got, prefix+"!")
				}
			} else if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if err := tape.CheckSession(got); err != nil {
				t.Error(err)
			}
		})
	}
}

// Section 13: different facts never give one key. The letters are few and the marks many, so that parts meet.
func TestDifferentPartsNeverGiveOneSessionKey(t *testing.T) {
	part := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("a@:#~%!40 \n\u7075")), 0, 6, -1),
		rapid.StringMatching(`(a|%40){170,200}`),
		rapid.String(),
	)
	draw := func(t *rapid.T, name string) channel.KeyParts {
		return channel.KeyParts{
			Channel: "c" + part.Draw(t, name+" channel"), Account: part.Draw(t, name+" account"), Conversation: part.Draw(t, name+" conversation"),
			Thread: part.Draw(t, name+" thread"), Agent: part.Draw(t, name+" agent"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := draw(t, "a")
		b := a
		switch rapid.IntRange(0, 4).Draw(t, "how") {
		case 0:
			b = draw(t, "b")
		case 1: // what is at the end of one part goes to the start of the next
			if n := len(a.Account); n > 0 {
				b.Account, b.Conversation = a.Account[:n-1], a.Account[n-1:]+a.Conversation
			}
		case 2:
			b.Conversation, b.Thread = a.Conversation+"#"+a.Thread, ""
		case 3:
			b.Account, b.Agent = a.Agent, a.Account
		case 4:
			b.Channel, b.Account = a.Channel+"@"+a.Account, ""
		}
		x, y := channel.SessionKey(a), channel.SessionKey(b)
		if (x == y) != (a == b) {
			t.Errorf("%+v is %q and %+v is %q", a, x, b, y)
		}
		if err := tape.CheckSession(x); err != nil {
			t.Errorf("%q: %v", x, err)
		}
	})
}

func TestTheSessionsOfAConversationShareAPart(t *testing.T) {
	key := func(conversation, thread, agent string) string {
		return channel.SessionKey(channel.KeyParts{Channel: "web", Account: "a", Conversation: conversation, Thread: thread, Agent: agent})
	}
	for id, want := range map[string]string{
		key("ann", "one", ""): key("ann", "", ""), key("ann", "two#~", "clerk"): key("ann", "", ""), key("ann", "", "clerk"): key("ann", "", ""),
		key("bob", "one", ""): key("bob", "", ""),
		"a name":              "", key(strings.Repeat("x", 600), "one", ""): "",
	} {
		if got := channel.ConversationOf(id); got != want {
			t.Errorf("%q is of %q, expected %q", id, got, want)
		}
	}
}

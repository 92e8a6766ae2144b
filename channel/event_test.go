package channel

import (
	"strings"
	"testing"

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

func FuzzEventKeysHaveOneText(f *testing.F) { // CH-70
	f.Add("telegram", "", "-100", "5", "17", "telegram", "", "-100", `"5"`, "17")
	f.Add("a", "b/", "c", "", "", "a", "b", "/c", "", "")
	f.Add("%", "%2F", "\x00", "é", " ", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, a1, a2, a3, a4, a5, b1, b2, b3, b4, b5 string) {
		a, b := EventKey{Channel: a1, Account: a2, Conversation: a3, Thread: a4, ID: a5}, EventKey{Channel: b1, Account: b2, Conversation: b3, Thread: b4, ID: b5}
		if (a.String() == b.String()) != (a == b) {
			t.Errorf("%#v is %q, and %#v is %q", a, a, b, b)
		}
		if strings.ContainsFunc(a.String(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q has characters that a log does not show", a)
		}
		if back, err := ParseEventKey(a.String()); err != nil || back != a {
			t.Errorf("%q is read as %#v, %v, expected %#v", a, back, err, a)
		}
		if back, err := ParseEventKey(a1); err == nil && !strings.EqualFold(back.String(), a1) && back.String() == "" {
			t.Errorf("%q is read as nothing", a1)
		}
	})
}

package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/turn"
)

func TestWordsAreCutAsAShellDoes(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{" \t\n\u3000", nil},
		{"a  b\tc\nd\u00a0e", []string{"a", "b", "c", "d", "e"}},
		{`'a b' "c d"`, []string{"a b", "c d"}},
		{`a'b'"c"d`, []string{"abcd"}},
		{`'' ""`, []string{"", ""}},
		{`'a"b\' "a'b"`, []string{`a"b\`, "a'b"}},
		{`"a\"b\\c\nd"`, []string{`a"b\c\nd`}},
		{`a\ b \'c\" \\`, []string{"a b", `'c"`, `\`}},
		{`$HOME $(rm) ` + "`id`" + ` *;|&>x #no`, []string{"$HOME", "$(rm)", "`id`", "*;|&>x", "#no"}},
		{"天气\\ 好", []string{"天气 好"}},
	} {
		list, err := words(c.text)
		var got []string
		for _, w := range list {
			got = append(got, w.text())
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", c.text, err, diff)
		}
	}
}

// What stands in quotes is not taken for name=value.
func TestOnlyAnOpenEqualsSignNamesAnArgument(t *testing.T) {
	for text, want := range map[string]string{
		`a=b`: "a|b", `a=`: "a|", `a='b=c'`: "a|b=c", `a.b-c_1=x`: "a.b-c_1|x",
		`'a=b'`: "", `"a"=b`: "", `a"="b`: "", `a\=b`: "", `\a=b`: "", `=b`: "", `1=2`: "", `天=b`: "", `a==b`: "a|=b",
	} {
		list, err := words(text)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		name, value, ok := list[0].option()
		if got := name + "|" + value; ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %t", text, got, ok)
		}
	}
}

// quote makes one word of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Parsing returns the text that was quoted, in any place.
func TestWhatIsQuotedIsReadBack(t *testing.T) {
	c := &Command{Name: "x", Params: []Param{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab'"\\= \n]{0,12}`))
		want := map[string]string{"a": text.Draw(t, "a"), "b": text.Draw(t, "b"), "c": text.Draw(t, "c")}
		places := rapid.IntRange(0, 3).Draw(t, "places")
		line := ""
		for i, p := range c.Params {
			if line += rapid.SampledFrom([]string{" ", "\n ", "\t"}).Draw(t, "space"); i >= places {
				line += p.Name + "="
			}
			line += quote(want[p.Name])
		}
		a, err := parse(c, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for name, text := range want {
			if a[name] != text {
				t.Errorf("%q: %s is %q, expected %q", line, name, a[name], text)
			}
		}
	})
}

// A message of any kind is no panic, and arguments hold no more than the message does.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		",help", "，stop", `,tape.handoff 'a b' summary="c \" d"`, ",deny c1 reason=too dangerous", ",tape.search a\\", `,tape.search "`, ",forget", ",aprove x", ", no", ",\xff",
	} {
		f.Add(seed)
	}
	set := New()
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := set.Match(text)
		if !ok {
			return
		}
		// What the turn takes for a command, which is never steered, and what is answered here must be the same.
		if name, form := turn.CommandName(text); !form || name != m.Name {
			t.Fatalf("%q: a turn takes %q for the name, %t", text, name, form)
		}
		if !strings.HasPrefix(text, ",") && !strings.HasPrefix(text, "，") || (m.Command == nil) == (m.Near == nil) || !strings.Contains(text, m.Name+m.rest) {
			t.Fatalf("%q: %+v", text, m)
		}
		if m.Command == nil {
			return
		}
		a, err := parse(m.Command, m.rest)
		if err != nil {
			if message := err.Error(); len(message) > 400 || utf8.ValidString(text) && !utf8.ValidString(message) {
				t.Fatalf("%q: %q", text, message)
			}
			return
		}
		size := 0
		for _, v := range a {
			size += len(v)
		}
		if size > len(text) {
			t.Fatalf("%q: %q", text, a)
		}
	})
}

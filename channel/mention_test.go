package channel_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/lingserve/lingserve/channel"
)

// CH-108
func TestNamesAreFoundAsWordsOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		names []string
		text  string
		want  bool
	}{
		"at the start":                        {[]string{"Ling"}, "Ling, what is up?", true},
		"the whole text":                      {[]string{"Ling"}, "Ling", true},
		"at the end":                          {[]string{"Ling"}, "thanks, Ling", true},
		"in another case":                     {[]string{"Ling"}, "hey LING!", true},
		"in the case of another letter":       {[]string{"Éva"}, "hi éVA", true},
		"behind punctuation":                  {[]string{"Ling"}, "(Ling)", true},
		"with an apostrophe":                  {[]string{"Ling"}, "Ling's turn", true},
		"with a hyphen":                       {[]string{"Ling"}, "Ling-chan", true},
		"in a longer word":                    {[]string{"Ling"}, "Lingering", false},
		"behind an accented letter":           {[]string{"Ling"}, "Éling", false},
		"behind one that is two runes":        {[]string{"Ling"}, "E\u0301ling", false},
		"before an accent of its own":         {[]string{"Ling"}, "Ling\u0301", false},
		"before a digit":                      {[]string{"Ling"}, "Ling2", false},
		"before an underscore":                {[]string{"Ling"}, "Ling_bot", false},
		"before a soft hyphen in a word":      {[]string{"Ling"}, "Ling\u00adering", false},
		"before a soft hyphen alone":          {[]string{"Ling"}, "Ling\u00ad!", true},
		"before a space of no width":          {[]string{"Ling"}, "Ling\u200bering", true},
		"in a later word":                     {[]string{"Ling"}, "Lingering, Ling", true},
		"in Chinese":                          {[]string{"小灵"}, "小灵你好", true},
		"in the middle of Chinese":            {[]string{"小灵"}, "请问小灵你好", true},
		"Chinese behind a Latin word":         {[]string{"小灵"}, "hello小灵", true},
		"a Latin name in Chinese":             {[]string{"Ling"}, "请Ling帮忙", true},
		"a Latin name in longer Latin":        {[]string{"Ling"}, "请Lings帮忙", false},
		"in Thai":                             {[]string{"หลิง"}, "สวัสดีหลิงครับ", true},
		"in Thai, with a tone of its own":     {[]string{"หลิง"}, "หลิง่", false},
		"in Japanese":                         {[]string{"リン"}, "リンさん", true},
		"in Cyrillic":                         {[]string{"Линг"}, "привет, линг", true},
		"in a longer Cyrillic word":           {[]string{"Линг"}, "Лингвист", false},
		"two words":                           {[]string{"Miss Ling"}, "dear miss ling,", true},
		"composed, and written in two":        {[]string{"Zo\u00eb"}, "hi Zoe\u0308", true},
		"written in two, and composed":        {[]string{"Zoe\u0308"}, "hi Zo\u00eb", true},
		"with a sign before it":               {[]string{"@ling"}, "hi @ling", true},
		"an address of mail":                  {[]string{"@ling"}, "mail me@ling", false},
		"a sign that is no word":              {[]string{"ling!"}, "ling!ering", true},
		"a later one of several":              {[]string{"Ling", "Bot"}, "hey bot", true},
		"none":                                {nil, "Ling", false},
		"a blank one is in nothing":           {[]string{"", " "}, "Ling ", false},
		"blanks around it do not count":       {[]string{" Ling "}, "Ling", true},
		"in nothing":                          {[]string{"Ling"}, "", false},
		"cut off at the end":                  {[]string{"Ling"}, "Lin", false},
		"what is not UTF-8 is a border":       {[]string{"Ling"}, "\xffLing\xff", true},
		"the sign of Kelvin is the letter k":  {[]string{"kim"}, "hi \u212aim", true},
		"in its own name, twice from the end": {[]string{"nana"}, "banana nana", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := channel.NewNames(test.names).In(test.text); got != test.want {
				t.Errorf("%q in %q: got %t, want %t", test.names, test.text, got, test.want)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"小灵你好", "Ling, hi", "E\u0301ling", "\xff", "a\u200db", "ſ"} {
		f.Add("Ling", s)
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		n := channel.NewNames([]string{name})
		if n.In(text) != n.In(strings.ToValidUTF8(text, "\ufffd")) && !strings.ContainsRune(name, '\ufffd') && !strings.ContainsFunc(name, func(r rune) bool { return r == unicode.ReplacementChar }) {
			t.Errorf("bytes that are no UTF-8 matter for %q in %q", name, text)
		}
		if !n.In(text) && n.In(text+" ") {
			t.Errorf("a blank at the end matters for %q in %q", name, text)
		}
		if strings.TrimSpace(name) != "" && n.In("") {
			t.Errorf("%q is in nothing", name)
		}
	})
}

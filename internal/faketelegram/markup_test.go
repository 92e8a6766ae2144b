package faketelegram

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// marked is what a text with markup is to become.
type marked struct {
	name, src, want string
	entities        []Entity
	err             string
}

// The offsets of errors are bytes, those of entities UTF-16 code units.
var htmlTable = []marked{
	{name: "plain text", src: "a > b", want: "a > b"},
	{name: "tags in one another", src: "x <b>bold <i>both</i></b>", want: "x bold both", entities: []Entity{{Type: "bold", Offset: 2, Length: 9}, {Type: "italic", Offset: 7, Length: 4}}},
	{name: "two units for what lies beyond", src: "😀<u>😀é</u>", want: "😀😀é", entities: []Entity{{Type: "underline", Offset: 2, Length: 3}}},
	{name: "references, with and without semicolon", src: "&lt;&gt;&amp;&quot;&#65;&#x42;&lt", want: "<>&\"AB<"},
	{name: "unknown references stay", src: "&nbsp; &copy;", want: "&nbsp; &copy;"},
	{name: "a link", src: `<a href="https://a.example/x?a=1&amp;b=2">l</a>`, want: "l", entities: []Entity{{Type: "text_link", Offset: 0, Length: 1, URL: "https://a.example/x?a=1&b=2"}}},
	{name: "what is no address is no link", src: `<a href="nowhere">l</a>`, want: "l"},
	{name: "a person", src: `<a href="tg://user?id=42">l</a>`, want: "l", entities: []Entity{{Type: "text_mention", Offset: 0, Length: 1, User: &User{ID: 42}}}},
	{name: "a language", src: "<pre><code class=\"language-go\">x()</code></pre>", want: "x()", entities: []Entity{{Type: "pre", Offset: 0, Length: 3, Language: "go"}}},
	{name: "code in a sentence", src: "a <code>b</code>", want: "a b", entities: []Entity{{Type: "code", Offset: 2, Length: 1}}},
	{name: "spoilers", src: `<tg-spoiler>a</tg-spoiler><span class="tg-spoiler">b</span>`, want: "ab", entities: []Entity{{Type: "spoiler", Offset: 0, Length: 1}, {Type: "spoiler", Offset: 1, Length: 1}}},
	{name: "a quote that unfolds", src: "<blockquote expandable>q</blockquote>", want: "q", entities: []Entity{{Type: "expandable_blockquote", Offset: 0, Length: 1}}},
	{name: "nothing in it", src: "a<b></b>", want: "a"},
	{name: "entities that cover the same, the outer first", src: "<code><i><b>x</b></i></code>", want: "x", entities: []Entity{{Type: "code", Length: 1}, {Type: "bold", Length: 1}, {Type: "italic", Length: 1}}},
	{name: "a language of half of a block", src: `<pre>a<code class="language-go">b</code></pre>`, want: "ab", entities: []Entity{{Type: "pre", Length: 2}, {Type: "code", Offset: 1, Length: 1}}},
	{name: "half of a character", src: "&#xD83D;", err: "Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units"},
	{name: "an end without a name", src: "<s>a</>", want: "a", entities: []Entity{{Type: "strikethrough", Offset: 0, Length: 1}}},

	{name: "a tag that is none", src: "é<div>x</div>", err: `Unsupported start tag "div" at byte offset 2`},
	{name: "less than", src: "a < b", err: `Unsupported start tag "" at byte offset 2`},
	{name: "no end", src: "<b>x", err: `Can't find end tag corresponding to start tag "b"`},
	{name: "crossed", src: "<b><i>x</b></i>", err: `Unmatched end tag at byte offset 7, expected "</i>", found "</b>"`},
	{name: "an end alone", src: "x</b>", err: "Unexpected end tag at byte offset 1"},
	{name: "cut in a tag", src: "x<b", err: "Unclosed start tag at byte offset 1"},
	{name: "cut in an attribute", src: `<a href="x`, err: "Unclosed start tag at byte offset 0"},
	{name: "cut before a value", src: `<a href=`, err: `Unclosed start tag "a" at byte offset 0`},
	{name: "cut in an end", src: "<b>x</b", err: "Unclosed end tag at byte offset 4"},
	{name: "an attribute without a name", src: "<i =x>a</i>", err: `Empty attribute name in the tag "i" at byte offset 0`},
	{name: "a span that is no spoiler", src: "<span>x</span>", err: `Tag "span" must have class "tg-spoiler" at byte offset 0`},
}

var markdownTable = []marked{
	{name: "plain text", src: "a b", want: "a b"},
	{name: "marks in one another", src: "x *bold _both_*", want: "x bold both", entities: []Entity{{Type: "bold", Offset: 2, Length: 9}, {Type: "italic", Offset: 7, Length: 4}}},
	{name: "two units for what lies beyond", src: "😀__😀é__", want: "😀😀é", entities: []Entity{{Type: "underline", Offset: 2, Length: 3}}},
	{name: "escapes", src: `1\. \*a\* \\`, want: `1. *a* \`},
	{name: "a link", src: `[l](https://a.example/\)x)`, want: "l", entities: []Entity{{Type: "text_link", Offset: 0, Length: 1, URL: "https://a.example/)x"}}},
	{name: "a person", src: `[l](tg://user?id=42)`, want: "l", entities: []Entity{{Type: "text_mention", Offset: 0, Length: 1, User: &User{ID: 42}}}},
	{name: "a fence with a language", src: "```go\nx.y()\n```", want: "x.y()\n", entities: []Entity{{Type: "pre", Offset: 0, Length: 6, Language: "go"}}},
	{name: "a fence", src: "```\nx```", want: "x", entities: []Entity{{Type: "pre", Offset: 0, Length: 1}}},
	{name: "code holds marks", src: "`*_[`", want: "*_[", entities: []Entity{{Type: "code", Offset: 0, Length: 3}}},
	{name: "struck and hidden", src: "~a~||b||", want: "ab", entities: []Entity{{Type: "strikethrough", Offset: 0, Length: 1}, {Type: "spoiler", Offset: 1, Length: 1}}},
	{name: "a quote over lines", src: ">a\n>*b*\nc", want: "a\nb\nc", entities: []Entity{{Type: "blockquote", Offset: 0, Length: 4}, {Type: "bold", Offset: 2, Length: 1}}},
	{name: "two quotes", src: ">a\n**>b", want: "a\nb", entities: []Entity{{Type: "blockquote", Offset: 0, Length: 2}, {Type: "blockquote", Offset: 2, Length: 1}}},
	{name: "a quote that unfolds", src: ">a\n>b||\nc", want: "a\nb\nc", entities: []Entity{{Type: "expandable_blockquote", Offset: 0, Length: 4}}},

	{name: "a full stop", src: "a.", err: `Character '.' is reserved and must be escaped with the preceding '\'`},
	{name: "a dash", src: "- a", err: `Character '-' is reserved and must be escaped with the preceding '\'`},
	{name: "a quote in a line", src: "a>b", err: `Character '>' is reserved and must be escaped with the preceding '\'`},
	{name: "bold without end", src: "é *b", err: "Can't find end of Bold entity at byte offset 3"},
	{name: "underline in place of italic", src: "_a__", err: "Can't find end of Underline entity at byte offset 2"},
	{name: "a fence without end", src: "```", err: "Can't find end of Pre entity at byte offset 0"},
	{name: "a fence with a language, without end", src: "```go x", err: "Can't find end of PreCode entity at byte offset 0"},
	{name: "an address without end", src: "[a](b", err: "Can't find end of a URL at byte offset 4"},
	{name: "bold that leaves its quote", src: ">*a\nb*", err: "Can't find end of Bold entity at byte offset 1"},
}

// CH-196
func TestMarkupIsReadAsThePlatformReadsIt(t *testing.T) {
	for mode, table := range map[string][]marked{"HTML": htmlTable, "MarkdownV2": markdownTable} {
		parse := parseHTML
		if mode == "MarkdownV2" {
			parse = parseMarkdown
		}
		for _, tt := range table {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				got, entities, err := parse(tt.src)
				if tt.err != "" {
					if err == nil || err.Error() != tt.err {
						t.Fatalf("error %v, expected %s", err, tt.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got != tt.want {
					t.Errorf("text %q, expected %q", got, tt.want)
				}
				if d := cmp.Diff(tt.entities, entities); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestNamesAndCommandsAreMarkedInUTF16(t *testing.T) {
	got := detect("😀 @ling_bot: /start@ling_bot a@b.example é/x /help, @ab")
	want := []Entity{
		{Type: "mention", Offset: 3, Length: 9},
		{Type: "bot_command", Offset: 14, Length: 15},
		{Type: "bot_command", Offset: 46, Length: 5},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzMarkup(f *testing.F) {
	for _, tt := range slices.Concat(htmlTable, markdownTable) {
		f.Add(tt.src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, parse := range []func(string) (string, []Entity, error){parseHTML, parseMarkdown} {
			text, entities, err := parse(src)
			if err != nil {
				continue
			}
			if utf8.ValidString(src) && !utf8.ValidString(text) {
				t.Fatalf("%q became %q", src, text)
			}
			text, entities = trim(text, entities)
			for _, e := range entities {
				if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > units(text) {
					t.Fatalf("%q: %+v lies outside of %q", src, e, text)
				}
			}
		}
	})
}

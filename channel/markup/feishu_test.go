package markup

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMarkdownInCardsOfFeishu(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"marks":                     {"**bold**, *italic*, ~~gone~~ and `x < y`", "**bold**, *italic*, ~~gone~~ and `x < y`"},
		"marks in marks":            {"**a *b* c**", "**a** ***b*** **c**"},
		"what is no mark":           {`1 < 2 & snake_case \*not\*`, "1 &#60; 2 &#38; snake&#95;case &#42;not&#42;"},
		"a mention":                 {"<at id=all></at>", "&#60;at id=all&#62;&#60;/at&#62;"},
		"a mention in code":         {"`<at id=all>`", "`<\u200bat id=all>`"},
		"a mention in a block":      {"```\n<AT id=all></at>\n```", "```\n<\u200bAT id=all><\u200b/at>\n```"},
		"what only begins like one": {"`<attribute>` and `<person_x>`", "`<attribute>` and `<\u200bperson_x>`"},
		"links":                     {"[a (b)](https://example.com/x_(y))", "[a (b)](https://example.com/x_%28y%29)"},
		"links to no page":          {"[mail](mailto:a@example.com) [x](javascript:a)", "mail (mailto&#58;a@example.com) x (javascript&#58;a)"},
		"a picture":                 {"![a cat](https://example.com/c.png)", "[a cat](https://example.com/c.png)"},
		"lists":                     {"- a\n- b\n\n1. c\n2. d", "• a\n• b\n\n1&#46; c\n2&#46; d"},
		"lines that look like more": {"a\n\\- b\n\\+ c\n\\=== d", "a\n&#45; b\n&#43; c\n&#61;== d"},
		"a quote":                   {"> a\n> b\n\nc", "> a\n> b\n\nc"},
		"names of emojis":           {"at 10:30, :DONE: https://example.com", "at 10&#58;30, &#58;DONE: https://example.com"},
		"a heading":                 {"# Head\n\ntext", "**Head**\n\ntext"},
		"a table":                   {"| a | b |\n|---|---|\n| 1 | 2 |", "```\na | b\n1 | 2\n```"},
		"a fence within code":       {"````\n```\n````", "```\n``\u200b`\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Convert(row.source, FeishuCard); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

// seen is a text without what nobody sees, and without white space.
func seen(s string) string {
	return strings.NewReplacer(zeroWidthSpace, "", "\u00a0", "", " ", "", "\n", "", "\t", "", "\u02cb", "`", ">", "").Replace(s)
}

var mention = regexp.MustCompile(`(?i)</?(at|person)[\s>/]`)

func checkFeishu(t interface{ Fatalf(string, ...any) }, source string) {
	got := Convert(source, FeishuCard)
	if at := mention.FindString(got); at != "" {
		t.Fatalf("%q becomes %q, which mentions somebody by %q", source, got, at)
	}
	for i, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(got, -1) {
		// In code, nothing is a link.
		if to := link[1]; !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") && !strings.Contains(got, "`") {
			t.Fatalf("%q has as link %d %q", source, i, to)
		}
	}
}

func TestNoTextMentionsAnybodyInFeishu(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			"<at id=all>", "</at>", "<at", "<", "at ", "`", "```\n", "\n", "[", "](https://x)", "](x:y)", "*", "**", "_", "&lt;", "&#60;", "\\", "> ", "- ", "a", " ", "|", "<person id=1>",
		})).Draw(t, "parts")
		checkFeishu(t, strings.Join(parts, ""))
	})
}

// Read as the Markdown that it is, the text of a card says what its source says.
func TestACardSaysWhatItsSourceSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringOf(rapid.RuneFrom([]rune("ab1.:-+=#!$|*_~&<>()[]\\ \n中"))).Draw(t, "source")
		want := parse(source, FeishuCard).text()
		got := parse(Convert(source, FeishuCard), FeishuCard).text()
		if seen(strings.ReplaceAll(got, "*", "")) != seen(strings.ReplaceAll(want, "*", "")) {
			t.Fatalf("%q\nbecomes %q\nsays  %q\nwants %q", source, Convert(source, FeishuCard), got, want)
		}
	})
}

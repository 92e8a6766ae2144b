package markup_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel/markup"
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
			if got := markup.Convert(row.source, markup.FeishuCard); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

func TestMarkdownInDiscord(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"marks":                     {"**bold**, *italic*, ~~gone~~ and `x < y`", "**bold**, *italic*, ~~gone~~ and `x < y`"},
		"marks in marks":            {"**a *b* c** **d***e*", "**a** ***b*** **c** **d**\u200b*e*"},
		"characters":                {`1 < 2 & snake_case \*not\* <@1> ||x||`, `1 \< 2 & snake\_case \*not\* \<@1\> \|\|x\|\|`},
		"headings":                  {"# One\n\n### Three\n\n#### Four", "# One\n\n### Three\n\n**Four**"},
		"a heading in a quote":      {"> ## Two\n> text", "> ## Two\n> \n> text"},
		"links":                     {"[a (b)](https://example.com/x_(y)) [m](mailto:a@example.com)", "[a (b)](https://example.com/x_%28y%29) m (mailto\\:a@example.com)"},
		"an address":                {"see https://a.b:80/_x_, _y_", "see https://a.b:80/_x_, *y*"},
		"a picture":                 {"![a cat](https://example.com/c.png)", "[a cat](https://example.com/c.png)"},
		"lists":                     {"- a\n- b\n\n1. c\n2. d", "• a\n• b\n\n1\\. c\n2\\. d"},
		"lines that look like more": {"a\n\\- b\n\\# c\n\\> d", "a\n\\- b\n\\# c\n\\> d"},
		"a quote":                   {"> a\n> b\n\nc", "> a\n> b\n\nc"},
		"names of emojis":           {"at 10:30, :smile:", "at 10\\:30, \\:smile:"},
		"a table":                   {"| a | b |\n|---|---|\n| 1 | 2 |", "```\na | b\n1 | 2\n```"},
		"code in a list":            {"- ```go\n  x\n  ```", "• \n```go\nx\n```"},
		"a fence in code":           {"````\n```\n````", "```\n``\u200b`\n```"},
		"a backtick in code":        {"``a`b``", "a\\`b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := markup.Convert(row.source, markup.Discord); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

func TestHeadingGoesOnInTheNextPiece(t *testing.T) {
	var got []string
	for _, p := range markup.Pieces("# One two three", markup.Discord, markup.Limit{N: 9, Marked: true}) {
		got = append(got, p.Text)
	}
	if diff := cmp.Diff([]string{"# One two", "# three"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var mention = regexp.MustCompile(`(?i)</?(at|person)[\s>/]`)

func TestNoTextMentionsAnybodyInFeishu(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"<at id=all>", "</at>", "<at", "<", "at ", "`", "```\n", "\n", "[", "](https://x)", "](x:y)", "*", "**", "_", "&lt;", "&#60;", "\\", "> ", "- ", "a", " ", "|", "<person id=1>",
		})).Draw(t, "parts"), "")
		got := markup.Convert(source, markup.FeishuCard)
		if at := mention.FindString(got); at != "" {
			t.Fatalf("%q becomes %q, which mentions somebody by %q", source, got, at)
		}
		for i, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(got, -1) {
			// In code, nothing is a link.
			if to := link[1]; !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") && !strings.Contains(got, "`") {
				t.Fatalf("%q has as link %d %q", source, i, to)
			}
		}
	})
}

// visible returns a text without invisible characters, white space, and marks that are characters after they were cut.
var visible = strings.NewReplacer("\u200b", "", "\u00a0", "", " ", "", "\n", "", "\t", "", "\u02cb", "`", ">", "", "*", "").Replace

// Read as Markdown, a text in a dialect of Markdown says what its source says.
func TestDialectsSayWhatTheirSourceSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringOf(rapid.RuneFrom([]rune("ab1.:-+=#!$|*_~&<>()[]\\ \n中"))).Draw(t, "source")
		want := markup.Convert(source, markup.Plain)
		for _, f := range []markup.Format{markup.FeishuCard, markup.Discord} {
			text := markup.Convert(source, f)
			if got := markup.Convert(text, markup.Plain); visible(got) != visible(want) {
				t.Fatalf("%q\nbecomes %q\nsays  %q\nwants %q", source, text, got, want)
			}
		}
	})
}

package markup_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/markup"
)

func TestMarkdownOfDiscord(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"marks":                     {"**bold**, *italic*, ~~gone~~ and `x < y`", "**bold**, *italic*, ~~gone~~ and `x < y`"},
		"what is no mark":           {`1 < 2 & snake_case \*not\* a||b`, `1 \< 2 & snake\_case \*not\* a\|\|b`},
		"a mention":                 {"<@42> and @everyone", `\<@42\> and @everyone`},
		"lines that look like more": {"a\n\\# b\n\\> c\n\\- d\n\\-# e", "a\n\\# b\n\\> c\n\\- d\n\\-\\# e"},
		"an address":                {"see https://example.com/a_b_c~d", "see https://example.com/a_b_c~d"},
		"links":                     {"[a (b)](https://example.com/x_(y))", "[a (b)](https://example.com/x_%28y%29)"},
		"a picture":                 {"![a cat](https://example.com/c.png)", "[a cat](https://example.com/c.png)"},
		"lists":                     {"- a\n- b\n\n1. c\n2. d", "• a\n• b\n\n1\\. c\n2\\. d"},
		"a quote":                   {"> a\n> b\n\nc", "> a\n> b\n\nc"},
		"a heading":                 {"##### Head\n\ntext", "**Head**\n\ntext"},
		"a table":                   {"| a | b |\n|---|---|\n| 1 | 2 |", "```\na | b\n1 | 2\n```"},
		"code":                      {"```go\nx := `a` * b\n```", "```go\nx := `a` * b\n```"},
		"a fence within code":       {"````\n```\n````", "```\n``\u200b`\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := markup.Convert(row.source, markup.Discord); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

func TestPiecesForDiscordCloseTheirCode(t *testing.T) {
	pieces := markup.Pieces("```go\n"+strings.Repeat("line()\n", 600)+"```", markup.Discord, markup.Limit{N: 2000, Marked: true})
	if len(pieces) != 3 {
		t.Fatalf("got %d pieces, want 3", len(pieces))
	}
	for _, p := range pieces {
		if !strings.HasPrefix(p.Text, "```go\n") || !strings.HasSuffix(p.Text, "\n```") || markup.UTF16(p.Text) > 2000 {
			t.Errorf("got %d units: %.20q", markup.UTF16(p.Text), p.Text)
		}
	}
}

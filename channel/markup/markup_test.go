package markup_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel/markup"
)

// CH-177: model Markdown in the markups of platforms.
func TestMarkdownInEachFormat(t *testing.T) {
	for name, row := range map[string]struct{ source, plain, html, slack string }{
		"marks": {
			"**bold**, *italic*, ~~gone~~ and `x < y`",
			"bold, italic, gone and x < y",
			"<b>bold</b>, <i>italic</i>, <s>gone</s> and <code>x &lt; y</code>",
			"*bold*, _italic_, ~gone~ and `x &lt; y`",
		},
		"marks in marks": {
			"**a *b* c**", "a b c", "<b>a <i>b</i> c</b>", "*a* *_b_* *c*",
		},
		"a mark within a word": {
			"un**believ**able", "unbelievable", "un<b>believ</b>able", "un\u200b*believ*\u200bable",
		},
		"what is no mark": {
			`1 < 2 & snake_case * 3 \*not\* #tag. <b>x</b>`,
			"1 < 2 & snake_case * 3 *not* #tag. <b>x</b>",
			"1 &lt; 2 &amp; snake_case * 3 *not* #tag. &lt;b&gt;x&lt;/b&gt;",
			"1 &lt; 2 &amp; snake_case * 3 *\u200bnot*\u200b #tag. &lt;b&gt;x&lt;/b&gt;",
		},
		"entities": {
			"a &amp; b &lt;i&gt; &#169; &nope;", "a & b <i> © &nope;", "a &amp; b &lt;i&gt; © &amp;nope;", "a &amp; b &lt;i&gt; © &amp;nope;",
		},
		"links": {
			"see [the *docs*](https://example.com/a_(b)?x=1&y=2) now",
			"see the docs (https://example.com/a_(b)?x=1&y=2) now",
			`see <a href="https://example.com/a_(b)?x=1&amp;y=2">the <i>docs</i></a> now`,
			"see <https://example.com/a_(b)?x=1&amp;y=2|the >_<https://example.com/a_(b)?x=1&amp;y=2|docs>_ now",
		},
		"addresses that nobody is to follow": {
			"[click](javascript:alert(1)) [file](/etc/passwd)", "click (javascript:alert(1)) file (/etc/passwd)",
			"click (javascript:alert(1)) file (/etc/passwd)",
			"click (javascript:alert(1)) file (/etc/passwd)",
		},
		"an address": {
			"<https://example.com>", "https://example.com", "https://example.com", "https://example.com",
		},
		"a picture": {
			"![a cat](https://example.com/c.png)", "a cat (https://example.com/c.png)", `<a href="https://example.com/c.png">a cat</a>`,
			"<https://example.com/c.png|a cat>",
		},
		"a document": {
			"{\n  \"a\": \"*b* \\\"c\\\" <d>\"\n}\n",
			"{\n  \"a\": \"*b* \\\"c\\\" <d>\"\n}",
			"<pre><code class=\"language-json\">{\n  &quot;a&quot;: &quot;*b* \\&quot;c\\&quot; &lt;d&gt;&quot;\n}</code></pre>",
			"```\n{\n  \"a\": \"*b* \\\"c\\\" &lt;d&gt;\"\n}\n```",
		},
		"what only begins as a document": {
			"[\n*b*", "[\nb", "[\n<i>b</i>", "[\n_b_",
		},
		"code": {
			"x\n\n```go\nif a < b && c {\n\t`s`\n}\n```\ny",
			"x\n\nif a < b && c {\n\t`s`\n}\n\ny",
			"x\n\n<pre><code class=\"language-go\">if a &lt; b &amp;&amp; c {\n\t`s`\n}</code></pre>\n\ny",
			"x\n\n```\nif a &lt; b &amp;&amp; c {\n\t`s`\n}\n```\n\ny",
		},
		"a quote": {
			"> one **two\n> three**\n\nafter", "one two\nthree\n\nafter", "<blockquote>one <b>two\nthree</b></blockquote>\n\nafter",
			"> one *two*\n> *three*\n\nafter",
		},
		"a heading and lists": {
			"# Title\n\n- a\n- b\n  1. c\n  2. d\n\n- [x] done",
			"Title\n\n• a\n\n• b\n\n  1. c\n  2. d\n\n• ☑ done",
			"<b>Title</b>\n\n• a\n\n• b\n\n  1. c\n  2. d\n\n• ☑ done",
			"*Title*\n\n• a\n\n• b\n\n  1. c\n  2. d\n\n• ☑ done",
		},
		"a tight list": {"- a\n- b\n  more", "• a\n• b\n  more", "• a\n• b\n  more", "• a\n• b\n  more"},
		"a table": {
			"| a | bb |\n|---|---|\n| **ccc** | d |", "a   | bb\nccc | d", "<pre>a   | bb\nccc | d</pre>", "```\na   | bb\nccc | d\n```",
		},
		"what looks like the definition of a link": {"[a]: b", "[a]: b", "[a]: b", "[a]: b"},
		"HTML":                      {"<div>\nx\n</div>", "<div>\nx\n</div>", "&lt;div&gt;\nx\n&lt;/div&gt;", "&lt;div&gt;\nx\n&lt;/div&gt;"},
		"a fence in code for Slack": {"````\n```\n````", "```", "<pre>```</pre>", "```\n``\u200b`\n```"},
		"nothing":                   {" \n\n", "", "", ""},
		"addresses": { // DX-01
			"see https://a.b/__init__.py, **https://a.b/~user/a*b*c** <https://a.b/_x_> [https://a.b/_x_](https://a.b/_x_)",
			"see https://a.b/__init__.py, https://a.b/~user/a*b*c https://a.b/_x_ https://a.b/_x_",
			"see https://a.b/__init__.py, <b>https://a.b/~user/a*b*c</b> https://a.b/_x_ https://a.b/_x_",
			"see https://a.b/__init__.py, *https://a.b/~user/a*b*c* https://a.b/_x_ https://a.b/_x_",
		},
		"an address in a link, in code and behind Chinese": {
			"[x](https://a.b/_c_) `https://a.b/_c_` 看https://a.b/_c_，_d_",
			"x (https://a.b/_c_) https://a.b/_c_ 看https://a.b/_c_，d",
			`<a href="https://a.b/_c_">x</a> <code>https://a.b/_c_</code> 看https://a.b/_c_，<i>d</i>`,
			"<https://a.b/_c_|x> `https://a.b/_c_` 看https://a.b/_c_，_d_",
		},
		"marks beside punctuation": { // DX-02
			"**注意：**正文 **「x」**y **Note:**text 文**“x”**文",
			"注意：正文 「x」y Note:text 文“x”文",
			"<b>注意：</b>正文 <b>「x」</b>y <b>Note:</b>text 文<b>“x”</b>文",
			"*注意：*\u200b正文 *「x」*\u200by *Note:*\u200btext 文\u200b*“x”*\u200b文",
		},
		"stars that are no marks": {
			"f(**a, **b)\n\n2**(3)+4**(5)", "f(**a, **b)\n\n2**(3)+4**(5)", "f(**a, **b)\n\n2**(3)+4**(5)",
			"f(*\u200b*\u200ba, *\u200b*\u200bb)\n\n2*\u200b*\u200b(3)+4*\u200b*\u200b(5)",
		},
		"tildes between numbers": { // DX-03
			"1~2, 3~4 and ~~5~~", "1~2, 3~4 and 5", "1~2, 3~4 and <s>5</s>", "1~2, 3~4 and ~5~",
		},
		"line breaks": { // DX-04
			"a<br>b\n\n| h | k |\n|---|---|\n| x<br/>y | z |", "a\nb\n\nh | k\nx | z\ny", "a\nb\n\n<pre>h | k\nx | z\ny</pre>",
			"a\nb\n\n```\nh | k\nx | z\ny\n```",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for f, want := range map[markup.Format]string{
				markup.Plain: row.plain, markup.TelegramHTML: row.html, markup.SlackMrkdwn: row.slack,
			} {
				if diff := cmp.Diff(want, markup.Convert(row.source, f)); diff != "" {
					t.Errorf("format %d (-want +got):\n%s", f, diff)
				}
			}
		})
	}
}

// CH-177: paragraph, line, sentence, word, then character.
func TestCutsAtTheBestPlace(t *testing.T) {
	for name, row := range map[string]struct {
		text  string
		limit int
		unit  markup.Unit
		want  []string
	}{
		"it fits":            {"a b", 3, utf8.RuneCountInString, []string{"a b"}},
		"no limit":           {"a b", 0, utf8.RuneCountInString, []string{"a b"}},
		"nothing":            {" \n ", 3, utf8.RuneCountInString, nil},
		"paragraphs":         {"one two\nthree\n\nfour five", 18, utf8.RuneCountInString, []string{"one two\nthree", "four five"}},
		"lines":              {"one two\nthree four", 12, utf8.RuneCountInString, []string{"one two", "three four"}},
		"sentences":          {"One two. Three four five", 16, utf8.RuneCountInString, []string{"One two.", "Three four five"}},
		"Chinese sentences":  {"你好吗？我很好，谢谢你", 8, utf8.RuneCountInString, []string{"你好吗？", "我很好，谢谢你"}},
		"words":              {"one two three", 9, utf8.RuneCountInString, []string{"one two", "three"}},
		"characters":         {"abcdefgh", 3, utf8.RuneCountInString, []string{"abc", "def", "gh"}},
		"units of UTF-16":    {"😀😀😀", 4, markup.UTF16, []string{"😀😀", "😀"}},
		"bytes":              {"ééé", 5, byteCount, []string{"éé", "é"}},
		"larger than all":    {"😀", 1, markup.UTF16, []string{"😀"}},
		"a line's beginning": {"a:\n    b\n    c", 7, utf8.RuneCountInString, []string{"a:", "    b", "    c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, markup.Cut(row.text, row.limit, row.unit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// CH-177: what is open when a piece ends is closed there and opened again in the next.
func TestStylesAreReopenedInTheNextPiece(t *testing.T) {
	source := "**bold words " + strings.Repeat("more ", 4) + "end**\n\n```go\none()\ntwo()\nthree()\n```"
	var got []string
	for _, p := range markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: 24}) {
		got = append(got, p.Text)
	}
	want := []string{
		"<b>bold words more more</b>", "<b>more more end</b>",
		"<pre><code class=\"language-go\">one()\ntwo()\nthree()</code></pre>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = nil
	for _, p := range markup.Pieces("```go\none()\ntwo()\nthree()\n```", markup.FeishuCard, markup.Limit{N: 14}) {
		got = append(got, p.Text)
	}
	if diff := cmp.Diff([]string{"```go\none()\ntwo()\n```", "```go\nthree()\n```"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMarkedLimitCountsTheMarkup(t *testing.T) {
	for _, p := range markup.Pieces(strings.Repeat("**a** & <b> *c* ", 100), markup.SlackMrkdwn, markup.Limit{N: 100, Unit: utf8.RuneCountInString, Marked: true}) {
		if n := utf8.RuneCountInString(p.Text); n > 100 {
			t.Errorf("%d characters: %q", n, p.Text)
		}
	}
}

func TestPlainPieceHasTheAddressesOfLinksIfTheyFit(t *testing.T) {
	source := "[docs](https://example.com)"
	if p := markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: 100}); p[0].Plain != "docs (https://example.com)" {
		t.Errorf("%q", p[0].Plain)
	}
	if p := markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: 10}); p[0].Plain != "docs" {
		t.Errorf("%q", p[0].Plain)
	}
}

// dense returns a text without white space.
func dense(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

var formats = []markup.Format{markup.Plain, markup.TelegramHTML, markup.SlackMrkdwn, markup.FeishuCard, markup.Discord}

type failer interface{ Fatalf(string, ...any) }

// checkPieces is CH-195: the pieces fit, lose no text, and each of them is complete.
func checkPieces(t failer, source string, n int) {
	var visible strings.Builder
	for _, piece := range markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: n}) {
		text, fault := readHTML(piece.Text)
		if fault != "" {
			t.Fatalf("HTML %q: %s", piece.Text, fault)
		}
		if markup.UTF16(text) > n && utf8.RuneCountInString(text) > 1 || markup.UTF16(piece.Plain) > max(n, 2) {
			t.Fatalf("limit %d: %q, plain %q", n, text, piece.Plain)
		}
		visible.WriteString(text)
	}
	full, _ := readHTML(markup.Convert(source, markup.TelegramHTML))
	if want, got := dense(full), dense(visible.String()); want != got {
		t.Fatalf("the pieces of %q have %q, the text %q", source, got, want)
	}
	for _, f := range formats {
		limit := 200 + n // a style and a link can be larger than the text
		for _, piece := range markup.Pieces(source, f, markup.Limit{N: limit, Unit: byteCount, Marked: true}) {
			if len(piece.Text) > limit {
				t.Fatalf("format %d: %d bytes, the limit is %d: %q", f, len(piece.Text), limit, piece.Text)
			}
			if f > markup.TelegramHTML && strings.Count(piece.Text, "```")%2 != 0 {
				t.Fatalf("format %d: a block of code is not closed: %q", f, piece.Text)
			}
		}
	}
	visible.Reset()
	for _, piece := range markup.Cut(source, n, markup.UTF16) {
		if markup.UTF16(piece) > n && utf8.RuneCountInString(piece) > 1 {
			t.Fatalf("limit %d: %q", n, piece)
		}
		visible.WriteString(piece)
	}
	if want, got := dense(source), dense(visible.String()); want != got {
		t.Fatalf("the pieces have %q, the text %q", got, want)
	}
}

// readHTML reads Telegram's HTML as strictly as it is read there: known tags, closed in order.
func readHTML(s string) (text, fault string) {
	var b strings.Builder
	var open []string
	for s != "" {
		at := strings.IndexAny(s, "<>&")
		if at < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:at])
		s = s[at:]
		switch s[0] {
		case '>':
			return "", "a bare >"
		case '&':
			end := strings.IndexByte(s, ';')
			known := map[string]string{"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": `"`}
			if end < 0 || known[s[:end+1]] == "" {
				return "", "a bare &"
			}
			b.WriteString(known[s[:end+1]])
			s = s[end+1:]
		case '<':
			end := strings.IndexByte(s, '>')
			if end < 0 {
				return "", "an open tag"
			}
			tag := s[1:end]
			s = s[end+1:]
			if name, ok := strings.CutPrefix(tag, "/"); ok {
				if len(open) == 0 || open[len(open)-1] != name {
					return "", "closed out of order: " + name
				}
				open = open[:len(open)-1]
				continue
			}
			name, _, _ := strings.Cut(tag, " ")
			if !strings.Contains(" b i s a code pre blockquote ", " "+name+" ") {
				return "", "an unknown tag: " + name
			}
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		return "", "left open"
	}
	return b.String(), ""
}

func TestPiecesLoseNothing(t *testing.T) {
	words := rapid.SampledFrom([]string{
		"a", "word ", "**", "*", "_", "~~", "`", "```\n", "```go\n", "\n", "\n\n", "> ", "- ", "1. ", "# ", "<b>", "&amp;", "&", "[x](https://e.x/y)", "[", "](", ")", "|",
		"😀", "é", "你好。", "! ", "\\", "    ", "\t", "<!--", "![i](u)", "\u200d", "---\n", " https://a.b/_c_ ", "<at>",
	})
	rapid.Check(t, func(t *rapid.T) {
		checkPieces(t, strings.Join(rapid.SliceOfN(words, 0, 60).Draw(t, "source"), ""), rapid.IntRange(1, 40).Draw(t, "limit"))
	})
}

// CH-195.
func FuzzPieces(f *testing.F) {
	f.Add("**bold** and `code`\n\n```go\nx\n```\n> quote\n", 10)
	f.Add("- a\n  - b\n\n1. c\n| a | b |", 7)
	f.Add("[a](https://e.x) <b>&amp;\xff\x00", 3)
	f.Fuzz(func(t *testing.T, source string, n int) {
		if len(source) > 1<<12 {
			return
		}
		n = 1 + int(uint(n)%5000)
		for _, f := range formats { // bad UTF-8, and tables, too
			markup.Pieces(source, f, markup.Limit{N: n, Marked: true})
		}
		markup.Cut(source, n, byteCount)
		if !strings.Contains(source, "-") { // the head of a table is in several pieces
			checkPieces(t, strings.ToValidUTF8(source, "\ufffd"), n)
		}
	})
}

// A long document is parsed in parts.
func TestLongDocumentIsConvertedLikeItsParts(t *testing.T) {
	words := rapid.SampledFrom([]string{
		"# Title\n\n", "Some **bold** text.\n\n", "> quote\n> more\n\n", "- a\n- b\n\n", "1. one\n\n   more of it\n\n2. two\n\n", "```go\nx := 1\n\ny := 2\n```\n\n", "| a | b |\n|---|---|\n| c | d |\n\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		part := strings.Join(rapid.SliceOfN(words, 1, 30).Draw(t, "blocks"), "") + "Between.\n\n"
		n := 20_000/len(part) + 1
		want := strings.Join(slices.Repeat([]string{markup.Convert(part, markup.TelegramHTML)}, n), "\n\n")
		if got := markup.Convert(strings.Repeat(part, n), markup.TelegramHTML); got != want {
			t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}

func TestLongBlockOfCodeStaysOneBlock(t *testing.T) {
	code := strings.Repeat("x := 1 // a line of code\n\n    y\n", 2_000)
	want := "before\n\n<pre><code class=\"language-go\">" + strings.TrimRight(code, "\n") + "</code></pre>\n\nafter"
	if got := markup.Convert("before\n\n```go\n"+code+"```\n\nafter", markup.TelegramHTML); got != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

// A small text cannot become a large one: goldmark fills up the rows of a table, and the cells of a column have one width.
func TestTableWithTooManyCellsIsText(t *testing.T) {
	columns := 2000
	source := strings.Repeat("|a", columns) + "\n" + strings.Repeat("|-", columns) + "\n" + strings.Repeat("a\n", columns)
	if got := markup.Convert(source, markup.Plain); dense(got) != dense(source) {
		t.Errorf("%d bytes became %d", len(source), len(got))
	}
	source = "|a|b|\n|-|-|\n|" + strings.Repeat("a", 2000) + "|b|\n" + strings.Repeat("|a|b|\n", 2000)
	if got := markup.Convert(source, markup.Plain); len(got) > 20*len(source) {
		t.Errorf("%d bytes became %d", len(source), len(got))
	}
}

func TestHugeTextLosesNothing(t *testing.T) {
	for name, source := range map[string]string{
		"brackets": strings.Repeat("[", 100_000), "quotes": strings.Repeat(">", 50_000) + "x", "one word": strings.Repeat("é", 50_000),
		"tildes": strings.Repeat("a~~b", 25_000), "ampersands": strings.Repeat("&", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range markup.Pieces(source, markup.SlackMrkdwn, markup.Limit{N: 4000, Unit: utf8.RuneCountInString, Marked: true}) {
				if n := utf8.RuneCountInString(p.Text); n > 4000 {
					t.Fatalf("a piece of %d", n)
				}
			}
			var joined strings.Builder
			for _, p := range markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: 4096}) {
				joined.WriteString(p.Plain)
			}
			if name != "quotes" && name != "tildes" && dense(joined.String()) != source {
				t.Errorf("%d bytes of %d", joined.Len(), len(source))
			}
		})
	}
}

func TestLongLineBeginsNoBlockWhereItIsCut(t *testing.T) {
	for _, mark := range []string{">", "&<>", "# ", "- ", "+ ", "1. ", "2) ", "=", "| "} {
		source := "x" + strings.Repeat(mark, 20<<10/len(mark))
		var seen strings.Builder
		for _, p := range markup.Pieces(source, markup.Plain, markup.Limit{N: 4000}) {
			seen.WriteString(p.Text)
		}
		if got := strings.Join(strings.Fields(seen.String()), ""); got != strings.Join(strings.Fields(source), "") {
			t.Errorf("%q: %d characters are seen of %d", mark, len(got), len(source))
		}
		for _, p := range markup.Pieces(source, markup.SlackMrkdwn, markup.Limit{N: 4000, Marked: true}) {
			if strings.HasPrefix(p.Text, ">") {
				t.Errorf("%q became a quote: %.20q", mark, p.Text)
			}
		}
	}
}

// DX-04
func TestLongTableHasItsHeadInEachPiece(t *testing.T) {
	row := "| a cell of a table | another cell of it |\n"
	for _, rows := range []int{300, 3000} {
		pieces := markup.Pieces("Text before.\n\n| Head | Other |\n|---|---|\n"+strings.Repeat(row, rows), markup.TelegramHTML, markup.Limit{N: 4096})
		seen := 0
		for i, p := range pieces {
			if text, fault := readHTML(p.Text); fault != "" || markup.UTF16(text) > 4096 || !strings.Contains(text, "Head              | Other\na cell") {
				t.Fatalf("piece %d (%s): %.200q", i, fault, p.Text)
			}
			seen += strings.Count(p.Text, "a cell of a table | another cell of it")
		}
		if seen != rows {
			t.Errorf("%d rows of %d", seen, rows)
		}
	}
}

// DX-04
func TestLongParagraphKeepsItsForm(t *testing.T) {
	source := "**" + strings.Repeat("many words ", 2000) + "end** and _more_"
	var seen strings.Builder
	for _, p := range markup.Pieces(source, markup.TelegramHTML, markup.Limit{N: 4096}) {
		text, fault := readHTML(p.Text)
		if fault != "" || !strings.HasPrefix(p.Text, "<b>") {
			t.Fatalf("%s: %.100q", fault, p.Text)
		}
		seen.WriteString(text + " ")
	}
	if got := strings.Join(strings.Fields(seen.String()), " "); got != strings.Repeat("many words ", 2000)+"end and more" {
		t.Errorf("%d characters, want %d", len(got), len(source)-6)
	}
	if got := markup.Convert(strings.Repeat("many *words* ", 2000), markup.Plain); got != strings.TrimSpace(strings.Repeat("many words ", 2000)) {
		t.Errorf("words run together: %d characters", len(got))
	}
}

// DC-15: a person's name is shown unchanged.
func TestLiteralIsShownUnchanged(t *testing.T) {
	for _, line := range []string{"Ann Lee", "*Ann* [x](http://evil.example) <b>&amp; `c` ~~s~~ _u_ | # 1. - www.a.example @all <at id=all>", "Ánn 😀 \\"} {
		if got := markup.Convert("Approved by "+markup.Literal(line)+".", markup.Plain); got != "Approved by "+line+"." {
			t.Errorf("%q is shown as %q", line, got)
		}
	}
}

func byteCount(s string) int { return len(s) }

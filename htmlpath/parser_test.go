package htmlpath

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// check holds a reading of text to what one tokenizer makes of the whole of it, however it is cut.
func check(t interface {
	Helper()
	Errorf(string, ...any)
}, text string, pieces []string,
) {
	t.Helper()
	got, _, err := read(nil, pieces...)
	if err != nil {
		t.Errorf("%q: %v", pieces, err)
		return
	}
	want := whole(text)
	if diff := cmp.Diff(want.Events, got.Events); diff != "" {
		t.Errorf("%q (-want +got)\n%s", pieces, diff)
	}
}

func TestHTMLIsReadAsATokenizerReadsItHoweverItIsCut(t *testing.T) {
	for _, text := range tricky {
		for _, pieces := range splits(text) {
			check(t, text, pieces)
		}
	}
}

// markup draws text that is rich in what HTML gives a meaning to.
var markup = rapid.Custom(func(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{
			"<", ">", "/", "</", "<!", "<!--", "-->", "--", "-", "!", "?", "'", "\"", "=", " ", "\n", "\r", "&", ";", "#", "x", "&#", "&am", "amp;", "]]>", "[CDATA[", "]", "\x00", "\xff", "é", "😀",
			"p", "div", "script", "style", "title", "svg", "li", "ul", "td", "table", "br", "a", "pre",
			"<p>", "</p>", "<li>", "<td>", "<script>", "</script>", "<script", "<!--<script>", "<svg>", "</svg>", "<path/>", "<title>", "</title>", "<a b='c'>", "<br>", "<foreignobject>",
		}),
		rapid.SampledFrom(tricky),
	), 0, 12).Draw(t, "pieces")
	text := ""
	for _, piece := range pieces {
		text += piece
	}
	return text
})

// cut cuts text into pieces.
func cut(t *rapid.T, text string) (pieces []string) {
	for len(text) > 0 {
		n := rapid.IntRange(1, min(len(text), 9)).Draw(t, "length")
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// reading is all that may not depend on where chunks end.
type reading struct {
	Found    found
	Repairs  map[string]int
	Complete bool
	Err      string
}

func readAll(o *Options, pieces ...string) reading {
	f, p, err := read(o, pieces...)
	r := reading{Found: f, Repairs: p.Repairs(), Complete: p.Complete()}
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

func TestAnAnswerIsReadTheSameHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := answer.Draw(t, "text")
		o := &Options{Repair: true, MaxTag: 40, MaxDepth: 6, MaxPath: 40, MaxBytes: 200}
		pieces := cut(t, text)
		if diff := cmp.Diff(readAll(o, text), readAll(o, pieces...)); diff != "" {
			t.Errorf("%q, %q (-whole +cut)\n%s", text, pieces, diff)
		}
	})
}

// answer draws text as models write it around HTML.
var answer = rapid.Custom(func(t *rapid.T) string {
	part := rapid.OneOf(
		markup,
		rapid.SampledFrom([]string{
			"Here it is:", "\n", "\n\n", " ", "```html\n", "```", "\n```\n", "````", "`", "<think>", "</think>", "<think", "use <b> for", "the <b>x</b>", "a <b c", "an <a href=x>y</a>", "a <!DOCTYPE html>",
			"<!DOCTYPE html>", "<html>", "</html>", "<my-app>", "<answer>", "\ufeff", "<pre>", "   ```", "Bye.", "html", "<!-- c -->",
		}),
	)
	text := ""
	for _, piece := range rapid.SliceOfN(part, 0, 8).Draw(t, "parts") {
		text += piece
	}
	return text
})

var answers = []struct {
	name, text            string
	source, prose, failed string
	repairs               map[string]int
}{
	{name: "only a document", text: "<!DOCTYPE html>\n<html><body><p>Hi</p></body></html>", source: "<!DOCTYPE html>\n<html><body><p>Hi</p></body></html>"},
	{name: "only a fragment", text: "<p>Hi</p>\n<p>You</p>", source: "<p>Hi</p>\n<p>You</p>"},
	{name: "white space around it", text: "\ufeff \n<p>Hi</p>\n", source: "<p>Hi</p>\n"},
	{
		name: "a fence and prose", text: "Here is the page:\n\n```html\n<p>Hi</p>\n```\nI hope you like it.",
		source: "<p>Hi</p>", prose: "Here is the page:", repairs: map[string]int{"prose": 1, "fence": 1, "trailing_text": 1},
	},
	{
		name: "thinking", text: "<think>A <p> or a\n<div>?</think>\n\n<p>Hi</p>",
		source: "<p>Hi</p>", prose: "A <p> or a\n<div>?", repairs: map[string]int{"prose": 1, "think": 2},
	},
	{
		name: "thinking that had no beginning", text: "Let me see.</think><p>Hi</p>",
		source: "<p>Hi</p>", prose: "Let me see.", repairs: map[string]int{"prose": 1, "think": 1},
	},
	{
		name: "tags that are mentioned", text: "I use `<p>`, the <b> tag, <i>, and 1 < 2.\n<p>Hi</p>",
		source: "<p>Hi</p>", prose: "I use `<p>`, the <b> tag, <i>, and 1 < 2.", repairs: map[string]int{"prose": 1},
	},
	{
		name: "comparisons", text: "Where a <b and i <p> q are given\n<p>Hi</p>",
		source: "<p>Hi</p>", prose: "Where a <b and i <p> q are given", repairs: map[string]int{"prose": 1},
	},
	{name: "a line that begins with a tag that closes itself", text: "Here:\n<br/>Hi", source: "<br/>Hi", prose: "Here:", repairs: map[string]int{"prose": 1}},
	{name: "a doctype inside a line", text: "OK: <!DOCTYPE html><p>Hi", source: "<!DOCTYPE html><p>Hi", prose: "OK:", repairs: map[string]int{"prose": 1}},
	{name: "a fence that begins with text", text: "```html\nHello <b>world</b>\n```", source: "Hello <b>world</b>", prose: "", repairs: map[string]int{"prose": 1, "fence": 1}},
	{
		name: "a fence of something else first", text: "```json\n{\"a\": 1}\n```\n\n```html\n<p>Hi</p>\n```\n",
		source: "<p>Hi</p>", prose: "```json\n{\"a\": 1}", repairs: map[string]int{"prose": 1, "fence": 1},
	},
	{name: "a longer fence", text: "````\n<p>Hi\n```\n</p>\n````", source: "<p>Hi\n```\n</p>", prose: "", repairs: map[string]int{"prose": 1, "fence": 1}},
	{
		name: "a fence inside pre", text: "```html\n<pre>\n```\nx\n```\n</pre>\n```\n", source: "<pre>\n```\nx\n```\n</pre>", prose: "",
		repairs: map[string]int{"prose": 1, "fence": 1},
	},
	{
		name: "lines that end with two signs", text: "Here:\r\n```html\r\n<p>Hi\r\nyou\r\n  ```\r\nBye.", source: "<p>Hi\r\nyou\r", prose: "Here:",
		repairs: map[string]int{"prose": 1, "fence": 1, "trailing_text": 1},
	},
	{name: "backticks in a fence", text: "```html\n<p>a\n`b`\n ```js</p>\n  ```", source: "<p>a\n`b`\n ```js</p>", prose: "", repairs: map[string]int{"prose": 1, "fence": 1}},
	{
		name: "text behind the document", text: "<html><p>Hi</html>\n```\nThat is all.", source: "<html><p>Hi</html>",
		repairs: map[string]int{"trailing_text": 1},
	},
	{name: "cut off in a tag", text: "<p>Hi <b class=\"x", source: "<p>Hi ", repairs: map[string]int{"cut_off": 1}},
	{name: "cut off behind a bracket", text: "<div>Hi<", source: "<div>Hi", repairs: map[string]int{"cut_off": 1, "unclosed_element": 1}},
	{name: "cut off in the end of a script", text: "<script>f()</scr", source: "<script>f()", repairs: map[string]int{"cut_off": 1, "unclosed_element": 1}},
	{name: "cut off in a reference", text: "<p>a &am", source: "<p>a &am"},
	{name: "cut off in a fence", text: "```html\n<p>Hi", source: "<p>Hi", prose: "", repairs: map[string]int{"prose": 1, "fence": 1}},
	{name: "mistakes", text: "<div></b>\xff</p>", source: "<div></b>\xff</p>", repairs: map[string]int{"stray_end_tag": 2, "invalid_utf8": 1, "unclosed_element": 1}},
	{
		name: "a document inside a line", text: "Sure! <p class=x>Hi</p>", source: "<p class=x>Hi</p>", prose: "Sure!",
		repairs: map[string]int{"prose": 1},
	},
	{name: "a tag that goes on in the next line", text: "OK: <p\nid=x>Hi", source: "<p\nid=x>Hi", prose: "OK:", repairs: map[string]int{"prose": 1}},
	{
		name: "a text with a tag", text: "Hello <b>world</b>", source: "<b>world</b>", prose: "Hello",
		repairs: map[string]int{"prose": 1},
	},
	{name: "nothing", text: "", failed: "htmlpath: no HTML in the text"},
	{name: "only prose", text: "I cannot do that. 1 < 2", prose: "I cannot do that. 1 < 2", failed: "htmlpath: no HTML in the text"},
	{name: "only a mention", text: "Use <b>", prose: "Use <b>", failed: "htmlpath: no HTML in the text"},
	{name: "a fence without a tag", text: "```html\nHello\n```", source: "Hello", prose: "", failed: "htmlpath: no HTML in the text", repairs: map[string]int{"prose": 1, "fence": 1}},
	{name: "only thinking", text: "<think>Hm <p>x</p>", prose: "Hm <p>x</p>", failed: "htmlpath: no HTML in the text", repairs: map[string]int{"think": 1}},
}

// RP-01, RP-07, RP-09 for HTML.
func TestTheDocumentIsFoundInAnAnswer(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			for _, pieces := range splits(a.text) {
				got := readAll(&Options{Repair: true}, pieces...)
				want := reading{Found: found{Events: got.Found.Events, Source: a.source, Prose: a.prose}, Repairs: a.repairs, Complete: got.Complete, Err: a.failed}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%q (-want +got)\n%s", pieces, diff)
				}
			}
		})
	}
}

// pieces cuts text where the bytes of at say.
func pieces(text string, at []byte) (all []string) {
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if i < len(at) {
			n = min(n, 1+int(at[i]))
		}
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

func FuzzAnswer(f *testing.F) {
	for _, a := range answers {
		f.Add(a.text, []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, text string, at []byte) {
		o := &Options{Repair: true, MaxTag: 40, MaxDepth: 6, MaxPath: 60, MaxBytes: 400}
		if diff := cmp.Diff(readAll(o, text), readAll(o, pieces(text, at)...)); diff != "" {
			t.Errorf("%q (-whole +cut)\n%s", pieces(text, at), diff)
		}
	})
}

func TestHalfACharacterBeforeATagThatIsTooLongIsReadTheSameHoweverItIsCut(t *testing.T) {
	const text = "<b>\xac\xf0\x9f<p class='abcdefgh'>"
	o := &Options{Repair: true, MaxTag: 10}
	for _, pieces := range splits(text) {
		if diff := cmp.Diff(readAll(o, text), readAll(o, pieces...)); diff != "" {
			t.Errorf("%q (-whole +cut)\n%s", pieces, diff)
		}
	}
}

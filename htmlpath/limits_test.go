package htmlpath

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JS-08 for HTML.
func TestLimitsAreErrorsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name, fits, over string
		o                Options
		want             LimitError
		message          string
	}{
		{
			"depth", "<a><b></b><c><br></c></a>", "<a><b><c><d>",
			Options{MaxDepth: 3},
			LimitError{Limit: "depth", Max: 3, Offset: 9},
			"byte 9: the depth exceeds its limit of 3 levels",
		},
		{"depth of a void element", "<a><br></a>", "<a><b><br>", Options{MaxDepth: 2}, LimitError{Limit: "depth", Max: 2, Offset: 6}, ""},
		{"tag", "<p>x<abcdefgh>y", "<p>x<abcdefghi>y", Options{MaxTag: 10}, LimitError{Limit: "tag", Max: 10, Offset: 4}, "byte 4: the tag exceeds its limit of 10 bytes"},
		{"open tag", "<p><abcdefgh>", "<p>x<abcdefghij", Options{MaxTag: 10}, LimitError{Limit: "tag", Max: 10, Offset: 4}, ""},
		{"path", "<a><b></b></a>", "<a><bc>", Options{MaxPath: 9}, LimitError{Limit: "path", Max: 9, Offset: 3}, "byte 3: the path exceeds its limit of 9 bytes"},
		{"document", "<p>12345", "<p>123456", Options{MaxBytes: 8}, LimitError{Limit: "document", Max: 8, Offset: 8}, "byte 8: the document exceeds its limit of 8 bytes"},
	} {
		for _, c.o.Repair = range []bool{false, true} {
			for _, pieces := range splits(c.fits) {
				if _, _, err := read(&c.o, pieces...); err != nil {
					t.Errorf("%s: %q: %v", c.name, pieces, err)
				}
			}
			for _, pieces := range splits(c.over) {
				_, p, err := read(&c.o, pieces...)
				limit, ok := errors.AsType[*LimitError](err)
				if !ok || *limit != c.want || c.message != "" && err.Error() != c.message {
					t.Fatalf("%s: %q: got %v", c.name, pieces, err)
				}
				if _, again := p.WriteString("x"); again != err || p.Close() != err || p.Complete() {
					t.Errorf("%s: it goes on: %v", c.name, again)
				}
			}
		}
	}
}

func TestDefaultLimits(t *testing.T) {
	for _, c := range []struct{ name, fits, over string }{
		{"depth", strings.Repeat("<a>", 512), strings.Repeat("<a>", 513)},
		{"tag", "<a b=" + strings.Repeat("x", 65530) + ">", "<a b=" + strings.Repeat("x", 65531) + ">"},
		{"document", "<p>" + strings.Repeat("x", 16<<20-3), "<p>" + strings.Repeat("x", 16<<20-2)},
	} {
		if _, err := NewParser(Handler{}, nil).WriteString(c.fits); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		_, err := NewParser(Handler{}, nil).WriteString(c.over)
		if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Limit != c.name {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestReaderMayStopAfterTheDocumentOrMuchWhiteSpace(t *testing.T) {
	for _, c := range []struct {
		name, text     string
		stop, complete bool
	}{
		{"nothing", "", false, false},
		{"open", "<html><p>a", false, false},
		{"the end of the document", "<html><p>a</html>", true, true},
		{"the end of its fence", "```html\n<p>a\n```\n", true, true},
		{"what may be the end of its fence", "```html\n<p>a\n```", false, false},
		{"the end of an element", "<p>a</p>", false, false},
		{"much white space inside", "<pre>" + strings.Repeat(" ", 500), false, false},
		{"much white space outside", "<p>a</p>" + strings.Repeat(" \n", 128), true, false},
		{"much white space before", strings.Repeat("\n", 256), true, false},
		{"white space that is interrupted", "<p>a</p>" + strings.Repeat(" ", 200) + "b" + strings.Repeat(" ", 200), false, false},
	} {
		for _, size := range []int{1, 7, 1000} {
			p := NewParser(Handler{}, &Options{Repair: true})
			for piece := range slices.Chunk([]byte(c.text), size) {
				if _, err := p.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if p.MayStop() != c.stop || p.Complete() != c.complete {
				t.Errorf("%s: may stop %t, complete %t", c.name, p.MayStop(), p.Complete())
			}
		}
	}
}

func TestCompleteSaysWhetherAnythingWasLeftOpen(t *testing.T) {
	for text, want := range map[string]bool{
		"<p>a": true, "<ul><li>a</ul>": true, "<div>a": false, "<p>a<b": false, "<p>a</p>\n": true, "<script>": false, "<html><body><p>": true,
	} {
		_, p, err := read(&Options{Repair: true}, text)
		if err != nil || p.Complete() != want {
			t.Errorf("%s: %t, %v", text, p.Complete(), err)
		}
	}
}

func TestWriteAfterCloseIsRefused(t *testing.T) {
	p := NewParser(Handler{}, nil)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteString("x"); err != ErrClosed {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// Text is handed out as far as it is certain, so that a page can show it.
func TestNothingWaitsForMoreThanItNeeds(t *testing.T) {
	for _, c := range []struct {
		name, before, text string
		events, source     string
	}{
		{"text", "<p>", "Hello", `p[1]: "Hello"`, "Hello"},
		{"a character", "<p>", "a\xe2\x82", `p[1]: "a"`, "a\xe2\x82"},
		{"a reference", "<p>", "a&am", `p[1]: "a"`, "a"},
		{"a tag", "<p>", "a<b class='x", `p[1]: "a"`, "a"},
		{"a script", "<script>", "a</scr", `script[1]: "a"`, "a"},
		{"a comment", "<p>", "a<!-- b", `p[1]: "a"`, "a<!--"},
		{"a line in a fence", "```html\n<p>", "a\n", `p[1]: "a"`, "a"},
		{"a line", "<p>", "a\n", `p[1]: "a\n"`, "a\n"},
	} {
		var f found
		p := NewParser(f.handler(), &Options{Repair: true})
		if _, err := p.WriteString(c.before); err != nil {
			t.Fatal(err)
		}
		f.Events, f.Source = nil, ""
		if _, err := p.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c.events, c.source}, []string{outline(f), f.Source}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// JS-05 for HTML.
func TestTextAllocatesNothing(t *testing.T) {
	for name, unit := range map[string]string{
		"text": "some words & others ", "a reference": "a &lt;b&gt; &amp;c ", "a script": "if (a < b) {}\r\n", "a character that is cut": "\xe2\x82\xac é ",
	} {
		n := 0
		h := Handler{
			Open:   func(path, name []byte, _ []Attribute) { n += len(path) },
			Text:   func(path, text []byte) { n += len(text) },
			Close:  func(path, name []byte) { n += len(path) },
			Source: func(text []byte) { n += len(text) },
		}
		p := NewParser(h, &Options{Repair: true})
		open := "<main><p>"
		if name == "a script" {
			open = "<script>"
		}
		p.WriteString(open)
		text := []byte(unit)
		write := func() {
			for i := range text {
				p.Write(text[i : i+1])
			}
			p.Write(text)
		}
		write()
		if got := testing.AllocsPerRun(100, write); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
		if p.err != nil || n == 0 {
			t.Fatal(p.err)
		}
	}
}

// article is a page like what models write, of at least size bytes.
func article(size int) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<body class=\"article\">\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "  <section id=\"s%d\">\n    <h2>Why does the sea move? Nr %d</h2>\n    <ul>\n", i, i)
		for range i % 5 {
			b.WriteString("      <li><a href=\"https://example.org/?a=1&amp;b=2\" title='x'>The moon</a> pulls the water</li>\n")
		}
		fmt.Fprintf(&b, "    </ul>\n    <p>%s</p><br>\n  </section>\n", strings.Repeat("The tide rises &amp; falls twice a day. Über das Meer. ", 1+i%9))
	}
	return b.String() + "</body>\n</html>\n"
}

// shapes are documents in which an idle step for each byte, name or tag would show (JS-04).
var shapes = []struct {
	name string
	make func(size int) string
}{
	{"article", article},
	{"text", func(n int) string { return "<p>" + strings.Repeat("x", n) }},
	{"references", func(n int) string { return "<p>" + strings.Repeat("&euro;", n/6) }},
	{"zeros", func(n int) string { return "<p>&#" + strings.Repeat("0", n) + "65;" }},
	{"letters", func(n int) string { return "<p>&" + strings.Repeat("a", n) + ";" }},
	{"brackets", func(n int) string { return "<p>" + strings.Repeat("<", n) }},
	{"attributes", func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString("<p")
			for i := range min(8000, n/10) {
				fmt.Fprintf(&b, " %x=1", i)
			}
			b.WriteString(">")
		}
		return b.String()
	}},
	{"few behind many attributes", func(n int) string {
		var b strings.Builder
		b.WriteString("<p")
		for i := range min(8000, n/10) {
			fmt.Fprintf(&b, " %x=1", i)
		}
		b.WriteString(">")
		return b.String() + strings.Repeat("<p a>", n/5)
	}},
	{"nesting", func(n int) string {
		unit := strings.Repeat("<b>", 512) + strings.Repeat("</b>", 512)
		return strings.Repeat(unit, 1+n/len(unit))
	}},
	{"stray end tags in the depth", func(n int) string {
		return "<u><table><td>" + strings.Repeat("<b>", 500) + strings.Repeat("</u>", n/4)
	}},
	{"siblings of many names", func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "<x%d></x%d>", i%1000, i%1000)
		}
		return b.String()
	}},
	{"script", func(n int) string { return "<script>" + strings.Repeat("</scrip<!--<script", n/18) }},
	{"comment", func(n int) string { return "<!--" + strings.Repeat("--!-", n/4) }},
	{"fence", func(n int) string { return "```html\n<p>" + strings.Repeat("\n``", n/3) }},
	{"backticks", func(n int) string { return "```html\n<p>\n" + strings.Repeat("`", n) }},
	{"prose", func(n int) string { return strings.Repeat("a <b> ` <i> \n", n/13) + "<p>" }},
	{"open tags in prose", func(n int) string { return strings.Repeat("a <p"+strings.Repeat(" ", 200)+"<!doctype ", n/220) }},
	{"thinking", func(n int) string { return "<think>" + strings.Repeat("a <b>\n<p>", n/9) }},
}

func parse(text string, chunk int, n *int) {
	h := Handler{
		Open: func(path, name []byte, attributes []Attribute) { *n++ }, Text: func(path, text []byte) { *n++ }, Close: func(path, name []byte) { *n++ },
		Source: func(text []byte) { *n++ },
	}
	p := NewParser(h, &Options{Repair: true, MaxBytes: 1 << 30})
	for len(text) > 0 {
		c := min(chunk, len(text))
		if _, err := p.WriteString(text[:c]); err != nil {
			panic(err)
		}
		text = text[c:]
	}
	_ = p.Close()
}

// JS-04 for HTML: a quadratic reading of one of these takes so long that the deadline of the tests ends it. bench/parse has the times.
func TestTimeGrowsWithTheInputOnly(t *testing.T) {
	for _, shape := range shapes {
		for _, chunk := range []int{3, 1 << 30} {
			n := 0
			parse(shape.make(256<<10), chunk, &n)
		}
	}
}

func BenchmarkParser(b *testing.B) {
	for _, shape := range shapes {
		for _, mib := range []int{1, 4} {
			text := shape.make(mib << 20)
			for _, chunk := range []int{4, 1 << 30} {
				name := fmt.Sprintf("%s/%dMiB/chunk=%d", strings.ReplaceAll(shape.name, " ", "_"), mib, chunk)
				if chunk == 1<<30 {
					name = fmt.Sprintf("%s/%dMiB/whole", strings.ReplaceAll(shape.name, " ", "_"), mib)
				}
				b.Run(name, func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					n := 0
					for b.Loop() {
						parse(text, chunk, &n)
					}
				})
			}
		}
	}
}

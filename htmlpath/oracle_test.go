package htmlpath

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// found is what a handler was told, with text between two tags joined.
type found struct {
	Events []string
	Source string
	Prose  string
}

func (f *found) handler() Handler {
	return Handler{
		Open: func(path, name []byte, attributes []Attribute) {
			line := fmt.Sprintf("open %s %s", path, name)
			for _, a := range attributes {
				line += fmt.Sprintf(" %s=%q", a.Name, a.Value)
			}
			f.Events = append(f.Events, line)
		},
		Text: func(path, text []byte) {
			at := fmt.Sprintf("text %s ", path)
			if last := len(f.Events) - 1; last >= 0 && strings.HasPrefix(f.Events[last], at) {
				f.Events[last] += string(text)
				return
			}
			f.Events = append(f.Events, at+string(text))
		},
		Close:  func(path, name []byte) { f.Events = append(f.Events, fmt.Sprintf("close %s %s", path, name)) },
		Source: func(text []byte) { f.Source += string(text) },
		Prose:  func(text []byte) { f.Prose += string(text) },
	}
}

// read parses pieces.
func read(o *Options, pieces ...string) (f found, p *Parser, err error) {
	p = NewParser(f.handler(), o)
	for _, piece := range pieces {
		if _, err := p.WriteString(piece); err != nil {
			return f, p, err
		}
	}
	err = p.Close()
	return f, p, err
}

// whole reads text with one tokenizer that has all of it, and the same tree.
func whole(text string) found {
	var f found
	p := NewParser(f.handler(), nil)
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if z.Err() != io.EOF {
				panic(z.Err())
			}
			p.closeTo(0, 0)
			return f
		case html.TextToken:
			if text := p.valid(z.Text()); len(text) > 0 {
				p.handler.Text(p.path, text)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes, closesItself := p.tokenize(slices.Clone(z.Raw()))
			p.openTag(name, attributes, closesItself)
			if p.raw == rawNone {
				z.NextIsNotRawText()
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			p.closeTag(string(p.valid(name)))
			p.raw = rawNone
		}
	}
}

// tricky are texts in which something may go wrong.
var tricky = []string{
	"", "text", "<", "</", "<>", "</>", "a < b", "a <3", "a<b", "<p", "<p ", "<p a", "<p a=", "<p a='", "<p a='x'", "<!", "<!-", "<!--", "<?",
	"<p>Hello</p>", "<P CLASS=\"A b\" id=x hidden data-x='1 > 0' title=\"&quot;&lt;>\">x</P >",
	"<p/a>x</p>", "<p a = b>x", "<p a=\">\" b='>'>x", "<p \"a>x", "<a<b>x</a<b>",
	"<br><br/><br /></br><img src=a.png>text", "<div/>x</div>", "<svg/><svg viewBox='0 0 1 1'><path d=M0/><lineargradient/>a<title>b<i>c</i></title><style>p>q{}</style></svg>",
	"<svg><foreignObject><p>a<p>b<br/><div/>x</foreignObject></svg>y", "<math><mi>x<p/></mi><mo/></math>",
	"<p><![CDATA[a<b>]]>",
	"<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "<p>a<p>b<div>c<p>d</div>e", "<p><b>a<p>b</b>c", "<p><button><div><p>x</button>y",
	"<table><tr><td>a<td>b<tr><th>c<table><tr><td>d</table>e</table>f", "<table><caption>a<thead><tr><td>b<tbody><tr><td>c</tr></table>",
	"<table><tr><td></div>a</td></tr></table>", "<div><table><tr><td></div>x</table></div>y", "<dl><dt>a<dd>b<dt>c</dl>",
	"<select><option>a<option>b<optgroup><option>c<optgroup><option>d</select>e", "<ruby>a<rt>b<rp>c<rt>d</ruby>",
	"<html><head><title>a&amp;b<i></title><body>x</body></html>\n", "</p></div>x", "<b><i>x</b>y</i>z",
	"<script>if (a<b && c>d) { \"</scr\" + \"</p>\" }</script>x",
	"<script><!-</script>x", "<script><!--</SCRIPT >x", "<script></script", "<script></script/>x</scriptx>",
	"<script><!-- <</script>",
	"<style>p::before { content: \"<b>&amp;\" }</style>x", "<style></styl</style>", "<textarea>\n<b>&lt;\n</textarea>", "<title>&am</title>", "<title>a</titl", "<xmp><b></xmp>",
	"<iframe><p></iframe>", "<noscript><p>x</noscript>",
	"&amp;&lt;&gt;&quot;&apos;&nbsp;", "&#65;&#x41;&#X41;&#0;&#x80;&#1114112;&#xD800;&#", "&#x", "&#;", "&#x;", "&;", "&", "&&amp", "&amp;amp;", "a&ampb", "&notit;", "&notin;", "&am<b>p;",
	"&#000000000000000000000000000000000065;", "&#99999999999999999999;", "&#x00000000000000000000000000000041", "&CounterClockwiseContourIntegral;", "&CounterClockwiseContourIntegralX;",
	"&ltaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;b", "&fjlig;&nGt;", "&#x1F600;&lt&gt", "<a href='?a=b&copy=c&amp;d&lt'>&copy=</a>",
	"é€😀", "\xff\xc3(\xe2\x82<b>\xac\xf0\x9f", "<p title=\"\xff\xc3\">x<p\xff>", "\ufeff<p>",
	"<!DOCTYPE html><p>", "<!doctype>x", "<!x>y", "<!->x", "<!>x", "<!-->x", "<!--->x", "<!---->x", "<!--a-->x", "<!--a--->x", "<!-- a > b -- c --!x --! -->y",
	"<!-->a<!--b", "<?php echo 1 ?>x", "</3>x", "</ p>x", "<![CDATA[x]]>y", "<!DOCTYP",
}

// split cuts text at each of its bytes in turn, and into single bytes.
func splits(text string) (all [][]string) {
	for i := range len(text) + 1 {
		all = append(all, []string{text[:i], text[i:]})
	}
	return append(all, slices.Collect(func(yield func(string) bool) {
		for i := range len(text) {
			if !yield(text[i : i+1]) {
				return
			}
		}
	}))
}

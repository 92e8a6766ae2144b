package htmlpath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// outline writes what is found in short: "+path" opens, "-path" closes, "path: text" says.
func outline(f found) string {
	var lines []string
	for _, e := range f.Events {
		kind, rest, _ := strings.Cut(e, " ")
		path, rest, _ := strings.Cut(rest, " ")
		switch kind {
		case "open":
			_, attributes, _ := strings.Cut(rest+" ", " ")
			lines = append(lines, strings.TrimSpace("+"+path+" "+attributes))
		case "close":
			lines = append(lines, "-"+path)
		default:
			lines = append(lines, fmt.Sprintf("%s: %q", path, rest))
		}
	}
	return strings.Join(lines, "\n")
}

func TestWhatIsOpenedAndClosedWhere(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"elements of one name are counted", "<p>a</p><p>b</p><div><p>c</p></div><p>d</p>", `
			+p[1]
			p[1]: "a"
			-p[1]
			+p[2]
			p[2]: "b"
			-p[2]
			+div[1]
			+div[1]/p[1]
			div[1]/p[1]: "c"
			-div[1]/p[1]
			-div[1]
			+p[3]
			p[3]: "d"
			-p[3]`},
		{"text outside elements", "a<b>c</b>d", `
			: "a"
			+b[1]
			b[1]: "c"
			-b[1]
			: "d"`},
		{"attributes", `<A HREF="?a=1&amp;b=2" Hidden data-x='"' x=y/z x=2>t</a>`, `
			+a[1] href="?a=1&b=2" hidden="" data-x="\"" x="y/z"
			a[1]: "t"
			-a[1]`},
		{"void elements are closed at once", `<p>a<br>b<img src=x>c<input/></p>`, `
			+p[1]
			p[1]: "a"
			+p[1]/br[1]
			-p[1]/br[1]
			p[1]: "b"
			+p[1]/img[1] src="x"
			-p[1]/img[1]
			p[1]: "c"
			+p[1]/input[1]
			-p[1]/input[1]
			-p[1]`},
		{"a slash means nothing in HTML", `<div/>a`, `
			+div[1]
			div[1]: "a"
			-div[1]`},
		{"SVG", `<svg viewbox="0 0 1 1"><defs/><LinearGradient gradientUnits=x /><foreignobject><div viewbox=1/>a</foreignobject><title><b>c</b></title></svg><div/>`, `
			+svg[1] viewbox="0 0 1 1"
			+svg[1]/defs[1]
			-svg[1]/defs[1]
			+svg[1]/lineargradient[1] gradientunits="x"
			-svg[1]/lineargradient[1]
			+svg[1]/foreignobject[1]
			+svg[1]/foreignobject[1]/div[1] viewbox="1/"
			svg[1]/foreignobject[1]/div[1]: "a"
			-svg[1]/foreignobject[1]/div[1]
			-svg[1]/foreignobject[1]
			+svg[1]/title[1]
			+svg[1]/title[1]/b[1]
			svg[1]/title[1]/b[1]: "c"
			-svg[1]/title[1]/b[1]
			-svg[1]/title[1]
			-svg[1]
			+div[1]
			-div[1]`},
		{"end tags close what is inside", "<div><b><i>a</div>b</i></b></p>c", `
			+div[1]
			+div[1]/b[1]
			+div[1]/b[1]/i[1]
			div[1]/b[1]/i[1]: "a"
			-div[1]/b[1]/i[1]
			-div[1]/b[1]
			-div[1]
			: "bc"`},
		{"end tags stay in their cell", "<div><table><tr><td></div></p>a</tr>b</table></div>", `
			+div[1]
			+div[1]/table[1]
			+div[1]/table[1]/tr[1]
			+div[1]/table[1]/tr[1]/td[1]
			div[1]/table[1]/tr[1]/td[1]: "a"
			-div[1]/table[1]/tr[1]/td[1]
			-div[1]/table[1]/tr[1]
			div[1]/table[1]: "b"
			-div[1]/table[1]
			-div[1]`},
		{"scripts, styles and areas", "<script>a<b>&amp;</script><style>p>q{}</style><textarea><b>&amp;</textarea><pre>\n```\n</pre>", `
			+script[1]
			script[1]: "a<b>&amp;"
			-script[1]
			+style[1]
			style[1]: "p>q{}"
			-style[1]
			+textarea[1]
			textarea[1]: "<b>&"
			-textarea[1]
			+pre[1]
			pre[1]: "\n` + "```" + `\n"
			-pre[1]`},
		{"what has no events", "<!DOCTYPE html><!-- a --><?b?></ c><![CDATA[d]]>e", `
			: "e"`},
		{"text that is cut by what has no events", "a<!-- -->b", `
			: "ab"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _, err := read(nil, c.text)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", "")
			if diff := cmp.Diff(want, outline(f)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// tell tells f of a tree that the whole parser of x/net has made.
func tell(f *found, n *html.Node, path string) {
	h := f.handler()
	count := map[string]int{}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch c.Type {
		case html.TextNode:
			h.Text([]byte(path), []byte(c.Data))
			continue
		case html.DoctypeNode:
			continue
		}
		count[c.Data]++
		at := strings.TrimPrefix(fmt.Sprintf("%s/%s[%d]", path, c.Data, count[c.Data]), "/")
		var attributes []Attribute
		for _, a := range c.Attr {
			attributes = append(attributes, Attribute{[]byte(a.Key), []byte(a.Val)})
		}
		h.Open([]byte(at), []byte(c.Data), attributes)
		tell(f, c, at)
		h.Close([]byte(at), []byte(c.Data))
	}
}

// A tag that is implied is as good as one that is written.
func TestImpliedEndsAreWhereBrowsersHaveThem(t *testing.T) {
	for _, body := range []string{
		"<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "<p>a<p>b<div>c<p>d</div>e", "<p>a<ul><li>b</ul>c", "<p>a<table><tbody><tr><td>b</table>c",
		"<dl><dt>a<dd>b<dt>c</dl>", "<select><option>a<option>b<optgroup><option>c<optgroup></select>", "<ruby>a<rp>b<rt>c</ruby>",
		"<table><caption>a<thead><tr><th>b<th>c<tbody><tr><td>d<tr><td>e<tfoot><tr><td>f</table>", "<div><p>a</div>b", "<p>a<hr>b", "<p>a<pre>b</pre>",
		"<button><p>a<p>b</button>", "<table><tbody><tr><td><p>a<td><ul><li>b</table>c", "<p><svg><g/><title>a</title></svg>c</p>",
		"<li>a<div><li>b</div>", "<ol><li><p>a<p>b<li>c</ol>", "<div></p-x>a</div>", "<table><tbody><tr><td></table></div>a", "<object><p>a</object>b",
	} {
		text := "<!DOCTYPE html><html><head></head><body>" + body
		tree, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var want found
		tell(&want, tree, "")
		got, _, err := read(nil, text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outline(want), outline(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

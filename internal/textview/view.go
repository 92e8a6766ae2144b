// Package textview writes the result of a run as text that people read while it grows.
package textview

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/cells"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// View is a document that people read while it grows. Several bots write to it concurrently, but a terminal only goes forward:
// so it is shown in its own order, one text after the other, and a value waits for its turn. A text's turn is over when a done
// event says that it is complete.
//
// A workflow's graph says which texts will come: when article/sections/0/title is complete and a bot is started by that, the
// document gets null at the bot's root, article/sections/0/body, and the text there is waited for before the next section is shown.
type View struct {
	doc    jsonuri.Document
	values map[string]*value // by uri
	out    *layout
	whole  bool
	ended  bool
	starts
}

// value is what is known of a value beside the document.
type value struct {
	opened   bool // a container that was set, instead of being made for a value inside
	done     bool
	passed   bool   // its turn is over
	next     int    // of a container: the first child that was not passed
	shown    int    // bytes of its text, in escaped form
	before   string // what was shown of a text that is sent again
	headed   bool   // its heading was written
	numbered bool   // it is an element that was written as a numbered item
}

// Options say what the text is for.
type Options struct {
	Terminal bool // headings are bold; else the text is Markdown
	Width    int  // of the terminal, where lines break at words; 0: they do not
	Whole    bool // texts are written when they are complete: an answer that is rejected and retried is not shown
}

// New returns a view that writes to w. The graph may be nil.
func New(w io.Writer, o Options, graph *flow.Graph) *View {
	out := &layout{w: cells.NewWrapper(w, o.Width), terminal: o.Terminal, tail: "\n\n"}
	return &View{values: map[string]*value{}, out: out, whole: o.Whole, starts: startsOf(graph)}
}

// Err returns the error of the first write that failed. Nothing is written after it.
func (g *View) Err() error { return g.out.err }

// value returns what is known of the value at a uri.
func (g *View) value(uri string) *value {
	v := g.values[uri]
	if v == nil {
		v = new(value)
		g.values[uri] = v
	}
	return v
}

// Event takes an event of the run. Named ones are not part of the document.
func (g *View) Event(e tube.Event) {
	if e.Kind == tube.Named || jsonuri.Reserved(e.URI) {
		return
	}
	uri := string(e.URI)
	switch e.Kind {
	case tube.Append:
		if at, err := g.doc.Reach(e.URI); err == nil && at.End == len(uri) && at.Kind != '"' {
			g.clear(uri, g.value(uri)) // the text replaces it
		}
		_ = g.doc.Append(e.URI, e.Value) // the document of the run refuses the same events
	case tube.Set:
		g.set(uri, bytes.TrimSpace(e.Value))
	case tube.Done:
		g.value(uri).done = true
		for _, root := range g.startedBy(uri) {
			if at, err := g.doc.Reach([]byte(root)); err == nil && at.End < len(root) {
				_ = g.doc.Set([]byte(root), []byte("null"))
			}
		}
	}
	g.show()
}

// set sets a value. Null comes before another value, or before one that is sent again; what was shown of it stays on the page.
func (g *View) set(uri string, text []byte) {
	v := g.value(uri)
	if v.next = 0; string(text) == "null" {
		g.clear(uri, v)
	} else {
		v.shown = 0
	}
	if g.doc.Set([]byte(uri), text) == nil {
		g.open(uri, text)
	}
}

// clear stores what was shown of a text, and forgets what is in a container.
func (g *View) clear(uri string, v *value) {
	old, _ := g.doc.Get(uri)
	switch {
	case len(old) == 0:
	case old[0] == '"' && v.shown > 0 && !v.passed:
		v.before = string(old[1 : 1+v.shown])
	case old[0] == '{' || old[0] == '[':
		for inside := range g.values {
			if inside == uri || uri != "" && !strings.HasPrefix(inside, uri+"/") {
				continue
			}
			if inside == g.out.uri {
				g.out.endLine()
			}
			delete(g.values, inside)
		}
	}
}

// open notes which containers a value that was set has.
func (g *View) open(uri string, text []byte) {
	if text[0] == '{' || text[0] == '[' {
		g.value(uri).opened = true
		for name, inside := range rawjson.Children(text) {
			g.open(jsonuri.Join(uri, jsonuri.Format(name)), inside)
		}
	}
}

// End shows what there is, since nothing more will come. Texts that came when their turn was over are at the end.
func (g *View) End() {
	g.ended = true
	g.show()
	for _, v := range g.values {
		v.passed, v.next = false, 0
	}
	g.show()
	g.out.endLine()
}

// BreakLine ends the line that is being written, so that another line can stand below it on the terminal. The text goes on behind that.
func (g *View) BreakLine() { g.out.endLine() }

// show shows what can be shown.
func (g *View) show() { g.pass([]level{{node: g.doc.Root(), value: g.value("")}}, "", false) }

// level is a value on the way from the root to the one that is shown.
type level struct {
	key  string // the index of an element
	node jsonuri.Node
	*value
}

// pass shows what can be shown of the last value of a path, which is at a uri, and reports whether its turn is over. followed says that
// something has begun behind it, at its own level or further out.
func (g *View) pass(path []level, uri string, followed bool) bool {
	v := path[len(path)-1]
	if v.passed {
		return true
	}
	complete := v.done || g.ended
	switch kind := v.node.Kind(); kind {
	case '{', '[':
		for ; v.next < v.node.Len(); v.next++ {
			key, n := v.node.Child(v.next)
			if kind == '[' {
				key = strconv.Itoa(v.next)
			}
			at := jsonuri.Join(uri, jsonuri.Format(key))
			if !g.pass(append(path, level{key, n, g.value(at)}), at, followed || v.next+1 < v.node.Len()) {
				return false
			}
		}
		complete = complete || !v.opened && followed
	case 'n':
	default:
		text := string(v.node.Text())
		if !complete && (g.whole || kind != '"') || v.before != "" && !g.repeats(v.value, text, complete) {
			return false
		}
		if len(text) > v.shown {
			if v.shown == 0 {
				g.out.open(path)
			}
			g.out.write(unescape(text[v.shown:]))
			v.shown, g.out.uri = len(text), uri
		}
		if complete && v.shown > 0 {
			g.out.endLine()
		}
	}
	v.passed = complete
	return complete
}

// repeats reports whether it is certain how a text that was shown, and is sent again, goes on: as the same, or as another one, which is then
// shown below the first.
func (g *View) repeats(v *value, text string, complete bool) bool {
	switch {
	case strings.HasPrefix(text, v.before):
	case strings.HasPrefix(v.before, text) && !complete:
		return false
	default:
		g.out.endLine()
		v.shown = 0
	}
	v.before = ""
	return true
}

// unescape decodes the content of a JSON string.
func unescape(content string) (s string) {
	if json.Unmarshal([]byte(`"`+content+`"`), &s) != nil {
		return content
	}
	return s
}

// starts are the bots that a complete value starts, and where they will write, as a workflow's graph has them.
type starts []start

type start struct {
	pattern *jsonuri.Pattern
	root    string // with {{ event.match.N }} in it
}

func startsOf(graph *flow.Graph) (out starts) {
	if graph == nil {
		return nil
	}
	for _, n := range graph.Bots {
		for _, t := range n.On {
			text := cmp.Or(t.String, t.Object, t.Value)
			if pattern, err := jsonuri.CompilePattern(text); err == nil && text != "" && n.Root != "" {
				out = append(out, start{pattern, n.Root})
			}
		}
	}
	return out
}

var matchVariable = regexp.MustCompile(`\{\{ ?event\.match\.([0-9]{1,3}) ?\}\}`)

// startedBy returns the roots of the bots that a value starts, as far as they are known without running templates.
func (ss starts) startedBy(uri string) (roots []string) {
	for _, s := range ss {
		stars, ok := s.pattern.Stars(uri)
		if !ok {
			continue
		}
		root := matchVariable.ReplaceAllStringFunc(s.root, func(variable string) string {
			if i, _ := strconv.Atoi(matchVariable.FindStringSubmatch(variable)[1]); i < len(stars) {
				return stars[i]
			}
			return variable
		})
		if !strings.Contains(root, "{{") && !strings.Contains(root, "{%") {
			roots = append(roots, root)
		}
	}
	return roots
}

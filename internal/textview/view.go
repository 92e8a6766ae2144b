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

// View is a document that people read while it grows. Several bots write to it at once, but a terminal only goes forward:
// so it is shown in its own order, one text at a time, and what is not yet its turn waits. A text's turn is over when a done
// event says that it is complete.
//
// A workflow's graph says which texts will come: when article/sections/0/title is complete and a bot is started by that, its
// root article/sections/0/body gets a place in the document at once, and is waited for before the next section is shown.
type View struct {
	root  *part
	out   *layout
	whole bool
	ended bool
	starts
}

type partKind uint8

const (
	pending partKind = iota // its place is known, nothing of it has come
	object
	array
	text
	scalar
)

// part is a value of the document.
type part struct {
	key      string // of a member; the index of an element
	parent   *part
	kind     partKind
	opened   bool // a container that was opened by itself, not on the way to something inside
	done     bool
	passed   bool // it was shown and left
	members  []*part
	next     int    // the first member that was not passed
	text     string // of a text or scalar
	shown    int    // bytes of text
	before   string // what was shown of a text that is sent again
	headed   bool   // its heading was written
	numbered bool   // it is an element that was written as a numbered item
}

// Options say what the text is for.
type Options struct {
	Terminal bool // headings are bold; else the text is Markdown
	Width    int  // of the terminal, where lines break at words; 0: they do not
	Whole    bool // texts are written when they are complete: an answer that is rejected and asked for again is not shown
}

// New returns a view that writes to w. The graph may be nil.
func New(w io.Writer, o Options, graph *flow.Graph) *View {
	g := &View{root: &part{}, out: &layout{w: w, terminal: o.Terminal}, whole: o.Whole, starts: startsOf(graph)}
	if wrapper := cells.NewWrapper(w, o.Width); wrapper != nil {
		g.out.w = wrapper
	}
	return g
}

// Err returns the error of the first write that failed. Nothing is written after it.
func (g *View) Err() error { return g.out.err }

// Event takes an event of the run. Named ones are not part of the document.
func (g *View) Event(e tube.Event) {
	if e.Kind == tube.Named || jsonuri.Reserved(e.URI) {
		return
	}
	p := g.at(string(e.URI))
	switch e.Kind {
	case tube.Append:
		p.add(unescape(e.Value))
	case tube.Set:
		g.set(p, bytes.TrimSpace(e.Value))
	case tube.Done:
		p.done = true
		for _, root := range g.startedBy(string(e.URI)) {
			g.at(root)
		}
	}
	g.pass(g.root)
}

// End shows what there is, since nothing more will come. What came when its turn was over is at the end.
func (g *View) End() {
	g.ended = true
	g.pass(g.root)
	g.root.restart()
	g.pass(g.root)
	g.out.endLine()
}

// restart gives a part and all that is in it another turn.
func (p *part) restart() {
	p.passed, p.next = false, 0
	for _, m := range p.members {
		m.restart()
	}
}

// BreakLine ends the line that is being written, so that another line can stand below it on the terminal. The text goes on behind that.
func (g *View) BreakLine() { g.out.endLine() }

// GiveUp stops waiting for a text that should come but does not, where others wait behind it.
func (g *View) GiveUp() {
	if p := waitingFor(g.root); p.kind == pending && p != g.root {
		p.passed = true
		g.pass(g.root)
	}
}

// waitingFor returns the innermost part whose turn it is.
func waitingFor(p *part) *part {
	for p.next < len(p.members) {
		p = p.members[p.next]
	}
	return p
}

// at finds the part at a uri, or makes a place for it.
func (g *View) at(uri string) *part {
	p := g.root
	path, _ := jsonuri.Parse(uri) // the server's are valid
	for _, segment := range path {
		if p.kind != array && p.kind != object {
			p.kind = object
		}
		p = p.member(segment)
	}
	return p
}

// member finds a member or element, or makes a place for it and for the elements before it.
func (p *part) member(key string) *part {
	for _, m := range p.members {
		if m.key == key {
			return m
		}
	}
	last := len(p.members)
	if i, err := strconv.Atoi(key); p.kind == array && err == nil && i < last+1<<16 {
		last = i
	}
	for p.kind == array && len(p.members) < last {
		grow(p, strconv.Itoa(len(p.members)))
	}
	return grow(p, key)
}

func grow(p *part, key string) *part {
	m := &part{key: key, parent: p}
	p.members = append(p.members, m)
	return m
}

// set sets a part to a value, which is shown as if it had grown.
func (g *View) set(p *part, value json.RawMessage) {
	switch value[0] {
	case '{', '[':
		p.open(map[byte]partKind{'{': object, '[': array}[value[0]])
		for name, child := range rawjson.Children(value) {
			g.set(p.member(name), child)
		}
	case '"':
		p.become(text)
		p.add(unescape(value[1 : len(value)-1]))
	case 'n':
		g.clear(p)
	default:
		p.become(scalar)
		p.add(string(value))
	}
}

// open makes a container of a part.
func (p *part) open(k partKind) {
	if p.kind != k {
		p.become(k)
	}
	p.opened = true
}

// clear sets a part to null. That comes before a value that is sent again, or before another one; where it stays, there is nothing to show.
func (g *View) clear(p *part) {
	switch p.kind {
	case text:
		if p.shown > 0 && !p.passed {
			p.before = p.text[:p.shown]
		}
		p.text = ""
	case object, array:
		// What was shown of it stays on the page; what comes is shown below.
		if w := waitingFor(p); w.kind == text && w.shown > 0 && !w.passed {
			g.out.endLine()
		}
		p.become(object)
	default:
		p.become(scalar)
	}
}

func (p *part) add(s string) {
	if p.kind != text && p.kind != scalar {
		p.become(text)
	}
	p.text += s
}

// become changes what a part is. What was shown of a text stays known, so that the same text sent again is not shown twice.
func (p *part) become(k partKind) {
	if p.kind != text || k != text {
		p.shown = 0
	}
	p.kind, p.text, p.members, p.next = k, "", nil, 0
}

// pass shows what can be shown of p and says whether its turn is over.
func (g *View) pass(p *part) bool {
	if p.passed {
		return true
	}
	complete := p.done || g.ended
	switch p.kind {
	case text, scalar:
		if !complete && (g.whole || p.kind == scalar) || p.before != "" && !g.repeats(p, complete) {
			return false
		}
		if len(p.text) > p.shown {
			if p.shown == 0 {
				g.out.open(p)
			}
			g.out.write(p.text[p.shown:])
			p.shown = len(p.text)
		}
		if complete && p.shown > 0 {
			g.out.endLine()
		}
	case object, array:
		for p.next < len(p.members) {
			if !g.pass(p.members[p.next]) {
				return false
			}
			p.next++
		}
		complete = complete || !p.opened && p.hasNext()
	}
	p.passed = complete
	return complete
}

// repeats reports whether it is certain how a text that was shown, and is sent again, goes on: as the same, or as another one, which is then
// shown below the first.
func (g *View) repeats(p *part, complete bool) bool {
	switch {
	case strings.HasPrefix(p.text, p.before):
	case strings.HasPrefix(p.before, p.text) && !complete:
		return false
	default:
		g.out.endLine()
		p.shown = 0
	}
	p.before = ""
	return true
}

// hasNext reports whether something has begun behind p, at its own level or further out.
func (p *part) hasNext() bool {
	for q := p; q.parent != nil; q = q.parent {
		if q.parent.members[len(q.parent.members)-1] != q {
			return true
		}
	}
	return false
}

// unescape decodes the content of a JSON string.
func unescape(content []byte) (s string) {
	if json.Unmarshal([]byte(`"`+string(content)+`"`), &s) != nil {
		return string(content)
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

// Package textview writes the result of a run as text that people read while it grows.
package textview

import (
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/cells"
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
	late  []*part // came when their turn was over
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
	isLate   bool
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
		g.add(p, unescape(e.Value))
	case tube.Set:
		// A value is taken apart, so that it is shown as if it had grown.
		parser := jsonuri.NewParser(jsonuri.Handler{Delta: g.set, String: g.setText}, &jsonuri.Options{Root: string(e.URI)})
		_, _ = parser.Write(e.Value) // the server's events are valid
		_ = parser.Close()
	case tube.Done:
		p.done = true
		for _, root := range g.startedBy(string(e.URI), p.kind) {
			g.at(root)
		}
	}
	g.pass(g.root)
}

// End shows what there is, since nothing more will come.
func (g *View) End() {
	g.ended = true
	g.pass(g.root)
	for _, p := range g.late {
		p.passed, p.next, p.isLate = false, 0, false
		g.pass(p)
	}
	g.late = nil
	g.out.endLine()
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
		p = g.member(p, segment)
	}
	return p
}

// member finds a member or element of p, or makes a place for it and for the elements before it.
func (g *View) member(p *part, key string) *part {
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
		g.grow(p, strconv.Itoa(len(p.members)))
	}
	return g.grow(p, key)
}

func (g *View) grow(p *part, key string) *part {
	m := &part{key: key, parent: p}
	p.members = append(p.members, m)
	if p.passed {
		g.addLate(m)
	}
	return m
}

// addLate stores a part that came after its turn, with all that is inside, for the end.
func (g *View) addLate(p *part) {
	for q := p; q != nil; q = q.parent {
		if q.isLate {
			return
		}
	}
	p.isLate = true
	g.late = append(g.late, p)
}

// set sets a part to an empty object or list, to a scalar, or to null.
func (g *View) set(d jsonuri.Delta) {
	if d.Op == jsonuri.Append {
		return // its text comes as a whole
	}
	p := g.at(string(d.URI))
	switch value := string(d.Value); value {
	case "{}", "[]":
		kind := map[string]partKind{"{}": object, "[]": array}[value]
		if p.kind != kind {
			p.become(kind)
		}
		p.opened = true
	case "null":
		g.clear(p)
	default:
		p.become(scalar)
		g.add(p, value)
	}
}

func (g *View) setText(uri []byte, value string) {
	p := g.at(string(uri))
	p.become(text)
	g.add(p, value)
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

func (g *View) add(p *part, s string) {
	if p.kind != text && p.kind != scalar {
		p.become(text)
	}
	p.text += s
	if p.passed && len(p.text) > p.shown {
		g.addLate(p)
	}
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
	kinds   []partKind // nil is any
	root    string     // with {{ event.match.N }} in it
}

func startsOf(graph *flow.Graph) (out starts) {
	if graph == nil {
		return nil
	}
	for _, n := range graph.Bots {
		for _, t := range n.On {
			s := start{root: n.Root}
			pattern := t.Value
			switch {
			case t.String != "":
				pattern, s.kinds = t.String, []partKind{text}
			case t.Object != "":
				pattern, s.kinds = t.Object, []partKind{object, array}
			}
			var err error
			if s.pattern, err = jsonuri.CompilePattern(pattern); err == nil && pattern != "" && n.Root != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

var matchVariable = regexp.MustCompile(`\{\{ ?event\.match\.([0-9]{1,3}) ?\}\}`)

// startedBy returns the roots of the bots that a value starts, as far as they are known without running templates.
func (ss starts) startedBy(uri string, kind partKind) (roots []string) {
	for _, s := range ss {
		stars, ok := s.pattern.Stars(uri)
		if !ok || s.kinds != nil && s.kinds[0] != kind && s.kinds[len(s.kinds)-1] != kind {
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

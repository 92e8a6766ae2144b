// Package textview writes the result of a run as text that people read while it grows.
package textview

import (
	"bytes"
	"encoding/json"
	"io"
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
	whole bool // texts are shown when they are complete: an answer that is rejected and asked for again is not shown
	ended bool
	coming
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
	byKey    map[string]*part // of an object
	next     int              // the first member that was not passed
	text     string           // of a text or scalar
	shown    int              // bytes of text
	before   string           // what was shown of a text that is sent again
	headed   bool             // its heading was written
	numbered bool             // it is an element that was written as a numbered item
}

// Options say what the text is for.
type Options struct {
	Terminal bool // headings are bold; else the text is Markdown
	Width    int  // of the terminal, where lines break at words; 0: they do not
	Whole    bool // texts are written when they are complete: an answer that is rejected and asked for again is not shown
}

// New returns a view that writes to w. The graph may be nil.
func New(w io.Writer, o Options, graph *flow.Graph) *View {
	g := &View{root: &part{kind: pending}, out: &layout{w: w, terminal: o.Terminal}, whole: o.Whole}
	if wrapper := cells.NewWrapper(w, o.Width); wrapper != nil {
		g.out.w = wrapper
	}
	g.coming.learn(graph)
	return g
}

// Err returns the error of the first write that failed. Nothing is written after it.
func (g *View) Err() error { return g.out.err }

// Event takes an event of the run. Named ones are not part of the document.
func (g *View) Event(e tube.Event) {
	if e.Kind == tube.Named || jsonuri.Reserved(e.URI) {
		return
	}
	path, err := jsonuri.Parse(string(e.URI))
	if err != nil {
		return // the server's mistake, not the reader's concern
	}
	p := g.at(path)
	switch e.Kind {
	case tube.Append:
		g.add(p, unescape(e.Value))
	case tube.Set:
		g.set(p, e.Value)
	case tube.Done:
		p.done = true
		for _, root := range g.startedBy(string(e.URI), p) {
			if path, err := jsonuri.Parse(root); err == nil {
				g.at(path)
			}
		}
	}
	g.show()
}

// End shows what there is, since nothing more will come.
func (g *View) End() {
	g.ended = true
	g.show()
	for _, p := range g.late {
		p.passed, p.next, p.isLate = false, 0, false
		g.pass(p)
	}
	g.late = nil
	g.out.end()
}

// BreakLine ends the line that is being written, so that another line can stand below it on the terminal. The text goes on behind that.
func (g *View) BreakLine() { g.out.endLine() }

// GiveUp stops waiting for a text that should come but does not, where others wait behind it.
func (g *View) GiveUp() {
	if p := g.waitingFor(g.root); p != nil && p.kind == pending && p != g.root {
		g.leave(p)
		g.show()
	}
}

func (g *View) waitingFor(p *part) *part {
	for p.next < len(p.members) {
		p = p.members[p.next]
	}
	return p
}

func (g *View) show() { g.pass(g.root) }

// at finds the part with this path, or makes a place for it.
func (g *View) at(path []string) *part {
	p := g.root
	for _, segment := range path {
		if p.kind != array && p.kind != object {
			p.kind = object
		}
		if p.kind == array {
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i > len(p.members)+1<<16 {
				i = len(p.members)
			}
			for len(p.members) <= i {
				g.grow(p, strconv.Itoa(len(p.members)))
			}
			p = p.members[i]
			continue
		}
		m := p.byKey[segment]
		if m == nil {
			m = g.grow(p, segment)
			if p.byKey == nil {
				p.byKey = map[string]*part{}
			}
			p.byKey[segment] = m
		}
		p = m
	}
	return p
}

func (g *View) grow(p *part, key string) *part {
	m := &part{key: key, parent: p}
	p.members = append(p.members, m)
	if p.passed {
		g.missed(m)
	}
	return m
}

// missed keeps a part that came after its turn for the end; with it comes all that is inside.
func (g *View) missed(p *part) {
	for q := p; q != nil; q = q.parent {
		if q.isLate {
			return
		}
	}
	p.isLate = true
	g.late = append(g.late, p)
}

func (g *View) add(p *part, s string) {
	if p.kind != text {
		p.become(text)
	}
	p.text += s
	if p.passed && len(p.text) > p.shown {
		g.missed(p)
	}
}

// set stores a value; one that is not empty is taken apart, so that it is shown as if it had grown.
func (g *View) set(p *part, value []byte) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return
	}
	switch value[0] {
	case '{':
		if p.kind != object {
			p.become(object)
		}
		p.opened = true
		d := json.NewDecoder(bytes.NewReader(value))
		d.Token()
		for d.More() {
			key, err := d.Token()
			var member json.RawMessage
			if err != nil || d.Decode(&member) != nil {
				return
			}
			name, _ := key.(string)
			m := p.byKey[name]
			if m == nil {
				m = g.grow(p, name)
				if p.byKey == nil {
					p.byKey = map[string]*part{}
				}
				p.byKey[name] = m
			}
			g.set(m, member)
		}
	case '[':
		if p.kind != array {
			p.become(array)
		}
		p.opened = true
		var items []json.RawMessage
		_ = json.Unmarshal(value, &items)
		for i, item := range items {
			for len(p.members) <= i {
				g.grow(p, strconv.Itoa(len(p.members)))
			}
			g.set(p.members[i], item)
		}
	case '"':
		p.become(text)
		g.add(p, unescape(value[1:len(value)-1]))
	case 'n':
		// null comes before a value that is sent again, or before another one; where it stays, there is nothing to show.
		switch p.kind {
		case text:
			if p.shown > 0 && !p.passed {
				p.before = p.text[:p.shown]
			}
			p.text = ""
			return
		case object, array:
			// What was shown of it stays on the page; what comes is shown below.
			if w := g.waitingFor(p); w.kind == text && w.shown > 0 && !w.passed {
				g.out.close()
			}
			p.become(object)
			return
		}
		if p.kind == pending || p.kind == scalar {
			p.become(scalar)
		}
	default:
		p.become(scalar)
		p.text = string(value)
		if p.passed {
			g.missed(p)
		}
	}
}

// become changes what a part is. What was shown of a text stays known, so that the same text sent again is not shown twice.
func (p *part) become(k partKind) {
	if p.kind != text || k != text {
		p.shown = 0
	}
	p.kind, p.text = k, ""
	p.members, p.byKey, p.next = nil, nil, 0
}

// pass shows what can be shown of p and says whether its turn is over.
func (g *View) pass(p *part) bool {
	if p.passed {
		return true
	}
	switch p.kind {
	case pending:
		if !p.done && !g.ended {
			return false
		}
	case text:
		if g.whole && !p.done && !g.ended {
			return false
		}
		if p.before != "" && !g.again(p) {
			return false
		}
		if len(p.text) > p.shown {
			if p.shown == 0 {
				g.out.open(p)
			}
			g.out.write(p.text[p.shown:])
			p.shown = len(p.text)
		}
		if !p.done && !g.ended {
			return false
		}
		if p.shown > 0 {
			g.out.close()
		}
	case scalar:
		if !p.done && !g.ended {
			return false
		}
		if p.text != "" {
			g.out.open(p)
			g.out.write(p.text)
			g.out.close()
			p.shown = len(p.text)
		}
	case object, array:
		for p.next < len(p.members) {
			if !g.pass(p.members[p.next]) {
				return false
			}
			p.next++
		}
		if !g.ended && !p.done && (p.opened || !p.hasNext()) {
			return false
		}
	}
	g.leave(p)
	return true
}

func (g *View) leave(p *part) { p.passed = true }

// again says whether it is certain how a text that was shown, and is sent again, goes on: as the same, or as another one, which is
// then shown below the first.
func (g *View) again(p *part) bool {
	switch {
	case strings.HasPrefix(p.text, p.before):
	case strings.HasPrefix(p.before, p.text) && !p.done && !g.ended:
		return false
	default:
		g.out.close()
		p.shown = 0
	}
	p.before = ""
	return true
}

// hasNext says whether something has begun behind p, at its own level or further out.
func (p *part) hasNext() bool {
	for q := p; q.parent != nil; q = q.parent {
		if q.parent.members[len(q.parent.members)-1] != q {
			return true
		}
	}
	return false
}

// unescape decodes the content of a JSON string.
func unescape(content []byte) string {
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content)
	}
	var s string
	quoted := append(append([]byte{'"'}, content...), '"')
	if json.Unmarshal(quoted, &s) != nil {
		return string(content)
	}
	return s
}

// coming knows from a workflow's graph which bots a complete value starts, and where these will write.
type coming struct{ starts []started }

type started struct {
	pattern *jsonuri.Pattern
	kinds   func(partKind) bool
	root    string // with {{ event.match.N }} in it
}

func (c *coming) learn(graph *flow.Graph) {
	if graph == nil {
		return
	}
	for _, n := range graph.Bots {
		if n.Root == "" {
			continue
		}
		for _, t := range n.On {
			s := started{root: n.Root}
			var pattern string
			switch {
			case t.String != "":
				pattern, s.kinds = t.String, func(k partKind) bool { return k == text }
			case t.Object != "":
				pattern, s.kinds = t.Object, func(k partKind) bool { return k == object || k == array }
			case t.Value != "":
				pattern, s.kinds = t.Value, func(partKind) bool { return true }
			default:
				continue
			}
			p, err := jsonuri.CompilePattern(pattern)
			if err != nil {
				continue
			}
			s.pattern = p
			c.starts = append(c.starts, s)
		}
	}
}

// startedBy returns the roots of the bots that the value at uri starts, as far as they can be told without running templates.
func (c *coming) startedBy(uri string, p *part) (roots []string) {
	for _, s := range c.starts {
		stars, ok := s.pattern.Stars(uri)
		if !ok || !s.kinds(p.kind) {
			continue
		}
		root := s.root
		for i, star := range stars {
			for _, form := range []string{"{{ event.match.%d }}", "{{event.match.%d}}"} {
				root = strings.ReplaceAll(root, strings.Replace(form, "%d", strconv.Itoa(i), 1), star)
			}
		}
		if !strings.Contains(root, "{{") && !strings.Contains(root, "{%") {
			roots = append(roots, root)
		}
	}
	return roots
}

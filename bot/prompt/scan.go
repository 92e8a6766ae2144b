package prompt

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// The scanner reads a template before pongo2 does, for three reasons: to refuse what would bring pongo2 down (nesting, which
// it follows by recursion; an "endcomment" with arguments, on which it never returns), to know what the template reads, and
// to put in what makes a rendering safe. It splits a template into tokens exactly as pongo2's lexer does, and refuses what that
// would let through, so that nothing reaches pongo2 that was not looked at.

const (
	maxDepth    = 32   // of block tags, and of brackets in one tag
	maxTokens   = 1024 // in one tag
	maxJoins    = 16   // "+" in one tag: each one copies both sides
	maxFilters  = 32   // in one tag
	ownPrefix   = "lingserve_"
	wrapOpen    = "{% autoescape off %}" // per template: pongo2's switch is process-wide
	wrapClose   = "{% endautoescape %}"
	verbatim    = "{% verbatim %}"
	endVerbatim = "{% endverbatim %}"
)

// tagRule says how a tag is read.
type tagRule struct {
	block   bool     // has a body
	middles []string // tags that divide the body
	lenient bool     // may read what is not supplied
	scope   bool     // names given inside are forgotten at its end
	rename  bool     // a tag of this package stands in for it
}

var tagRules = map[string]tagRule{
	"if":          {block: true, middles: []string{"elif", "else"}, lenient: true, rename: true},
	"ifequal":     {block: true, middles: []string{"else"}, lenient: true},
	"ifnotequal":  {block: true, middles: []string{"else"}, lenient: true},
	"for":         {block: true, middles: []string{"empty"}, scope: true, rename: true},
	"with":        {block: true, scope: true},
	"comment":     {block: true},
	"set":         {},
	"firstof":     {lenient: true},
	"cycle":       {},
	"now":         {},
	"widthratio":  {},
	"templatetag": {},
}

// block is an open block tag.
type block struct {
	tag    string
	offset int
	names  map[string]bool // that the template gives here; nil where the tag is no scope
}

type scanner struct {
	source
	out    strings.Builder
	pos    int
	blocks []block
	global map[string]bool // names given outside of any scope
	reads  []path
}

func scan(name, input string) (*source, *Error) {
	s := &scanner{source: source{name: name, text: input}, global: map[string]bool{}}
	s.lines = lineOffsets(input)
	if len(input) > maxTemplate {
		return nil, &Error{Template: name, Message: fmt.Sprintf("the template has %d bytes, more than 64 KiB", len(input))}
	}
	if failure := s.run(); failure != nil {
		return nil, failure
	}
	s.rewritten = s.out.String()
	s.outLines = lineOffsets(s.rewritten)
	s.collect()
	return &s.source, nil
}

func (s *scanner) fail(offset int, format string, args ...any) *Error {
	e := &Error{Template: s.name, Message: fmt.Sprintf(format, args...)}
	e.Line, e.Column = s.position(offset)
	return e
}

// insert puts text into what pongo2 gets; the original goes on at offset in.
func (s *scanner) insert(text string, in int) {
	s.out.WriteString(text)
	s.anchors = append(s.anchors, anchor{s.out.Len(), in})
}

func (s *scanner) run() *Error {
	for i, r := range s.text {
		// pongo2 takes U+0001 for the end of the text.
		if r == utf8.RuneError && !strings.HasPrefix(s.text[i:], "\uFFFD") {
			return s.fail(i, "the template is not valid UTF-8")
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return s.fail(i, "control character U+%04X", r)
		}
	}
	s.insert(wrapOpen, 0)
	copied := 0
	for s.pos < len(s.text) {
		brace := strings.IndexByte(s.text[s.pos:], '{')
		if brace < 0 {
			break
		}
		s.pos += brace
		rest := s.text[s.pos:]
		switch {
		case strings.HasPrefix(rest, verbatim):
			end := strings.Index(rest, endVerbatim)
			if end < 0 {
				return s.fail(s.pos, "{%% verbatim %%} is not closed")
			}
			s.pos += end + len(endVerbatim)
		case strings.HasPrefix(rest, "{#"):
			end := strings.Index(rest, "#}")
			if newline := strings.IndexByte(rest, '\n'); end < 0 || newline >= 0 && newline < end {
				return s.fail(s.pos, "close the comment {# … #} on its line")
			}
			s.pos += end + len("#}")
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "{%"):
			s.out.WriteString(s.text[copied:s.pos])
			if failure := s.element(); failure != nil {
				return failure
			}
			copied = s.pos
		default:
			s.pos++
		}
	}
	if n := len(s.blocks); n > 0 {
		return s.fail(s.blocks[n-1].offset, "{%% %s %%} is not closed", s.blocks[n-1].tag)
	}
	rest, brace := strings.CutSuffix(s.text[copied:], "{")
	s.out.WriteString(rest)
	if brace { // it would become "{{" with what follows
		s.insert("{% templatetag openbrace %}", len(s.text))
	}
	s.insert(wrapClose, len(s.text))
	return nil
}

// element reads the tag or variable at s.pos and writes it to s.out.
func (s *scanner) element() *Error {
	offset := s.pos
	open, body, shut, failure := s.tokens()
	if failure != nil {
		return failure
	}
	isTag := strings.HasPrefix(open.text, "{%")
	if isTag != strings.HasPrefix(strings.TrimPrefix(shut.text, "-"), "%") {
		return s.fail(shut.offset, "%q does not close %q", shut.text, open.text)
	}
	if failure := s.bounds(open, body, isTag); failure != nil {
		return failure
	}
	s.elements = append(s.elements, element{offset: offset})
	if isTag {
		return s.tag(open, body, shut)
	}
	if s.inComment() {
		s.out.WriteString(s.text[offset:s.pos])
		return nil
	}
	if len(body) == 0 {
		return s.fail(offset, "expected an expression between the braces")
	}
	if failure := s.references(body, false); failure != nil {
		return failure
	}
	// {{ x }} becomes {% print N x %}, which prints numbers and JSON as this package promises.
	s.out.WriteString(strings.Replace(open.text, "{{", "{%", 1))
	s.insert(s.own("print"), open.offset+len(open.text))
	s.rename(open.offset+len(open.text), shut.offset, body)
	s.out.WriteString(strings.Replace(shut.text, "}}", "%}", 1))
	return nil
}

// own is the beginning of a tag of this package for the element at hand.
func (s *scanner) own(tag string) string {
	return fmt.Sprintf(" %s%s %d ", ownPrefix, tag, len(s.elements)-1)
}

// bounds checks what pongo2 would follow by recursion or answer with memory.
func (s *scanner) bounds(open token, body []token, isTag bool) *Error {
	var brackets []string
	joins, filters := 0, 0
	for i, t := range body {
		switch {
		case t.is("(", "["):
			previous := i - 1
			if hint := s.callHint(body, i); hint != "" {
				return s.fail(t.offset, "%s", hint)
			}
			if t.text == "(" && previous >= 0 && !(isTag && previous == 0) &&
				(body[previous].kind == identifier || body[previous].is("]", ")")) {
				return s.fail(t.offset, "templates cannot call functions")
			}
			if brackets = append(brackets, t.text); len(brackets) > maxDepth {
				return s.fail(t.offset, "brackets are nested deeper than %d", maxDepth)
			}
		case t.is(")", "]"):
			if n := len(brackets); n == 0 || (brackets[n-1] == "(") != (t.text == ")") {
				return s.fail(t.offset, "unexpected %q; no bracket is open", t.text)
			}
			if hint := s.elementHint(body, i); hint != "" {
				return s.fail(t.offset, "%s", hint)
			}
			brackets = brackets[:len(brackets)-1]
		case t.is("+"):
			joins++
		case t.is("|"):
			filters++
			if i+2 < len(body) && body[i+1].kind == identifier && filterNamed(body[i+1].text) && (body[i+2].kind == text || body[i+2].kind == number) {
				return s.fail(body[i+2].offset, "the argument of a filter follows a colon: %s:%s", body[i+1].text, s.source.text[body[i+2].offset:tokenEnd(s.source.text, body, i+2)])
			}
		case t.kind == identifier && strings.HasPrefix(t.text, ownPrefix):
			return s.fail(t.offset, "names that begin with %s are reserved", ownPrefix)
		}
	}
	if len(brackets) > 0 {
		return s.fail(open.offset, "%q is not closed", brackets[len(brackets)-1])
	}
	if joins > maxJoins {
		return s.fail(open.offset, "a tag or variable has more than %d \"+\"", maxJoins)
	}
	if filters > maxFilters {
		return s.fail(open.offset, "a tag or variable has more than %d filters", maxFilters)
	}
	return nil
}

func (s *scanner) inComment() bool {
	return len(s.blocks) > 0 && s.blocks[len(s.blocks)-1].tag == "comment"
}

// tag reads a tag and writes it, with what belongs around it.
func (s *scanner) tag(open token, body []token, shut token) *Error {
	original := s.text[open.offset:s.pos]
	if len(body) == 0 || body[0].kind != identifier {
		if s.inComment() {
			s.out.WriteString(original)
			return nil
		}
		return s.fail(open.offset, "expected a tag's name first")
	}
	name, args := body[0], body[1:]
	if s.inComment() {
		if name.text == "endcomment" {
			if len(args) > 0 {
				return s.fail(args[0].offset, "endcomment takes no arguments")
			}
			s.blocks = s.blocks[:len(s.blocks)-1]
		}
		s.out.WriteString(original)
		return nil
	}
	if done, failure := s.innerTag(name, args); done || failure != nil {
		if failure == nil && name.text == "elif" {
			condition, failure := s.condition(args, name, shut.offset)
			if failure == nil {
				s.out.WriteString(s.text[open.offset:name.offset])
				s.insert(fmt.Sprintf("elif %d ", len(s.elements)-1), name.offset+len(name.text))
				condition.write(s.pos)
			}
			return failure
		}
		if failure == nil {
			s.out.WriteString(s.text[open.offset:name.offset])
			s.anchors = append(s.anchors, anchor{s.out.Len(), name.offset})
			s.rename(name.offset, s.pos, body)
		}
		return failure
	}
	rule, known := tagRules[name.text]
	if name.text == "verbatim" || name.text == "endverbatim" {
		return s.fail(open.offset, "verbatim must be written exactly as %s … %s", verbatim, endVerbatim)
	}
	if !known {
		return s.fail(name.offset, "unknown tag %q%s", name.text, tagHint(name.text))
	}
	if name.text == "comment" && len(args) > 0 {
		return s.fail(args[0].offset, "comment takes no arguments")
	}
	values, names, failure := s.split(name, args)
	if failure != nil {
		return failure
	}
	if failure := s.references(values, rule.lenient); failure != nil {
		return failure
	}
	var condition *conditionParser
	if name.text == "if" {
		if condition, failure = s.condition(args, name, shut.offset); failure != nil {
			return failure
		}
	}
	current := &s.elements[len(s.elements)-1]
	if name.text == "set" || name.text == "with" {
		current.sized = names
	}

	// What must be there is checked before the tag; a "-" that trims the text around the tag is repeated, since pongo2 looks
	// only at what is next to the text.
	if name.text != "comment" && !rule.rename {
		s.out.WriteString(open.text)
		s.out.WriteString(s.own("check"))
		s.out.WriteString("%}")
	}
	s.anchors = append(s.anchors, anchor{s.out.Len(), open.offset})
	s.out.WriteString(s.text[open.offset:name.offset])
	if rule.rename {
		s.insert(s.own(name.text), name.offset+len(name.text))
	}
	switch {
	case condition != nil:
		condition.write(s.pos)
	case rule.rename:
		s.rename(name.offset+len(name.text), s.pos, args)
	default:
		s.rename(name.offset, s.pos, body)
	}

	if rule.block {
		b := block{tag: name.text, offset: open.offset}
		if rule.scope {
			b.names = map[string]bool{}
		}
		if s.blocks = append(s.blocks, b); len(s.blocks) > maxDepth {
			return s.fail(open.offset, "tags are nested deeper than %d", maxDepth)
		}
	}
	if len(current.sized) > 0 {
		s.insert("{%"+s.own("size")+shut.text, s.pos)
	}
	for _, n := range names {
		if failure := s.bind(n, name.offset); failure != nil {
			return failure
		}
	}
	if name.text == "for" {
		return s.bind("forloop", name.offset)
	}
	return nil
}

// innerTag handles the tags that divide and end blocks.
func (s *scanner) innerTag(name token, args []token) (bool, *Error) {
	var top *block
	if n := len(s.blocks); n > 0 {
		top = &s.blocks[n-1]
	}
	if opened, ok := strings.CutPrefix(name.text, "end"); ok {
		if rule, known := tagRules[opened]; known && rule.block {
			if top == nil || top.tag != opened {
				if top != nil {
					return true, s.fail(name.offset, "unexpected %s; {%% %s %%} is open here", name.text, top.tag)
				}
				return true, s.fail(name.offset, "unexpected %s; no block is open", name.text)
			}
			if len(args) > 0 {
				return true, s.fail(args[0].offset, "%s takes no arguments", name.text)
			}
			s.blocks = s.blocks[:len(s.blocks)-1]
			return true, nil
		}
	}
	switch name.text {
	case "elif", "else", "empty":
		if top == nil || !slices.Contains(tagRules[top.tag].middles, name.text) {
			return true, s.fail(name.offset, "unexpected %s", name.text)
		}
		if name.text == "else" && len(args) > 0 && args[0].text == "if" {
			return true, s.fail(name.offset, "write elif in place of else if")
		}
		if name.text != "elif" && len(args) > 0 {
			return true, s.fail(args[0].offset, "%s takes no arguments", name.text)
		}
		return true, s.references(args, true)
	}
	return false, nil
}

// rename copies the original from one offset to another, with the filters of this package in place of pongo2's.
func (s *scanner) rename(from, to int, tokens []token) {
	s.anchors = append(s.anchors, anchor{s.out.Len(), from})
	for i := 1; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind == identifier && tokens[i-1].is("|") && filterRules[t.text] != nil {
			s.out.WriteString(s.text[from:t.offset])
			s.insert(ownPrefix, t.offset)
			from = t.offset
		}
	}
	s.out.WriteString(s.text[from:to])
}

// collect makes the lists of what is read.
func (s *scanner) collect() {
	roots, free := map[string]bool{}, map[string]bool{}
	for _, p := range s.reads {
		roots[p.segments[0]] = true
		if !p.bound {
			free[p.String()] = true
		}
	}
	for r := range roots {
		s.roots = append(s.roots, r)
	}
	for f := range free {
		s.free = append(s.free, f)
	}
	sort.Strings(s.roots)
	sort.Strings(s.free)
}

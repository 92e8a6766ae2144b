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

// source is a template as it was read.
type source struct {
	name      string
	text      string
	rewritten string   // what pongo2 gets
	anchors   []anchor // where the two differ
	lines     []int    // offsets of the lines of text
	outLines  []int    // offsets of the lines of rewritten
	elements  []element
	roots     []string // first segments of all paths
	free      []string // paths that must come from outside
}

// anchor says that from out on the rewritten text goes on with in of the original.
type anchor struct{ out, in int }

// element is a variable or tag of a template.
type element struct {
	offset int
	needs  []path   // what must be there before it is executed
	sized  []string // names that it gives to computed values, which must not grow without bound
}

// path is a variable that is read.
type path struct {
	segments []string
	offset   int
	bound    bool // the template itself gives the first segment
}

func (p path) String() string { return strings.Join(p.segments, ".") }

type tokenKind byte

const (
	identifier tokenKind = iota
	keyword
	number
	text
	symbol
)

type token struct {
	kind   tokenKind
	text   string
	offset int
}

func (t token) is(symbols ...string) bool {
	return t.kind == symbol && slices.Contains(symbols, t.text)
}

// symbols and keywords are pongo2's, in the order in which it tries them.
var (
	symbols = []string{
		"{{-", "-}}", "{%-", "-%}",
		"==", ">=", "<=", "&&", "||", "{{", "}}", "{%", "%}", "!=", "<>",
		"(", ")", "+", "-", "*", "<", ">", "/", "^", ",", ".", "!", "|", ":", "=", "%", "[", "]",
	}
	keywords = []string{"in", "and", "or", "not", "true", "false", "as", "export"}
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
	"if":          {block: true, middles: []string{"elif", "else"}, lenient: true},
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
				return s.fail(s.pos, "a comment {# … #} must be closed on its line")
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

// tokens reads the tag or variable at s.pos: its opening and closing symbols and the tokens between them.
func (s *scanner) tokens() (open token, body []token, shut token, failure *Error) {
	pos := s.pos
	first := true
	for pos < len(s.text) {
		c := s.text[pos]
		start := pos
		switch {
		case c == '\n':
			return open, body, shut, s.fail(pos, "a tag or variable must be closed on its line")
		case c == ' ' || c == '\r' || c == '\t':
			pos++
			continue
		case isLetter(c), isDigit(c):
			digits := true
			for pos < len(s.text) && (isLetter(s.text[pos]) || isDigit(s.text[pos])) {
				digits = digits && isDigit(s.text[pos])
				pos++
			}
			word := s.text[start:pos]
			switch {
			case digits:
				body = append(body, token{number, word, start})
			case slices.Contains(keywords, word):
				body = append(body, token{keyword, word, start})
			default:
				body = append(body, token{identifier, word, start})
			}
		case c == '"' || c == '\'':
			end, failure := s.quoted(pos)
			if failure != nil {
				return open, body, shut, failure
			}
			body = append(body, token{text, s.text[pos+1 : end-1], start})
			pos = end
		default:
			sym := ""
			for _, candidate := range symbols {
				if strings.HasPrefix(s.text[pos:], candidate) {
					sym = candidate
					break
				}
			}
			if sym == "" {
				r, _ := utf8.DecodeRuneInString(s.text[pos:])
				return open, body, shut, s.fail(pos, "unexpected character %q in a tag or variable", r)
			}
			pos += len(sym)
			t := token{symbol, sym, start}
			switch {
			case first:
				open = t
			case strings.HasPrefix(sym, "{"):
				return open, body, shut, s.fail(start, "unexpected %q in a tag or variable", sym)
			case strings.HasSuffix(sym, "}"):
				s.pos = pos
				return open, body, t, nil
			default:
				body = append(body, t)
			}
		}
		first = false
		if len(body) > maxTokens {
			return open, body, shut, s.fail(open.offset, "a tag or variable has more than %d words and signs", maxTokens)
		}
	}
	return open, body, shut, s.fail(s.pos, "the tag or variable is not closed")
}

// quoted returns the offset after the string that begins at pos.
func (s *scanner) quoted(pos int) (int, *Error) {
	quote := s.text[pos]
	for i := pos + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case quote:
			return i + 1, nil
		case '\n':
			return 0, s.fail(pos, "a string must be closed on its line")
		case '\\':
			i++
			if i >= len(s.text) || s.text[i] != '"' && s.text[i] != '\\' {
				return 0, s.fail(i-1, `unknown escape in a string: only \" and \\ are possible`)
			}
		}
	}
	return 0, s.fail(pos, "the string is not closed")
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
		return s.fail(offset, "an expression is missing between the braces")
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
			if t.text == "(" && previous >= 0 && !(isTag && previous == 0) &&
				(body[previous].kind == identifier || body[previous].is("]", ")")) {
				return s.fail(t.offset, "nothing can be called in a template")
			}
			if brackets = append(brackets, t.text); len(brackets) > maxDepth {
				return s.fail(t.offset, "brackets are nested deeper than %d", maxDepth)
			}
		case t.is(")", "]"):
			if n := len(brackets); n == 0 || (brackets[n-1] == "(") != (t.text == ")") {
				return s.fail(t.offset, "%q closes nothing", t.text)
			}
			brackets = brackets[:len(brackets)-1]
		case t.is("+"):
			joins++
		case t.is("|"):
			filters++
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
	verbatimCopy := s.text[open.offset:s.pos]
	if len(body) == 0 || body[0].kind != identifier {
		if s.inComment() {
			s.out.WriteString(verbatimCopy)
			return nil
		}
		return s.fail(open.offset, "a tag must begin with its name")
	}
	name, args := body[0], body[1:]
	if s.inComment() {
		if name.text == "endcomment" {
			if len(args) > 0 {
				return s.fail(args[0].offset, "endcomment takes no arguments")
			}
			s.blocks = s.blocks[:len(s.blocks)-1]
		}
		s.out.WriteString(verbatimCopy)
		return nil
	}
	if done, failure := s.innerTag(name, args); done || failure != nil {
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
		return s.fail(name.offset, "there is no tag %q in prompts", name.text)
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
		s.rename(name.offset+len(name.text), s.pos, args)
	} else {
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
					return true, s.fail(name.offset, "%s does not end {%% %s %%}, which is open here", name.text, top.tag)
				}
				return true, s.fail(name.offset, "%s ends nothing", name.text)
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
			return true, s.fail(name.offset, "%s has no place here", name.text)
		}
		if name.text != "elif" && len(args) > 0 {
			return true, s.fail(args[0].offset, "%s takes no arguments", name.text)
		}
		return true, s.references(args, true)
	}
	return false, nil
}

// split tells the expressions of a tag's arguments from the names that it gives.
func (s *scanner) split(name token, args []token) (values []token, names []string, failure *Error) {
	switch name.text {
	case "for":
		in := slices.IndexFunc(args, func(t token) bool { return t.kind == keyword && t.text == "in" })
		if in < 0 {
			return nil, nil, s.fail(name.offset, "for needs the form: for NAME in LIST")
		}
		for _, t := range args[:in] {
			if t.kind == identifier {
				names = append(names, t.text)
			}
		}
		values = args[in+1:]
		for len(values) > 1 && values[len(values)-1].kind == identifier &&
			(values[len(values)-1].text == "reversed" || values[len(values)-1].text == "sorted") &&
			!values[len(values)-2].is(".", "|") {
			values = values[:len(values)-1]
		}
		return values, names, nil
	case "set":
		if len(args) < 2 || args[0].kind != identifier || !args[1].is("=") {
			return nil, nil, s.fail(name.offset, "set needs the form: set NAME = VALUE")
		}
		return args[2:], []string{args[0].text}, nil
	case "templatetag":
		return nil, nil, nil
	case "now":
		return nil, nil, nil
	}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i].kind == keyword && args[i].text == "as":
			if i+1 < len(args) && args[i+1].kind == identifier {
				names = append(names, args[i+1].text)
				i++
				if name.text == "cycle" && i+1 < len(args) && args[i+1].kind == identifier && args[i+1].text == "silent" {
					i++
				}
			}
			values = append(values, token{symbol, ",", args[i].offset}) // ends the path before it
		case name.text == "with" && args[i].kind == identifier && i+1 < len(args) && args[i+1].is("="):
			names = append(names, args[i].text)
			i++
			values = append(values, token{symbol, ",", args[i].offset})
		default:
			values = append(values, args[i])
		}
	}
	return values, names, nil
}

// bind notes that the template gives a name from here on.
func (s *scanner) bind(name string, offset int) *Error {
	if name == "pongo2" || strings.HasPrefix(name, ownPrefix) {
		return s.fail(offset, "the name %s is reserved", name)
	}
	for i := len(s.blocks) - 1; i >= 0; i-- {
		if s.blocks[i].names != nil {
			s.blocks[i].names[name] = true
			return nil
		}
	}
	s.global[name] = true
	return nil
}

func (s *scanner) bound(name string) bool {
	for i := range s.blocks {
		if s.blocks[i].names[name] {
			return true
		}
	}
	return s.global[name]
}

// references finds the paths that tokens read, and the filters that they use.
func (s *scanner) references(tokens []token, lenient bool) *Error {
	current := &s.elements[len(s.elements)-1]
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.is("|") && i+1 < len(tokens) && tokens[i+1].kind == identifier {
			i++
			if _, ok := filterRules[tokens[i].text]; !ok {
				return s.fail(tokens[i].offset, "there is no filter %q in prompts", tokens[i].text)
			}
			continue
		}
		if t.kind != identifier {
			continue
		}
		if i > 0 && tokens[i-1].is(".") {
			continue // a member after a computed one
		}
		if t.text == "pongo2" {
			return s.fail(t.offset, "the name pongo2 is reserved")
		}
		p, end := readPath(tokens, i)
		p.bound = s.bound(t.text)
		s.reads = append(s.reads, p)
		if !lenient && !hasDefault(tokens, end) {
			current.needs = append(current.needs, p)
		}
		i = end - 1
	}
	return nil
}

// readPath reads the path that begins at tokens[i] as far as it is written out, and returns the index after it.
func readPath(tokens []token, i int) (path, int) {
	p := path{segments: []string{tokens[i].text}, offset: tokens[i].offset}
	i++
	for i < len(tokens) {
		switch {
		case tokens[i].is(".") && i+1 < len(tokens) && (tokens[i+1].kind == identifier || tokens[i+1].kind == number):
			p.segments = append(p.segments, tokens[i+1].text)
			i += 2
		case tokens[i].is("[") && i+2 < len(tokens) && tokens[i+1].kind == text && isName(tokens[i+1].text) && tokens[i+2].is("]"):
			p.segments = append(p.segments, tokens[i+1].text)
			i += 3
		default:
			return p, i
		}
	}
	return p, i
}

// hasDefault says whether the filters that follow the path ending at tokens[i] supply a value themselves.
func hasDefault(tokens []token, i int) bool {
	for depth := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t.is("["):
			depth++
		case t.is("]"):
			if depth--; depth < 0 {
				return false
			}
		case depth > 0, t.is("."), i > 0 && tokens[i-1].is("."), i > 0 && tokens[i-1].is(":"):
		case t.is("|"), t.is(":"):
		case i > 0 && tokens[i-1].is("|"):
			if t.text == "default" || t.text == "default_if_none" {
				return true
			}
		default:
			return false
		}
	}
	return false
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

// position gives line and column of an offset of the original.
func (s *source) position(offset int) (line, column int) {
	i, found := slices.BinarySearch(s.lines, offset)
	if !found {
		i--
	}
	return i + 1, offset - s.lines[i] + 1
}

// original finds the offset in the original of a place in the rewritten text.
func (s *source) original(line, column int) int {
	if line > len(s.outLines) {
		return len(s.text)
	}
	out := s.outLines[line-1] + column - 1
	i := sort.Search(len(s.anchors), func(i int) bool { return s.anchors[i].out > out })
	offset := out
	if i > 0 {
		offset = s.anchors[i-1].in + out - s.anchors[i-1].out
	}
	if i < len(s.anchors) {
		offset = min(offset, s.anchors[i].in)
	}
	return max(0, min(offset, len(s.text)))
}

func lineOffsets(text string) []int {
	offsets := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			offsets = append(offsets, i+1)
		}
	}
	return offsets
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && !(isDigit(s[i]) && i > 0) {
			return false
		}
	}
	return s != ""
}

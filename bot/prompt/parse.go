package prompt

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
)

// pongo2 never sees a template as it was written: each tag and variable is read here first, and becomes a tag of this package with
// the number of its element and the expressions that pongo2 evaluates:
//
//	{{ a.b|json }}               {% lingserve_print 0 a . b | lingserve_json %}
//	{% if a == 1 and b %}        {% lingserve_if 1 a , 1 , b %}
//	{% for x in list sorted %}   {% lingserve_for 2 list %}
//
// So nothing reaches pongo2 that could bring it down, and the template knows what it reads.

// Limits of an element. pongo2 follows brackets and blocks by recursion, and each "+" and filter can copy its text.
const (
	maxDepth   = 32 // of blocks, and of brackets
	maxJoins   = 16
	maxFilters = 32
	maxTokens  = 1024
	prefix     = "lingserve_" // of this package's tags and filters in pongo2
)

// tagRule says how a tag is read.
type tagRule struct {
	block   bool     // it has a body
	middles []string // tags that divide the body
	scope   bool     // names given in the body are dropped at its end
	lenient bool     // it may read what is not supplied
	list    bool     // its expressions follow each other without a comma
}

var tagRules = map[string]tagRule{
	"if":      {block: true, middles: []string{"elif", "else"}, lenient: true},
	"elif":    {lenient: true},
	"for":     {block: true, middles: []string{"empty"}, scope: true},
	"with":    {block: true, scope: true},
	"set":     {},
	"firstof": {lenient: true, list: true},
	"cycle":   {list: true},
	"now":     {},
	"print":   {}, // {{ … }}
	"text":    {}, // {% verbatim %}
}

// element is a tag or variable of a template.
type element struct {
	tag       string
	offset    int
	operands  []string // expressions for pongo2
	paths     []path   // that must be supplied
	names     []string // that it gives to values
	condition *condition
	text      string // of verbatim
	// reversed and sorted are words behind the list of a for; silent is one behind a cycle.
	reversed, sorted, silent bool
}

// path is a variable that is read.
type path struct {
	segments []string
	offset   int
}

func (p path) String() string { return strings.Join(p.segments, ".") }

// token is a word, number, string or symbol in an element.
type token struct {
	text   string
	offset int
}

func (t token) is(texts ...string) bool { return slices.Contains(texts, t.text) }

func (t token) end() int { return t.offset + len(t.text) }

// symbols are those of one character.
const symbols = "()+-*<>/^,.!|:=%[]"

var keywords = []string{"in", "and", "or", "not", "true", "false", "as", "export"}

// word reports whether the token is a name, keyword or number.
func (t token) word() bool {
	return t.text != "" && !strings.ContainsFunc(t.text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
}

func (t token) name() bool {
	return t.word() && (t.text[0] < '0' || t.text[0] > '9') && !slices.Contains(keywords, t.text)
}

func (t token) number() bool {
	return !strings.ContainsFunc(t.text, func(r rune) bool { return r < '0' || r > '9' })
}

var (
	tokenPattern  = regexp.MustCompile(`"(?:[^"\\]|\\["\\])*"|'(?:[^'\\]|\\["\\])*'|[A-Za-z0-9_]+|[=!<>]=|<>|&&|\|\||\S`)
	endOfComment  = regexp.MustCompile(`\{%-?\s*endcomment\s*-?%\}`)
	endOfVerbatim = regexp.MustCompile(`\{%-?\s*endverbatim\s*-?%\}`)
)

// block is an open block tag.
type block struct {
	tag    string
	offset int
	names  map[string]bool // that the template gives in it
}

// parser reads a template.
type parser struct {
	*Template
	out    strings.Builder // what pongo2 gets
	pos    int
	blocks []block         // the first one is the template
	reads  map[string]path // that must come from outside: the first of each
	roots  map[string]bool
}

func (t *Template) fail(offset int, format string, args ...any) *Error {
	e := &Error{Template: t.name, Message: fmt.Sprintf(format, args...)}
	e.Line, e.Column = t.position(offset)
	return e
}

// position returns the line and column of an offset, both from 1.
func (t *Template) position(offset int) (line, column int) {
	before := t.text[:offset]
	return strings.Count(before, "\n") + 1, offset - strings.LastIndexByte(before, '\n')
}

// parse reads the template and returns what pongo2 gets.
func (t *Template) parse() (string, *Error) {
	for i, r := range t.text {
		// pongo2 takes U+0001 for the end of the text.
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return "", t.fail(i, "control character U+%04X", r)
		}
		if r == utf8.RuneError && !strings.HasPrefix(t.text[i:], "\uFFFD") {
			return "", t.fail(i, "the template is not valid UTF-8")
		}
	}
	p := &parser{Template: t, blocks: []block{{names: map[string]bool{}}}, reads: map[string]path{}, roots: map[string]bool{}}
	for p.pos < len(t.text) {
		rest := t.text[p.pos:]
		i := strings.IndexByte(rest, '{')
		if i < 0 || i+1 == len(rest) {
			break
		}
		p.out.WriteString(rest[:i])
		p.pos += i
		rest = rest[i:]
		switch rest[1] {
		case '#':
			end := strings.Index(rest, "#}")
			if end < 0 || strings.Contains(rest[:end], "\n") {
				return "", t.fail(p.pos, "close the comment {# … #} on its line")
			}
			p.pos += end + len("#}")
		case '{', '%':
			if failure := p.element(firstElement(rest)); failure != nil {
				return "", failure
			}
		default:
			p.out.WriteByte('{')
			p.pos++
		}
	}
	if open := p.blocks[len(p.blocks)-1]; open.tag != "" {
		return "", t.fail(open.offset, "{%% %s %%} is not closed", open.tag)
	}
	p.out.WriteString(t.text[p.pos:])
	for _, name := range slices.Sorted(maps.Keys(p.reads)) {
		line, column := t.position(p.reads[name].offset)
		t.variables = append(t.variables, Variable{p.reads[name].segments, line, column})
	}
	t.supplied = slices.Sorted(maps.Keys(p.roots))
	return p.out.String(), nil
}

// firstElement returns the tag or variable that text begins with, or "" if it is not closed on its line.
func firstElement(text string) string {
	end := "}}"
	if text[1] == '%' {
		end = "%}"
	}
	for i := 2; i < len(text) && text[i] != '\n'; i++ {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], end):
			return text[:i+len(end)]
		case c == '"' || c == '\'':
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) || text[i] == '\n' {
				return ""
			}
		}
	}
	return ""
}

// element reads the tag or variable at p.pos.
func (p *parser) element(text string) *Error {
	offset := p.pos
	if text == "" {
		line, _, _ := strings.Cut(p.text[offset:], "\n")
		if offset+len(line) < len(p.text) {
			return p.fail(offset, "close the tag or variable on its line")
		}
		return p.fail(offset, "the tag or variable is not closed")
	}
	p.pos += len(text)
	inner := text[2 : len(text)-2]
	open, closing := "{%", "%}"
	if strings.HasPrefix(inner, "-") {
		open, inner = "{%-", " "+inner[1:]
	}
	if rest, ok := strings.CutSuffix(inner, "-"); ok {
		closing, inner = "-%}", rest
	}
	tokens, failure := p.tokens(inner, offset+2)
	if failure != nil {
		return failure
	}
	if text[1] == '{' {
		if len(tokens) == 0 {
			return p.fail(offset, "expected an expression between the braces")
		}
		return p.tag(open, token{"print", offset}, tokens, closing)
	}
	if len(tokens) == 0 || !tokens[0].name() {
		return p.fail(offset, "expected a tag's name first")
	}
	return p.tag(open, tokens[0], tokens[1:], closing)
}

// tokens splits the inside of an element and checks what pongo2 would answer with recursion, calls or much memory.
func (p *parser) tokens(text string, offset int) (tokens []token, failure *Error) {
	var brackets []string
	joins, filters := 0, 0
	for _, at := range tokenPattern.FindAllStringIndex(text, maxTokens+1) {
		t := token{text[at[0]:at[1]], offset + at[0]}
		var last token
		if len(tokens) > 0 {
			last = tokens[len(tokens)-1]
		}
		switch {
		case utf8.RuneCountInString(t.text) == 1 && !t.word() && !strings.Contains(symbols, t.text):
			return nil, p.fail(t.offset, "unexpected character %q in a tag or variable", []rune(t.text)[0])
		case strings.HasPrefix(t.text, prefix) || t.text == "pongo2":
			return nil, p.fail(t.offset, "the name %s is reserved", t.text)
		case t.is("(") && len(tokens) > 1 && tokens[len(tokens)-2].is("|"):
			return nil, p.fail(t.offset, `the argument of a filter follows a colon, as in default:"none"`)
		case t.is("(") && len(tokens) > 0 && (last.name() && !(len(tokens) == 1 && tagRules[last.text].lenient) || last.is("]", ")")):
			return nil, p.fail(t.offset, "templates cannot call functions")
		case t.is("(", "["):
			if brackets = append(brackets, t.text); len(brackets) > maxDepth {
				return nil, p.fail(t.offset, "brackets are nested deeper than %d", maxDepth)
			}
		case t.is(")", "]"):
			n := len(brackets)
			if n == 0 || (brackets[n-1] == "(") != t.is(")") {
				return nil, p.fail(t.offset, "unexpected %q; no bracket is open", t.text)
			}
			brackets = brackets[:n-1]
			// pongo2 reads a.0.b, but not a[0].b.
			if literal := strings.Trim(last.text, `"'`); len(tokens) > 1 && tokens[len(tokens)-2].is("[") && (token{text: literal}.name() && literal != last.text || last.number()) {
				tokens = tokens[:len(tokens)-2]
				tokens = append(tokens, token{".", last.offset - 1}, token{literal, t.end() - len(literal)})
				continue
			}
		case t.is("+"):
			joins++
		case t.is("|"):
			filters++
		}
		tokens = append(tokens, t)
	}
	switch {
	case joins > maxJoins || filters > maxFilters || len(tokens) > maxTokens:
		return nil, p.fail(offset, "a tag or variable has more than %d \"+\", %d filters or %d words and signs", maxJoins, maxFilters, maxTokens)
	case len(brackets) > 0:
		return nil, p.fail(offset, "%q is not closed", brackets[len(brackets)-1])
	}
	return tokens, nil
}

// tag reads a tag and writes it for pongo2.
func (p *parser) tag(open string, name token, args []token, closing string) *Error {
	e := &element{tag: name.text, offset: name.offset}
	rule, known := tagRules[name.text]
	ends, isEnd := strings.CutPrefix(name.text, "end")
	switch {
	case name.is("comment", "verbatim"):
		return p.skip(open, name, args, closing)
	case isEnd && tagRules[ends].block || name.is("elif", "else", "empty"):
		if failure := p.innerTag(name, args); failure != nil {
			return failure
		}
	case !known || name.is("print", "text") && p.text[name.offset] != '{':
		return p.fail(name.offset, "unknown tag %q%s", name.text, edits.DidYouMean(name.text, tagNames, ""))
	}
	if failure := p.arguments(e, name, args); failure != nil {
		return failure
	}
	if rule.block {
		if p.blocks = append(p.blocks, block{name.text, name.offset, map[string]bool{}}); len(p.blocks) > maxDepth {
			return p.fail(name.offset, "tags are nested deeper than %d", maxDepth)
		}
	}
	if name.text == "for" {
		p.bind("forloop")
	}
	for _, n := range e.names {
		p.bind(n)
	}
	p.write(open, e, closing)
	return nil
}

// innerTag checks a tag that divides or ends the open block.
func (p *parser) innerTag(name token, args []token) *Error {
	top := p.blocks[len(p.blocks)-1]
	ends, isEnd := strings.CutPrefix(name.text, "end")
	switch {
	case isEnd && top.tag == "":
		return p.fail(name.offset, "unexpected %s; no block is open", name.text)
	case isEnd && top.tag != ends:
		return p.fail(name.offset, "unexpected %s; {%% %s %%} is open here", name.text, top.tag)
	case !isEnd && !slices.Contains(tagRules[top.tag].middles, name.text):
		return p.fail(name.offset, "unexpected %s", name.text)
	case name.text != "elif" && len(args) > 0:
		return p.fail(args[0].offset, "%s takes no arguments", name.text)
	case isEnd:
		p.blocks = p.blocks[:len(p.blocks)-1]
	}
	return nil
}

// tagNames are what an author may have meant by an unknown tag.
var tagNames = []string{"if", "elif", "else", "endif", "for", "empty", "endfor", "with", "endwith", "set", "firstof", "cycle", "now", "comment", "endcomment", "verbatim", "endverbatim"}

// write writes the element for pongo2. Tags that divide or end a block keep their names.
func (p *parser) write(open string, e *element, closing string) {
	tag := e.tag
	if _, known := tagRules[tag]; known && tag != "elif" {
		tag = prefix + tag
	}
	fmt.Fprintf(&p.out, "%s %s %d %s %s", open, tag, len(p.elements), strings.Join(e.operands, " , "), closing)
	p.elements = append(p.elements, e)
}

// skip goes on behind a comment or verbatim.
func (p *parser) skip(open string, name token, args []token, closing string) *Error {
	if len(args) > 0 {
		return p.fail(args[0].offset, "%s takes no arguments", name.text)
	}
	end := map[string]*regexp.Regexp{"comment": endOfComment, "verbatim": endOfVerbatim}[name.text].FindStringIndex(p.text[p.pos:])
	if end == nil {
		return p.fail(name.offset, "{%% %s %%} is not closed", name.text)
	}
	e := &element{tag: "text", offset: name.offset}
	if name.is("verbatim") {
		e.text = p.text[p.pos : p.pos+end[0]]
	}
	p.pos += end[1]
	p.write(open, e, closing)
	return nil
}

// bind notes that the template gives a name from here to the end of the scope.
func (p *parser) bind(name string) {
	i := len(p.blocks) - 1
	for i > 0 && !tagRules[p.blocks[i].tag].scope {
		i--
	}
	p.blocks[i].names[name] = true
}

func (p *parser) bound(name string) bool {
	return slices.ContainsFunc(p.blocks, func(b block) bool { return b.names[name] })
}

// arguments reads what a tag reads, and the names that it gives.
func (p *parser) arguments(e *element, name token, args []token) *Error {
	switch e.tag {
	case "if", "elif":
		return p.condition(e, name, args)
	case "for":
		in := slices.IndexFunc(args, func(t token) bool { return t.is("in") })
		if names := args[:max(in, 0)]; in == 1 && names[0].name() || in == 3 && names[0].name() && names[1].is(",") && names[2].name() {
			for i := 0; i < in; i += 2 {
				e.names = append(e.names, names[i].text)
			}
		} else {
			return p.fail(name.offset, "for needs the form: for NAME in LIST")
		}
		args = args[in+1:]
		for n := len(args); n > 1 && args[n-1].is("reversed", "sorted") && !args[n-2].is(".", "|"); n = len(args) {
			e.reversed, e.sorted = e.reversed || args[n-1].is("reversed"), e.sorted || args[n-1].is("sorted")
			args = args[:n-1]
		}
	case "set":
		if len(args) < 3 || !args[0].name() || !args[1].is("=") {
			return p.fail(name.offset, "set needs the form: set NAME = VALUE")
		}
		e.names, args = []string{args[0].text}, args[2:]
	case "with":
		return p.with(e, name, args)
	case "cycle":
		if n := len(args); n > 1 && args[n-1].is("silent") {
			e.silent, args = true, args[:n-1]
		}
		if n := len(args); n > 1 && args[n-2].is("as") && args[n-1].name() {
			e.names, args = []string{args[n-1].text}, args[:n-2]
		}
	}
	if _, known := tagRules[e.tag]; known && len(args) == 0 {
		return p.fail(name.offset, "%s needs an argument", name.text)
	}
	return p.operand(e, args)
}

// with reads "VALUE as NAME" or "NAME=VALUE NAME=VALUE".
func (p *parser) with(e *element, name token, args []token) *Error {
	if n := len(args); n > 2 && args[n-2].is("as") && args[n-1].name() {
		e.names = []string{args[n-1].text}
		return p.operand(e, args[:n-2])
	}
	for len(args) > 2 && args[0].name() && args[1].is("=") {
		end := 2
		for end < len(args) && !(end+1 < len(args) && args[end].name() && args[end+1].is("=")) {
			end++
		}
		e.names = append(e.names, args[0].text)
		if failure := p.operand(e, args[2:end]); failure != nil {
			return failure
		}
		args = args[end:]
	}
	if len(args) > 0 || e.names == nil {
		return p.fail(name.offset, "with needs the form: with NAME=VALUE")
	}
	return nil
}

// operand adds an expression to an element, with the paths that it reads.
func (p *parser) operand(e *element, tokens []token) *Error {
	var words []string
	for i, t := range tokens {
		word := t.text
		if i > 0 && tokens[i-1].is("|") {
			filter, ok := filters[word]
			if !ok {
				return p.fail(t.offset, "unknown filter %q%s", word, edits.DidYouMean(word, slices.Sorted(maps.Keys(filters)), ""))
			}
			if filter != nil {
				word = prefix + word
			}
		}
		if t.is(",", "=") {
			return p.fail(t.offset, "unexpected %q", t.text)
		}
		words = append(words, word)
	}
	if len(words) > 0 {
		e.operands = append(e.operands, strings.Join(words, " "))
	}
	return p.paths(e, tokens)
}

var loopMembers = []string{"counter", "counter0", "revcounter", "revcounter0", "first", "last", "parentloop"}

// paths notes the paths that tokens read; the element needs those that have no default.
func (p *parser) paths(e *element, tokens []token) *Error {
	for i := 0; i < len(tokens); i++ {
		if !tokens[i].name() || i > 0 && tokens[i-1].is("|", ".") {
			continue
		}
		read, end := readPath(tokens, i)
		root := read.segments[0]
		if root == "forloop" && len(read.segments) > 1 && p.bound(root) && !slices.Contains(loopMembers, read.segments[1]) {
			return p.fail(read.offset, "forloop has no %q; expected one of %s", read.segments[1], strings.Join(loopMembers, ", "))
		}
		p.roots[root] = true
		if _, ok := p.reads[read.String()]; !ok && !p.bound(root) {
			p.reads[read.String()] = read
		}
		if !hasDefault(tokens, end) {
			e.paths = append(e.paths, read)
		}
		i = end - 1
	}
	return nil
}

// readPath reads the path that begins at tokens[i] as far as it is written out, and returns the index after it.
func readPath(tokens []token, i int) (path, int) {
	p := path{segments: []string{tokens[i].text}, offset: tokens[i].offset}
	for i++; i+1 < len(tokens) && tokens[i].is(".") && tokens[i+1].word(); i += 2 {
		p.segments = append(p.segments, tokens[i+1].text)
	}
	return p, i
}

// hasDefault reports whether the filters behind the path that ends at tokens[i] supply a value themselves.
func hasDefault(tokens []token, i int) bool {
	for ; i+1 < len(tokens); i += 2 {
		switch {
		case tokens[i].is("|") && tokens[i+1].is("default", "default_if_none"):
			return true
		case tokens[i].is("["):
			i = matching(tokens, i) - 1
		case !tokens[i].is("|", ":", "."):
			return false
		}
	}
	return false
}

// matching returns the index of the bracket that closes the one at tokens[i].
func matching(tokens []token, i int) int {
	for depth := 0; i < len(tokens); i++ {
		if tokens[i].is("(", "[") {
			depth++
		} else if tokens[i].is(")", "]") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	return i
}

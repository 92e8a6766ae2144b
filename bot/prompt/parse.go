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

// pongo2 never sees a template as it was written: the text is divided here into a tree of elements, and pongo2 evaluates only their
// expressions. So nothing reaches it that could bring it down, and the template knows what it reads.

// Limits of an element. pongo2 follows brackets by recursion, and each "+" and filter can copy its text.
const (
	maxDepth   = 32 // of blocks, and of brackets
	maxJoins   = 16
	maxFilters = 32
	maxTokens  = 1024
	space      = " \n\r\t"
)

// element is a tag or variable of a template, or the text between two of them.
type element struct {
	tag      string // "print" for a variable, "text" for a text
	offset   int
	text     string
	names    []string      // that it gives to values
	values   []*expression // that it reads
	branches []branch      // of an if: the branches; of a for or with: the body; of a for, also the body for an empty list
	// reversed and sorted are words behind the list of a for; silent is one behind a cycle.
	reversed, sorted, silent bool
}

// branch is a part of a block.
type branch struct {
	condition *condition // nil: always
	body      []*element
}

// path is a variable that is read.
type path struct {
	segments []string
	offset   int
	filtered bool // a filter gives something else than the value
}

func (p path) String() string { return strings.Join(p.segments, ".") }

// token is a word, number, string or symbol in an element.
type token struct {
	text   string
	offset int
}

func (t token) is(texts ...string) bool { return slices.Contains(texts, t.text) }

func (t token) end() int { return t.offset + len(t.text) }

// word reports whether the token is a name, keyword or number.
func (t token) word() bool { return wordPattern.MatchString(t.text) }

func (t token) name() bool {
	return t.word() && (t.text[0] < '0' || t.text[0] > '9') && !slices.Contains(keywords, t.text)
}

const (
	symbols   = "()+-*<>/^,.!|:=%" // of one character
	inElement = `"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'|[^"'\n]`
)

var (
	keywords = []string{"in", "and", "or", "not", "true", "false", "as", "export"}

	// tokenPattern takes ["name"] and [0] as one token.
	tokenPattern = regexp.MustCompile(`\[ *(?:"\w+"|'\w+'|\d+) *\]|"(?:[^"\\]|\\["\\])*"|'(?:[^'\\]|\\["\\])*'|\w+|[=!<>]=|<>|&&|\|\||\S`)
	beginPattern = regexp.MustCompile(`\{[{%#]`)
	// elementPattern takes a comment, tag or variable that is closed on its line. Texts in quotes may hold what looks like the end.
	elementPattern = regexp.MustCompile(`^(?:\{#[^\n]*?#\}|\{\{(?:` + inElement + `)*?\}\}|\{%(?:` + inElement + `)*?%\})`)
	wordPattern    = regexp.MustCompile(`^\w+$`)
	endOf          = map[string]*regexp.Regexp{
		"comment":  regexp.MustCompile(`\{%-?\s*endcomment\s*-?%\}`),
		"verbatim": regexp.MustCompile(`\{%-?\s*endverbatim\s*-?%\}`),
	}
	// tagNames are what an author may have meant by an unknown tag.
	tagNames = []string{"if", "elif", "else", "endif", "for", "empty", "endfor", "with", "endwith", "set", "firstof", "cycle", "now", "comment", "endcomment", "verbatim", "endverbatim"}
)

// parser reads a template.
type parser struct {
	*Template
	pos    int
	trim   bool              // the element before pos takes the white space behind it
	depth  int               // of blocks
	scopes []map[string]bool // names that the template gives, from the outermost scope on
	reads  map[string]path   // that must come from outside: the first of each
	roots  map[string]bool
}

func (t *Template) fail(offset int, format string, args ...any) error {
	e := &Error{Template: t.name, Message: fmt.Sprintf(format, args...)}
	e.Line, e.Column = t.position(offset)
	return e
}

// position returns the line and column of an offset, both from 1.
func (t *Template) position(offset int) (line, column int) {
	before := t.text[:offset]
	return strings.Count(before, "\n") + 1, offset - strings.LastIndexByte(before, '\n')
}

func (t *Template) parse() error {
	if !utf8.ValidString(t.text) {
		return t.fail(0, "the template is not valid UTF-8")
	}
	p := &parser{Template: t, scopes: []map[string]bool{{}}, reads: map[string]path{}, roots: map[string]bool{}}
	var err error
	if t.body, _, _, err = p.body(token{}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.reads)) {
		line, column := t.position(p.reads[name].offset)
		t.variables = append(t.variables, Variable{p.reads[name].segments, line, column})
	}
	t.supplied = slices.Sorted(maps.Keys(p.roots))
	return nil
}

// body reads elements up to the tag, one of ends, that divides or ends the open block, and returns that tag with its arguments. The body of
// the template, which no tag opens, ends with the text.
func (p *parser) body(open token, ends ...string) (body []*element, end token, args []token, err error) {
	if p.depth++; p.depth > maxDepth {
		return nil, end, nil, p.fail(open.offset, "tags are nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	for {
		text, found, err := p.next()
		if err != nil {
			return nil, end, nil, err
		}
		if text != "" {
			body = append(body, &element{tag: "text", offset: found.offset, text: text})
		}
		if found.text == "" {
			if open.text != "" {
				return nil, end, nil, p.fail(open.offset, "{%% %s %%} is not closed", open.text)
			}
			return body, end, nil, nil
		}
		e, args, err := p.element(found)
		switch name := (token{e.tag, e.offset}); {
		case err != nil:
			return nil, end, nil, err
		case name.is(ends...):
			if e.tag != "elif" && len(args) > 0 {
				return nil, end, nil, p.fail(args[0].offset, "%s takes no arguments", e.tag)
			}
			return body, name, args, nil
		case strings.HasPrefix(e.tag, "end") && open.text == "" && name.is(tagNames...):
			return nil, end, nil, p.fail(e.offset, "unexpected %s; no block is open", e.tag)
		case strings.HasPrefix(e.tag, "end") && name.is(tagNames...):
			return nil, end, nil, p.fail(e.offset, "unexpected %s; {%% %s %%} is open here", e.tag, open.text)
		case name.is("else", "elif", "empty"):
			return nil, end, nil, p.fail(e.offset, "unexpected %s", e.tag)
		}
		if err := p.tag(e, args); err != nil {
			return nil, end, nil, err
		}
		body = append(body, e)
	}
}

// next returns the text up to the next tag or variable, without comments, and that tag or variable as it is written, which is "" at the end
// of the template.
func (p *parser) next() (text string, found token, err error) {
	trim := p.trim
	for found.text == "" && p.pos < len(p.text) {
		rest := p.text[p.pos:]
		begin := beginPattern.FindStringIndex(rest)
		if begin == nil {
			text += rest
			p.pos = len(p.text)
			break
		}
		text += rest[:begin[0]]
		p.pos += begin[0]
		rest = rest[begin[0]:]
		element := elementPattern.FindString(rest)
		switch {
		case element == "" && rest[1] == '#':
			return "", found, p.fail(p.pos, "close the comment {# … #} on its line")
		case element == "" && strings.Contains(rest, "\n"):
			return "", found, p.fail(p.pos, "close the tag or variable on its line")
		case element == "":
			return "", found, p.fail(p.pos, "the tag or variable is not closed")
		case rest[1] != '#':
			found = token{element, p.pos}
		}
		p.pos += len(element)
	}
	if trim {
		text = strings.TrimLeft(text, space)
	}
	if strings.HasPrefix(found.text[min(2, len(found.text)):], "-") {
		text = strings.TrimRight(text, space)
	}
	return text, found, nil
}

// element divides a tag or variable into its name and its arguments.
func (p *parser) element(found token) (e *element, args []token, err error) {
	e = &element{tag: "print", offset: found.offset}
	inner, offset := found.text[2:len(found.text)-2], found.offset+2
	if strings.HasPrefix(inner, "-") {
		inner, offset = inner[1:], offset+1
	}
	inner, p.trim = strings.CutSuffix(inner, "-")
	tokens, err := p.tokens(inner, offset)
	switch {
	case err != nil:
		return e, nil, err
	case found.text[1] == '{' && len(tokens) == 0:
		return e, nil, p.fail(found.offset, "expected an expression between the braces")
	case found.text[1] == '{':
		return e, tokens, nil
	case len(tokens) == 0 || !tokens[0].name():
		return e, nil, p.fail(found.offset, "expected a tag's name first")
	case !tokens[0].is(tagNames...):
		return e, nil, p.fail(tokens[0].offset, "unknown tag %q%s", tokens[0].text, edits.DidYouMean(tokens[0].text, tagNames, ""))
	}
	e.tag, e.offset = tokens[0].text, tokens[0].offset
	return e, tokens[1:], nil
}

// tokens splits the inside of an element and checks what pongo2 would answer with recursion, calls or much memory.
func (p *parser) tokens(text string, offset int) (tokens []token, err error) {
	var brackets []token
	joins, filters := 0, 0
	for _, at := range tokenPattern.FindAllStringIndex(text, maxTokens+1) {
		t := token{text[at[0]:at[1]], offset + at[0]}
		if key := strings.Trim(t.text, `[]"' `); t.text[0] == '[' && key != "" { // pongo2 reads a.0.b, but not a[0].b
			tokens = append(tokens, token{".", t.offset}, token{key, t.offset + strings.Index(t.text, key)})
			continue
		}
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
		case t.is("(") && (last.name() && !(len(tokens) == 1 && last.is("if", "elif", "firstof")) || last.is(")")):
			return nil, p.fail(t.offset, "templates cannot call functions")
		case t.is("("):
			if brackets = append(brackets, t); len(brackets) > maxDepth {
				return nil, p.fail(t.offset, "brackets are nested deeper than %d", maxDepth)
			}
		case t.is(")") && len(brackets) == 0:
			return nil, p.fail(t.offset, "unexpected %q; no bracket is open", t.text)
		case t.is(")"):
			brackets = brackets[:len(brackets)-1]
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
		return nil, p.fail(offset, "%q is not closed", "(")
	}
	return tokens, nil
}

// tag reads the arguments of a tag or variable and, of a block, what is inside.
func (p *parser) tag(e *element, args []token) (err error) {
	switch e.tag {
	case "comment", "verbatim":
		return p.skip(e, args)
	case "if":
		return p.ifTag(e, args)
	case "for":
		return p.forTag(e, args)
	case "with":
		return p.withTag(e, args)
	case "set":
		if len(args) < 3 || !args[0].name() || !args[1].is("=") {
			return p.fail(e.offset, "set needs the form: set NAME = VALUE")
		}
		e.names, args = []string{args[0].text}, args[2:]
	case "cycle":
		if n := len(args); n > 1 && args[n-1].is("silent") {
			e.silent, args = true, args[:n-1]
		}
		if n := len(args); n > 1 && args[n-2].is("as") && args[n-1].name() {
			e.names, args = []string{args[n-1].text}, args[:n-2]
		}
	}
	err = p.value(e, args)
	p.bind(e.names...)
	return err
}

// skip goes on behind a comment or verbatim.
func (p *parser) skip(e *element, args []token) error {
	if len(args) > 0 {
		return p.fail(args[0].offset, "%s takes no arguments", e.tag)
	}
	end := endOf[e.tag].FindStringIndex(p.text[p.pos:])
	if end == nil {
		return p.fail(e.offset, "{%% %s %%} is not closed", e.tag)
	}
	if e.tag == "verbatim" {
		e.text = p.text[p.pos : p.pos+end[0]]
	}
	e.tag = "text"
	p.pos += end[1]
	return nil
}

func (p *parser) ifTag(e *element, args []token) error {
	for tag := (token{e.tag, e.offset}); ; {
		var b branch
		var err error
		if tag.text != "else" {
			if b.condition, err = p.condition(tag, args); err != nil {
				return err
			}
		}
		if b.body, tag, args, err = p.body(token{e.tag, e.offset}, "elif", "else", "endif"); err != nil {
			return err
		}
		if e.branches = append(e.branches, b); tag.text == "endif" {
			return nil
		}
	}
}

func (p *parser) forTag(e *element, args []token) error {
	in := slices.IndexFunc(args, func(t token) bool { return t.is("in") })
	names := args[:max(in, 0)]
	if !(in == 1 && names[0].name() || in == 3 && names[0].name() && names[1].is(",") && names[2].name()) {
		return p.fail(e.offset, "for needs the form: for NAME in LIST")
	}
	for i := 0; i < in; i += 2 {
		e.names = append(e.names, names[i].text)
	}
	args = args[in+1:]
	for n := len(args); n > 1 && args[n-1].is("reversed", "sorted") && !args[n-2].is(".", "|"); n = len(args) {
		e.reversed, e.sorted = e.reversed || args[n-1].is("reversed"), e.sorted || args[n-1].is("sorted")
		args = args[:n-1]
	}
	if err := p.value(e, args); err != nil {
		return err
	}
	return p.scope(e, append(e.names, "forloop"), "empty", "endfor")
}

// withTag reads "VALUE as NAME" or "NAME=VALUE NAME=VALUE".
func (p *parser) withTag(e *element, args []token) error {
	if n := len(args); n > 2 && args[n-2].is("as") && args[n-1].name() {
		args = append([]token{args[n-1], {"=", args[n-2].offset}}, args[:n-2]...)
	}
	for len(args) > 2 && args[0].name() && args[1].is("=") {
		end := 2
		for end < len(args) && !(end+1 < len(args) && args[end].name() && args[end+1].is("=")) {
			end++
		}
		e.names = append(e.names, args[0].text)
		if err := p.value(e, args[2:end]); err != nil {
			return err
		}
		args = args[end:]
	}
	if len(args) > 0 || e.names == nil {
		return p.fail(e.offset, "with needs the form: with NAME=VALUE")
	}
	return p.scope(e, e.names, "endwith")
}

// scope reads the bodies of a block in which the template gives names. The last of ends is the block's end.
func (p *parser) scope(e *element, names []string, ends ...string) error {
	p.scopes = append(p.scopes, map[string]bool{})
	defer func() { p.scopes = p.scopes[:len(p.scopes)-1] }()
	p.bind(names...)
	for {
		body, end, _, err := p.body(token{e.tag, e.offset}, ends...)
		if err != nil {
			return err
		}
		if e.branches = append(e.branches, branch{body: body}); end.text == ends[len(ends)-1] {
			return nil
		}
	}
}

// bind notes that the template gives names from here to the end of the scope.
func (p *parser) bind(names ...string) {
	for _, name := range names {
		p.scopes[len(p.scopes)-1][name] = true
	}
}

func (p *parser) bound(name string) bool {
	return slices.ContainsFunc(p.scopes, func(names map[string]bool) bool { return names[name] })
}

// value adds the expression that tokens are to an element.
func (p *parser) value(e *element, tokens []token) error {
	if len(tokens) == 0 {
		return p.fail(e.offset, "%s needs an argument", e.tag)
	}
	x, err := p.expression(e.offset, tokens, e.tag == "firstof" || e.tag == "cycle")
	e.values = append(e.values, x)
	return err
}

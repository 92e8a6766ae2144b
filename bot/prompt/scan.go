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

// Limits of a tag or variable. pongo2 follows brackets and blocks by recursion, and each "+" and filter can copy its text.
const (
	maxDepth   = 32 // of blocks, and of brackets
	maxJoins   = 16
	maxFilters = 32
	maxTokens  = 1024
)

const (
	symbols   = "()[]+-*<>/^,.!|:=%" // of one character
	inElement = `"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'|[^"'\n]`
)

var (
	keywords     = []string{"in", "and", "or", "not", "true", "false", "as", "export"}
	tokenPattern = regexp.MustCompile(`"(?:[^"\\]|\\["\\])*"|'(?:[^'\\]|\\["\\])*'|\w+|[=!<>]=|<>|&&|\|\||\S`)
	beginPattern = regexp.MustCompile(`\{[{%#]`)
	// elementPattern takes a comment, tag or variable that is closed on its line. Texts in quotes may hold what looks like the end.
	elementPattern = regexp.MustCompile(`^(?:\{#[^\n]*?#\}|\{\{(?:` + inElement + `)*?\}\}|\{%(?:` + inElement + `)*?%\})`)
	wordPattern    = regexp.MustCompile(`^\w+$`)
	endOf          = map[string]*regexp.Regexp{
		"comment":  regexp.MustCompile(`\{%-?\s*endcomment\s*-?%\}`),
		"verbatim": regexp.MustCompile(`\{%-?\s*endverbatim\s*-?%\}`),
	}
)

// token is a word, number, string or symbol in a tag or variable.
type token struct {
	text   string
	offset int
}

func (t token) is(texts ...string) bool { return slices.Contains(texts, t.text) }

// word reports whether the token is a name, keyword or number.
func (t token) word() bool { return wordPattern.MatchString(t.text) }

func (t token) name() bool {
	return t.word() && (t.text[0] < '0' || t.text[0] > '9') && !slices.Contains(keywords, t.text)
}

// operand reports whether the token is a name, number or text.
func (t token) operand() bool {
	return t.name() || t.text[0] >= '0' && t.text[0] <= '9' || t.text[0] == '"' || t.text[0] == '\''
}

// block is a tag that is open, with the names that it gives.
type block struct {
	tag   token
	names []string
}

// scanner reads the text of a template and writes the source that pongo2 compiles. In that, expressions are arguments of this package's
// functions.
type scanner struct {
	*Template
	source  strings.Builder
	pos     int
	opening string // of the tag: "{%", or "{%-" where the white space in front of it goes
	closing string
	blocks  []block             // that are open; the first one is the template
	reads   map[string]Variable // that must come from outside: the first of each
	roots   map[string]bool     // first segments of all paths
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

// scan reads the whole template and returns its source.
func (t *Template) scan() (source string, err error) {
	if !utf8.ValidString(t.text) {
		return "", t.fail(0, "the template is not valid UTF-8")
	}
	s := &scanner{Template: t, blocks: make([]block, 1), reads: map[string]Variable{}, roots: map[string]bool{}}
	for s.pos < len(s.text) {
		if err := s.next(); err != nil {
			return "", err
		}
	}
	if open := s.blocks[len(s.blocks)-1].tag; len(s.blocks) > 1 {
		return "", t.fail(open.offset, "{%% %s %%} is not closed", open.text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.reads)) {
		t.variables = append(t.variables, s.reads[name])
	}
	t.supplied = slices.Sorted(maps.Keys(s.roots))
	return s.source.String(), nil
}

// next reads text, and the comment, tag or variable behind it.
func (s *scanner) next() error {
	rest := s.text[s.pos:]
	begin := beginPattern.FindStringIndex(rest)
	if begin == nil {
		s.source.WriteString(rest)
		s.pos = len(s.text)
		return nil
	}
	s.source.WriteString(rest[:begin[0]])
	offset := s.pos + begin[0]
	text := elementPattern.FindString(rest[begin[0]:])
	if text == "" {
		return s.fail(offset, "the tag, variable or comment is not closed on its line")
	}
	s.pos = offset + len(text)
	if text[1] == '#' {
		return nil
	}
	inner, start := text[2:len(text)-2], offset+2
	s.opening, s.closing = "{%", "%}"
	if strings.HasPrefix(inner, "-") {
		inner, start, s.opening = inner[1:], start+1, "{%-"
	}
	if strings.HasSuffix(inner, "-") {
		inner, s.closing = inner[:len(inner)-1], "-%}"
	}
	tokens, err := s.tokens(inner, start)
	switch {
	case err != nil:
		return err
	case text[1] == '%' && (len(tokens) == 0 || !tokens[0].name()):
		return s.fail(offset, "expected a tag's name first")
	case text[1] == '%':
		return s.tag(tokens[0], tokens[1:])
	case len(tokens) == 0:
		return s.fail(offset, "expected an expression between the braces")
	}
	value, err := s.expression(tokens)
	if err != nil {
		return err
	}
	s.opening, s.closing = strings.Replace(s.opening, "%", "{", 1), strings.Replace(s.closing, "%", "}", 1)
	s.write(call("text", value))
	return nil
}

// tokens splits the inside of a tag or variable and refuses what pongo2 would answer with recursion, calls or much memory.
func (s *scanner) tokens(text string, offset int) (tokens []token, err error) {
	depth, joins, filters := 0, 0, 0
	for _, at := range tokenPattern.FindAllStringIndex(text, maxTokens+1) {
		t := token{text[at[0]:at[1]], offset + at[0]}
		switch {
		case utf8.RuneCountInString(t.text) == 1 && !t.word() && !strings.Contains(symbols, t.text):
			return nil, s.fail(t.offset, "unexpected character %q in a tag or variable", []rune(t.text)[0])
		case strings.HasPrefix(t.text, prefix) || t.text == "pongo2":
			return nil, s.fail(t.offset, "the name %s is reserved", t.text)
		case t.is("(") && len(tokens) > 0 && s.called(tokens):
			return nil, s.fail(t.offset, "templates cannot call functions; the argument of a filter follows a colon")
		case t.is("(", "["):
			depth++
		case t.is(")", "]"):
			depth--
		case t.is("+"):
			joins++
		case t.is("|"):
			filters++
		}
		if depth > maxDepth || depth < 0 {
			return nil, s.fail(t.offset, "unexpected %q; brackets must match, and be nested no deeper than %d", t.text, maxDepth)
		}
		tokens = append(tokens, t)
	}
	switch {
	case joins > maxJoins || filters > maxFilters || len(tokens) > maxTokens:
		return nil, s.fail(offset, "a tag or variable has more than %d \"+\", %d filters or %d words and signs", maxJoins, maxFilters, maxTokens)
	case depth > 0:
		return nil, s.fail(offset, "a bracket is not closed")
	}
	return tokens, nil
}

// called reports whether a bracket behind these tokens would call something.
func (s *scanner) called(tokens []token) bool {
	last := tokens[len(tokens)-1]
	return last.is(")", "]") || last.name() && !(len(tokens) == 1 && last.is("if", "elif"))
}

// call returns the source of a call of one of this package's functions.
func call(function string, args ...string) string {
	return prefix + function + "(" + strings.Join(args, ", ") + ")"
}

// write writes a tag or variable.
func (s *scanner) write(text string) {
	fmt.Fprintf(&s.source, "%s %s %s", s.opening, text, s.closing)
}

// tag reads a tag.
func (s *scanner) tag(name token, args []token) error {
	switch name.text {
	case "comment", "verbatim":
		return s.skip(name)
	case "for":
		return s.forTag(name, args)
	case "set":
		return s.setTag(name, args)
	case "if":
		s.open(name)
		fallthrough
	case "elif":
		if len(args) == 0 {
			return s.fail(name.offset, "%s needs a condition", name.text)
		}
		condition, err := s.condition(args, false)
		s.write(name.text + " " + condition)
		return err
	case "endif", "endfor":
		last := len(s.blocks) - 1
		if !s.blocks[last].tag.is(strings.TrimPrefix(name.text, "end")) {
			return s.fail(name.offset, "unexpected %s", name.text)
		}
		s.blocks = s.blocks[:last]
		fallthrough
	case "else", "empty", "now":
		words, err := s.expression(args)
		s.write(name.text + " " + words)
		return err
	}
	return s.fail(name.offset, "unknown tag %q; expected one of if, for, set, now, comment and verbatim", name.text)
}

// skip goes on behind a comment or verbatim.
func (s *scanner) skip(name token) error {
	end := endOf[name.text].FindStringIndex(s.text[s.pos:])
	if end == nil {
		return s.fail(name.offset, "{%% %s %%} is not closed", name.text)
	}
	text := s.text[s.pos : s.pos+end[0]]
	if name.is("comment") {
		text = strings.Repeat("\n", strings.Count(text, "\n")) // for the lines of pongo2's errors
	}
	fmt.Fprintf(&s.source, "{%% %s %%}%s{%% end%s %%}", name.text, text, name.text)
	s.pos += end[1]
	return nil
}

func (s *scanner) forTag(name token, args []token) error {
	in := slices.IndexFunc(args, func(t token) bool { return t.is("in") })
	if !(in == 1 && args[0].name() || in == 3 && args[0].name() && args[1].is(",") && args[2].name()) {
		return s.fail(name.offset, "for needs the form: for NAME in LIST")
	}
	names, function, order := []string{args[0].text}, "list", ""
	if n := len(args); n > in+2 && args[n-1].is("reversed") && !args[n-2].is(".", "|") {
		order, args = " reversed", args[:n-1]
	}
	if in == 3 { // of an object
		names, function, order = append(names, args[2].text), "value", order+" sorted"
	}
	list, err := s.expression(args[in+1:])
	if err != nil {
		return err
	}
	s.write("for " + strings.Join(names, ", ") + " in " + call(function, list) + order)
	s.opening, s.closing = "{{", strings.Replace(s.closing, "%", "}", 1)
	s.write(call("text", `""`)) // each turn of the loop checks the bounds
	s.open(name, append(names, "forloop")...)
	return nil
}

func (s *scanner) setTag(name token, args []token) error {
	if len(args) < 3 || !args[0].name() || !args[1].is("=") {
		return s.fail(name.offset, "set needs the form: set NAME = VALUE")
	}
	value, err := s.expression(args[2:])
	s.write("set " + args[0].text + " = " + call("value", value))
	scope := len(s.blocks) - 1
	for s.blocks[scope].tag.is("if") { // the name stays behind it
		scope--
	}
	s.blocks[scope].names = append(s.blocks[scope].names, args[0].text)
	return err
}

// open begins a block in which the template gives names.
func (s *scanner) open(tag token, names ...string) {
	s.blocks = append(s.blocks, block{tag, names})
}

// expression returns tokens as pongo2 reads them, and notes what they read.
func (s *scanner) expression(tokens []token) (string, error) {
	var words []string
	loop := false // the path is one of forloop
	for i, t := range tokens {
		word := t.text
		filter, known := filters[word]
		switch member := i > 0 && tokens[i-1].is("."); {
		case t.is(","):
			return "", s.fail(t.offset, `unexpected ","`)
		case t.is("="):
			return "", s.fail(t.offset, `unexpected "="; to compare, write "=="`)
		case i > 0 && t.operand() && tokens[i-1].operand():
			return "", s.fail(t.offset, "unexpected %q behind a value", t.text)
		case i > 0 && tokens[i-1].is("|") && !known:
			return "", s.fail(t.offset, "unknown filter %q%s", word, edits.DidYouMean(word, slices.Sorted(maps.Keys(filters)), ""))
		case i > 0 && tokens[i-1].is("|") && filter != nil:
			word = prefix + word
		case member && loop: // pongo2 has them in capital letters
			word = strings.ToUpper(word[:1]) + word[1:]
		case !member && !t.is("."):
			loop = t.is("forloop")
		}
		words = append(words, word)
	}
	s.paths(tokens)
	return strings.Join(words, " "), nil
}

// paths notes the paths that tokens read, and returns those that have no default.
func (s *scanner) paths(tokens []token) (required []string) {
	for i := 0; i < len(tokens); i++ {
		first := tokens[i]
		if !first.name() || i > 0 && tokens[i-1].is("|", ".") {
			continue
		}
		path := []string{first.text}
		for ; i+2 < len(tokens) && tokens[i+1].is(".") && tokens[i+2].word(); i += 2 {
			path = append(path, tokens[i+2].text)
		}
		name := strings.Join(path, ".")
		s.roots[first.text] = true
		bound := slices.ContainsFunc(s.blocks, func(b block) bool { return slices.Contains(b.names, first.text) })
		if _, ok := s.reads[name]; !ok && !bound {
			line, column := s.position(first.offset)
			s.reads[name] = Variable{path, line, column}
		}
		if !hasDefault(tokens[i+1:]) {
			required = append(required, name)
		}
	}
	return required
}

// hasDefault reports whether the filters that tokens begin with supply a value themselves.
func hasDefault(tokens []token) bool {
	for i := 0; i+1 < len(tokens) && tokens[i].is("|", ":", "."); i += 2 {
		if tokens[i].is("|") && tokens[i+1].is("default", "default_if_none") {
			return true
		}
	}
	return false
}

package prompt

import (
	"slices"
	"strings"
)

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
				return s.fail(tokens[i].offset, "unknown filter %q%s", tokens[i].text, filterHint(tokens[i].text))
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
		if hint := loopHint(p); hint != "" {
			return s.fail(t.offset, "%s", hint)
		}
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

package skill

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// FileError says where a skill is wrong: file, line and column (from 1; 0 where the whole is meant), and what was expected.
type FileError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *FileError) Error() string {
	switch {
	case e.Line == 0:
		return e.File + ": " + e.Message
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

const rule = "---"

// parse reads a SKILL.md of the folder name: what its front matter says, and its text. Errors are [*FileError], without the file.
func parse(name, src string) (Skill, string, error) {
	src = strings.TrimPrefix(src, "\ufeff")
	if !utf8.ValidString(src) {
		return Skill{}, "", &FileError{Line: 1 + strings.Count(src[:invalidAt(src)], "\n"), Message: string(errNoText)}
	}
	front, body, err := split(src)
	if err != nil {
		return Skill{}, "", err
	}
	s, err := read(name, front)
	if err != nil {
		return Skill{}, "", err
	}
	if len(body) > maxText {
		return Skill{}, "", &FileError{Message: fmt.Sprintf("the text has %d bytes; expected at most %d KiB; move the rest to other files of the folder", len(body), maxText>>10)}
	}
	return s, body, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return 0
}

// split cuts a file at the lines that begin and end its front matter.
func split(src string) (front, body string, err error) {
	first, rest, _ := strings.Cut(src, "\n")
	if strings.TrimRight(first, " \t\r") != rule {
		return "", "", &FileError{Line: 1, Message: "expected a line of three dashes (---), then name and description as \"name: …\", and another such line"}
	}
	for at, line := 0, ""; at < len(rest); at += len(line) {
		line = rest[at:]
		if n := strings.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		if strings.TrimRight(line, " \t\r\n") == rule {
			if at > maxFront {
				break
			}
			return rest[:at], strings.TrimSpace(rest[at+len(line):]), nil
		}
	}
	return "", "", &FileError{Line: 1, Message: fmt.Sprintf("the front matter that starts here has no end; expected another line of three dashes (---) within %d KiB", maxFront>>10)}
}

// read reads the front matter of the folder name.
func read(name, front string) (Skill, error) {
	if !isName(name) {
		return Skill{}, &FileError{Message: fmt.Sprintf("the folder's name is %q; expected up to %d lower-case letters, digits and dashes", short(name), maxName)}
	}
	members, err := mapping(front)
	if err != nil {
		return Skill{}, err
	}
	s := Skill{}
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil {
			continue
		}
		var to *string
		key := m.Key.GetToken().Value
		switch key {
		case "name":
			to = &s.Name
		case "description":
			to = &s.Description
		default:
			continue // other programs have other things to say
		}
		text, ok := scalar(m.Value)
		if !ok {
			return Skill{}, at(m, "%s is not text; put the value in quotes", key)
		}
		*to = text
		switch n := utf8.RuneCountInString(text); {
		case key == "name" && text != name:
			return Skill{}, at(m, "the name is %q; expected the folder's name, %q", short(text), name)
		case key == "description" && n > maxDescription:
			return Skill{}, at(m, "the description has %d characters; expected at most %d", n, maxDescription)
		case key == "description" && n == 0:
			return Skill{}, at(m, "the description is empty; describe what the skill is for and when to use it")
		}
	}
	switch {
	case s.Name == "":
		return Skill{}, &FileError{Line: 1, Message: fmt.Sprintf("the front matter has no name; expected \"name: %s\"", name)}
	case s.Description == "":
		return Skill{}, &FileError{Line: 1, Message: "the front matter has no description; describe what the skill is for and when to use it"}
	}
	return s, nil
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// mapping reads the members of the front matter.
func mapping(front string) (members []*ast.MappingValueNode, err error) {
	// The parser is foreign code that reads what people type, and it recurses.
	defer func() {
		if recover() != nil {
			members, err = nil, &FileError{Line: 2, Message: "invalid YAML"}
		}
	}()
	if strings.Count(front, "{")+strings.Count(front, "[") > 100 || strings.Count(front, "- -") > 100 {
		return nil, &FileError{Line: 2, Message: "the front matter has too many brackets or dashes"}
	}
	file, err := parser.ParseBytes([]byte(front), 0)
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		message, _, _ := strings.Cut(ye.GetMessage(), "\n")
		e := &FileError{Line: 2, Message: "invalid YAML: " + short(message)}
		if t := ye.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = max(t.Position.Line, 1)+1, max(t.Position.Column, 1)
		}
		return nil, e
	}
	if err != nil {
		return nil, &FileError{Line: 2, Message: "invalid YAML"}
	}
	for _, doc := range file.Docs {
		switch n := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			return n.Values, nil
		case *ast.MappingValueNode:
			return []*ast.MappingValueNode{n}, nil
		default:
			return nil, &FileError{Line: 2, Message: "expected \"name: …\" and \"description: …\", one per line"}
		}
	}
	return nil, &FileError{Line: 1, Message: "the front matter is empty; expected \"name: …\" and \"description: …\", one per line"}
}

// scalar is the text of a value, on one line and without control characters: it stands in a list.
func scalar(n ast.Node) (string, bool) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		if n.Value == nil {
			return "", false
		}
		text = n.Value.Value
	default:
		return "", false
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " "), true
}

// at is an error at a member's value, or at its name where it has none.
func at(m *ast.MappingValueNode, format string, args ...any) *FileError {
	e := &FileError{Line: 2, Message: fmt.Sprintf(format, args...)}
	t := m.Key.GetToken()
	if m.Value != nil && m.Value.GetToken() != nil && m.Value.GetToken().Position != nil {
		t = m.Value.GetToken()
	}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line+1, t.Position.Column
	}
	return e
}

package skill

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/yaml"
)

// FileError is a problem of a skill, or of a place of skills: File, Line and Column (from 1; 0 where the whole is meant), the Path of the
// value it is about, and a Message that says what was expected.
type FileError = yaml.Error

const rule = "---"

// parse reads a SKILL.md of the folder name: what its front matter says, and its text. Errors are [*FileError], without the file.
func parse(name, src string) (Skill, string, error) {
	src = strings.TrimPrefix(src, "\ufeff")
	if line := yaml.NotUTF8(src); line > 0 {
		return Skill{}, "", &FileError{Line: line, Message: errNoText.Error()}
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

// split cuts a file at the lines that begin and end its front matter.
func split(src string) (front, body string, err error) {
	isRule := func(line string) bool { return strings.TrimRight(line, " \t\r\n") == rule }
	lines := strings.SplitAfter(src, "\n")
	if !isRule(lines[0]) {
		return "", "", &FileError{Line: 1, Message: "expected a line of three dashes (---), then name and description as \"name: …\", and another such line"}
	}
	end := slices.IndexFunc(lines[1:], isRule) + 1
	if front = strings.Join(lines[1:max(1, end)], ""); end == 0 || len(front) > maxFront {
		return "", "", &FileError{Line: 1, Message: fmt.Sprintf("the front matter that starts here has no end; expected another line of three dashes (---) within %d KiB", maxFront>>10)}
	}
	return front, strings.TrimSpace(strings.Join(lines[end+1:], "")), nil
}

// read reads the front matter of the folder name.
func read(name, front string) (Skill, error) {
	if !isName(name) {
		return Skill{}, &FileError{Message: fmt.Sprintf("the folder's name is %q; expected up to %d lower-case letters, digits and dashes", short(name), maxName)}
	}
	r := &yaml.Reader{Aliases: true} // as other programs read it
	root := r.Parse("\n" + front)    // the lines of the file, whose first is the rule
	switch {
	case root == nil:
		return Skill{}, r.Problems()[0]
	case root.Kind != yaml.Mapping && root.Kind != yaml.Null:
		r.Errorf(root, "", "expected \"name: …\" and \"description: …\", one per line")
		return Skill{}, r.Problems()[0]
	}
	// Other programs have other members, so unknown ones are fine.
	text := func(key string) string {
		n := root.Get(key)
		if n == nil {
			return ""
		}
		text, ok := oneLine(n)
		switch chars := utf8.RuneCountInString(text); {
		case !ok:
			r.Errorf(n, "", "%s is not text; put the value in quotes", key)
		case key == "name" && text != name:
			r.Errorf(n, "", "the name is %q; expected the folder's name, %q", short(text), name)
		case key == "description" && chars > maxDescription:
			r.Errorf(n, "", "the description has %d characters; expected at most %d", chars, maxDescription)
		case key == "description" && chars == 0:
			r.Errorf(n, "", "the description is empty; describe what the skill is for and when to use it")
		}
		return text
	}
	s := Skill{Name: text("name"), Description: text("description")}
	switch {
	case r.NumProblems() > 0:
		return Skill{}, r.Problems()[0]
	case s.Name == "":
		return Skill{}, &FileError{Line: 1, Message: fmt.Sprintf("the front matter has no name; expected \"name: %s\"", name)}
	case s.Description == "":
		return Skill{}, &FileError{Line: 1, Message: "the front matter has no description; describe what the skill is for and when to use it"}
	}
	return s, nil
}

// isName reports whether a text may be the name of a skill.
var isName = regexp.MustCompile(fmt.Sprintf("^[a-z0-9-]{1,%d}$", maxName)).MatchString

// oneLine returns a text on one line and without control characters, for a list.
func oneLine(n *yaml.Node) (string, bool) {
	words := strings.FieldsFunc(n.Text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return strings.Join(words, " "), n.Kind == yaml.Text
}

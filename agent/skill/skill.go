// Package skill finds the skills of an agent: folders with instructions that a model reads when it needs them.
//
// A skill is a folder with a file SKILL.md. That begins with a front matter in YAML, which names the skill as its folder and
// describes it; what follows is the text. The prompt lists names and descriptions, a tool loads the text and what else lies in
// the folder:
//
//	---
//	name: pdf-forms
//	description: How to fill in forms that are PDF files. Use it for files with fields.
//	---
//	Read [the list of fields](fields.md) first …
//
// # Guarantees
//   - Skills are text. Nothing of one is run or rendered.
//   - No path and no link leads out of a skill's folder, nor out of the place where skills are looked for.
//   - A bad skill is left out with a warning that says where it is wrong; it hides no good one, and is no error of a turn.
//   - What is read is bounded, and what has changed is read again.
package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/wording"
)

// Bounds.
const (
	maxSkills      = 256      // of one place
	maxFront       = 8 << 10  // bytes of a front matter
	maxText        = 64 << 10 // bytes of a skill's text
	maxFile        = 8 << 20  // bytes of another file
	maxName        = 64       // characters
	maxDescription = 1024
	maxFiles       = 100      // that are listed of a folder
	maxDepth       = 5        // of these
	maxPrompt      = 16 << 10 // bytes of the list in a prompt
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// Skill is the entry of a skill in a prompt.
type Skill struct {
	Name        string
	Description string // one line
}

// Library is the skills in some places. It is safe for concurrent use, and holds no open file. Skills are read at each use.
type Library struct {
	*shelf
	only []string // nil is all
}

// shelf is what a library shares with those that [Library.Only] makes of it.
type shelf struct {
	places []Place
	log    *slog.Logger

	mu     sync.Mutex
	warned map[string]bool // the problems that the log has
}

// found is a skill, its text and its location.
type found struct {
	Skill
	text  string
	place Place
}

// New returns the skills of these places. One in an earlier place hides one of the same name in a later one. log gets the
// warnings, each once while it holds; nil is none.
func New(log *slog.Logger, places ...Place) *Library {
	return &Library{shelf: &shelf{places: places, log: cmp.Or(log, slog.New(slog.DiscardHandler)), warned: map[string]bool{}}}
}

// Only returns a library with no other skills than these, whether they exist yet or not.
func (l *Library) Only(names ...string) *Library {
	return &Library{shelf: l.shelf, only: append([]string{}, names...)}
}

// List reads the skills, by name. The list is the caller's.
func (l *Library) List() []Skill {
	skills, _ := l.read()
	list := make([]Skill, len(skills))
	for i, s := range skills {
		list[i] = s.Skill
	}
	return list
}

// Problems reads the skills, and returns an error for each that is left out, mostly a [*FileError].
func (l *Library) Problems() []error {
	_, problems := l.read()
	return problems
}

// Prompt is the list for a prompt, a line each; "" without skills. It is at most 16 KiB: beyond that, names alone.
func Prompt(list []Skill) string {
	var b strings.Builder
	for i, s := range list {
		line := "- " + s.Name + ": " + s.Description + "\n"
		if b.Len()+len(line) > maxPrompt-maxPrompt/4 { // what is left is for names
			var names []string
			for _, s := range list[i:] {
				names = append(names, s.Name)
			}
			b.WriteString(wording.ClipTo("- more skills, not described here: "+strings.Join(names, " "), maxPrompt/4))
			break
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Text is a skill's text, as a model gets it.
type Text struct {
	Content string   `json:"text"`
	Files   []string `json:"files,omitempty"` // the others of the skill's folder, as [Library.Read] takes them: the first hundred
}

// Load returns the text of a skill, which is what follows the front matter, and lists what else its folder has. Errors are
// in words for a model.
func (l *Library) Load(name string) (Text, error) {
	s, folder, err := l.open(name)
	if err != nil {
		return Text{}, err
	}
	defer folder.Close()
	return Text{Content: s.text, Files: others(folder)}, nil
}

// Read returns a file of a skill's folder. It must be text in UTF-8, at most 8 MiB. Errors are in words for a model.
func (l *Library) Read(name, file string) (string, error) {
	_, folder, err := l.open(name)
	if err != nil {
		return "", err
	}
	defer folder.Close()
	clean := path.Clean(file)
	if !fs.ValidPath(clean) || clean == "." || strings.ContainsAny(file, "\\\x00") {
		return "", fmt.Errorf("%q is not a path inside the skill's folder; expected one such as %q", short(file), "references/fields.md")
	}
	text, err := readFile(folder, clean, maxFile)
	if err == nil && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
		err = errNoText
	}
	if err != nil {
		what := "cannot be read: " + reason(err)
		if errors.Is(err, fs.ErrNotExist) {
			what = "does not exist"
			if files := others(folder); len(files) > 0 {
				what += "; expected one of " + strings.Join(files[:min(len(files), 20)], ", ")
			}
		}
		return "", fmt.Errorf("the file %q of the skill %q %s", short(file), name, what)
	}
	return text, nil
}

// open finds a skill and opens its folder, which the caller closes.
func (l *Library) open(name string) (found, *os.Root, error) {
	skills, _ := l.read()
	if i := slices.IndexFunc(skills, func(s found) bool { return s.Name == name }); i >= 0 {
		folder, err := skills[i].place.open(name)
		if err != nil { // it has changed since it was found
			return found{}, nil, fmt.Errorf("cannot read the skill %q", name)
		}
		return skills[i], folder, nil
	}
	message := fmt.Sprintf("unknown skill %q", short(name))
	var names []string
	for _, s := range skills[:min(len(skills), 20)] {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		message += "; expected one of " + strings.Join(names, ", ")
	}
	return found{}, nil, errors.New(message)
}

// read reads the skills of all places, and logs new problems.
func (l *Library) read() (skills []found, problems []error) {
	byName := map[string]found{}
	for _, place := range l.places {
		list, broken := place.read()
		problems = append(problems, broken...)
		for _, s := range list {
			if _, hidden := byName[s.Name]; !hidden && (l.only == nil || slices.Contains(l.only, s.Name)) {
				byName[s.Name] = s
			}
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	l.warn(problems)
	return slices.SortedFunc(maps.Values(byName), func(a, b found) int { return strings.Compare(a.Name, b.Name) }), problems
}

// warn logs the problems that were not there at the last call.
func (l *shelf) warn(problems []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	warned := map[string]bool{}
	for _, p := range problems {
		text := p.Error()
		if warned[text] = true; !l.warned[text] {
			l.log.Warn("skill left out", slog.String("problem", text))
		}
	}
	l.warned = warned
}

// short shortens what others wrote, for a message.
func short(s string) string {
	return wording.ClipChars(strings.ToValidUTF8(s, "\uFFFD"), maxName)
}

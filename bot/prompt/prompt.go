// Package prompt renders the operator's templates: Django-style, as pongo2 reads them, without its dangers. Templates cannot
// read files, call methods, run without end or bring the server down; nothing is escaped for HTML.
package prompt

// Template is a checked template. It is safe for concurrent use.
type Template struct{}

// Parse checks the text of a template; name stands in its errors, which are *[Error].
func Parse(name, text string) (*Template, error) { panic("prompt: not built yet") }

// Render renders the template with vars. Values may be strings, numbers, bools, nil, maps and slices of such, and
// json.RawMessage; anything else is an error. A variable that is not supplied is an error.
func (t *Template) Render(vars map[string]any) (string, error) { panic("prompt: not built yet") }

// Variables lists the paths that the template reads, as "input.question", sorted.
func (t *Template) Variables() []string { panic("prompt: not built yet") }

// Error says where a template is wrong.
type Error struct {
	Template     string
	Line, Column int // from 1; 0 when not known
	Message      string
}

func (e *Error) Error() string { panic("prompt: not built yet") }

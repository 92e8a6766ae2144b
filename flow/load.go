package flow

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/yaml"
)

// maxPrompts bounds all templates of a file together, in bytes. Aliases could make many of one.
const maxPrompts = 1 << 20

// FileReader reads the files that a workflow names; the FS of an *os.Root is one.
type FileReader interface {
	ReadFile(name string) ([]byte, error)
}

// ParseSpec reads a workflow from YAML or JSON text; file names it in errors, and the workflow itself where it has no name.
// dir resolves `file:` references; where it is nil, as for a workflow in a request, there can be none, and no extra_body. providers are
// those that models can be of; without any, that is not checked. All problems found are joined; each is a *[FileError].
func ParseSpec(file string, text []byte, dir FileReader, providers ...string) (Workflow, error) {
	l := &loader{Reader: yaml.Reader{File: file, Aliases: true}, dir: dir, providers: providers}
	var s *spec
	if root := l.Parse(string(text)); root != nil {
		s = l.workflow(root)
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// loader reads one workflow and collects what is wrong with it.
type loader struct {
	yaml.Reader
	dir       FileReader
	providers []string // of models; none if they are not known
	source    int      // bytes of templates so far
	unclear   bool     // what bots write is not known, so what they start is not either
}

// fields are the members of a mapping by name.
type fields = map[string]*yaml.Node

var (
	workflowFields = []string{"name", "description", "model", "options", "input", "bots", "events", "filter", "limits", "resume"}
	botFields      = []string{"on", "when", "model", "options", "prompt", "history", "message", "root", "format", "schema", "on_invalid", "quiet", "concurrency", "max", "filter"}
)

func (l *loader) workflow(n *yaml.Node) *spec {
	if n.Kind == yaml.Null {
		l.Errorf(n, "", "the file is empty; expected a workflow with name and bots")
		return nil
	}
	if n.Kind != yaml.Mapping {
		l.Errorf(n, "", "expected a workflow (a mapping with %s), got %s", list(workflowFields), n.Kind)
		return nil
	}
	f := l.Fields(n, "", workflowFields...)
	s := &spec{}
	l.name(s, f["name"])
	s.info.Description, _ = l.Text(f["description"], "description")
	s.model = l.model(f["model"])
	s.info.Model = s.model
	s.info.Resume = f["resume"] == nil || l.Bool(f["resume"], "resume")
	s.options = l.options(f["options"])
	s.filter = l.filter(f["filter"])
	s.limits = l.limits(f["limits"])
	s.info.Input, s.input = l.input(f["input"])

	// Triggers and roots come first: what templates may name depends on them.
	parts := l.bots(s, n, f["bots"])
	parts = append(parts, l.events(s, f["events"])...)
	l.link(s)
	l.checkFilters(s)
	roots := s.firstSegments()
	for i, st := range s.steps {
		f := parts[i]
		sc := &scope{s.input, st.on, false, st.unread, roots}
		st.when = l.condition(f["when"], sc)
		if i < len(s.bots) {
			l.templates(s.bots[i], f, sc)
		} else if send := f["send"]; send != nil && send.Get("data") != nil {
			s.event(i).data = l.value(send.Get("data"), sc)
		}
	}
	s.info.Graph = s.graph()
	return s
}

func (l *loader) name(s *spec, n *yaml.Node) {
	if n == nil {
		base := path.Base(l.File)
		s.info.Name = strings.TrimSuffix(base, path.Ext(base))
		if !validName(s.info.Name) {
			l.Errorf(&yaml.Node{Line: 1, Column: 1}, "", "the workflow needs a name; expected %s", nameRule)
		}
		return
	}
	if t, ok := l.Text(n, "name"); ok {
		if s.info.Name = t; !validName(t) {
			l.Errorf(n, "", "%q is not a valid name; expected %s", short(t), nameRule)
		}
	}
}

// model reads "provider:model", or a list of such, which is a chain: the next is asked when one fails.
func (l *loader) model(n *yaml.Node) string {
	var names []string
	l.Texts(n, "model", func(n *yaml.Node, t string) {
		provider, name, ok := strings.Cut(t, ":")
		if !ok || !validName(provider) || name == "" || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }) {
			l.Errorf(n, "model", "expected PROVIDER:MODEL, such as openai:gpt-4o-mini, or a list of models; got %q", short(t))
			return
		}
		if problem := notOneOf("unknown provider", provider, l.providers); problem != "" && len(l.providers) > 0 {
			l.Errorf(n, "model", "%s", problem)
			return
		}
		names = append(names, t)
	})
	if n != nil && n.Kind == yaml.List && len(n.Items) == 0 {
		l.Errorf(n, "model", "the list is empty; expected at least one PROVIDER:MODEL")
	}
	return strings.Join(names, ",")
}

// options reads what is asked of the models. A workflow of a request, which has no folder, is not trusted.
func (l *loader) options(n *yaml.Node) adapter.Options {
	if n == nil {
		return adapter.Options{}
	}
	o, misfits := adapter.ReadOptions(n.AppendJSON(nil), l.dir != nil)
	for _, m := range misfits {
		at := n.Find(m.At)
		if m.Name {
			at = n.FindKey(m.At)
		}
		l.Errorf(at, yaml.Path(append([]string{"options"}, m.At...)...), "%s", m.Detail)
	}
	return o
}

// plainError is the text of an error of another package, without that package's name.
func plainError(err error) string {
	text := err.Error()
	for _, p := range []string{"jsonuri: ", "prompt: ", "bot: ", "ling: "} {
		text = strings.TrimPrefix(text, p)
	}
	return yaml.FirstLine(text)
}

func (l *loader) limits(n *yaml.Node) limits {
	out := limits{bots: defaultMax}
	if n == nil {
		return out
	}
	f := l.Fields(n, "limits", "bots", "time")
	if i, ok := l.Int(f["bots"], "bots", 1, largestMax); ok {
		out.bots = i
	}
	out.time, _ = l.Duration(f["time"], "time", time.Second, 24*time.Hour)
	return out
}

func (l *loader) input(n *yaml.Node) (json.RawMessage, *inputSchema) {
	raw := anyObject
	if n != nil {
		raw = n.AppendJSON(nil)
	}
	s := &inputSchema{open: true} // nothing is known of it
	l.checkSchema(n, "input", raw, func(text json.RawMessage) error {
		compiled, err := compileInput(text)
		if err == nil {
			s = compiled
		}
		return err
	})
	return raw, s
}

// checkSchema reports what is wrong with a JSON Schema: mistyped words, or if there are none, what check finds. With mistyped words, that
// follows from them.
func (l *loader) checkSchema(n *yaml.Node, what string, text json.RawMessage, check func(text json.RawMessage) error) {
	mistyped := schema.CheckKeywords(text)
	for _, e := range mistyped {
		l.Errorf(n.FindKey(e.At), what, "%s", e.Message)
	}
	if len(mistyped) > 0 {
		return
	}
	err := check(text)
	if e, ok := errors.AsType[*schema.Error](err); ok {
		l.Errorf(n.Find(e.At), what, "%s", e.Message)
	} else if err != nil {
		l.Errorf(n, what, "%s", err)
	}
}

// conditionForm is how a condition is written.
const conditionForm = `write a condition without braces and on one line, such as: input.level == "expert"`

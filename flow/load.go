package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/tube"
)

// Bounds of templates, in bytes: of one, and of all in a file together. Aliases could make many of one.
const (
	maxPrompt  = 64 << 10
	maxPrompts = 1 << 20
)

// FileReader reads the files that a workflow names; the FS of an *os.Root is one.
type FileReader interface {
	ReadFile(name string) ([]byte, error)
}

// ParseSpec reads a workflow from YAML or JSON text; file names it in errors, and the workflow itself where it has no name.
// dir resolves `file:` references; where it is nil, as for a workflow in a request, there can be none, and no extra_body. providers are
// those that models can be of; without any, that is not checked. All problems found are joined; each is a *[FileError].
func ParseSpec(file string, text []byte, dir FileReader, providers ...string) (Workflow, error) {
	// One kind of line end, so that the parser and the places of problems count the same lines.
	source := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	l := &loader{file: file, dir: dir, providers: providers, lines: strings.Split(source, "\n")}
	root, err := parseYAML(source)
	if err != nil {
		e, ok := errors.AsType[*syntaxError](err)
		if !ok {
			e = &syntaxError{1, 1, err.Error()}
		}
		return nil, join([]*FileError{{file, e.line, e.col, e.message}})
	}
	s := l.workflow(root)
	if err := join(l.problems); err != nil {
		return nil, err
	}
	return s, nil
}

// loader reads one workflow and collects what is wrong with it.
type loader struct {
	file      string
	lines     []string
	dir       FileReader
	providers []string // that there are; none where that is not known
	problems  []*FileError
	source    int  // bytes of templates so far
	unclear   bool // what bots write is not known, so what they start is not either
}

func (l *loader) errorf(n *node, format string, args ...any) {
	l.problems = append(l.problems, &FileError{l.file, n.line, n.col, fmt.Sprintf(format, args...)})
}

// fields are the members of a mapping by name.
type fields map[string]*node

// fields reads a mapping that may have the known members, in the order in which they are suggested.
func (l *loader) fields(n *node, what string, known ...string) fields {
	f := fields{}
	if n.kind != mapping {
		l.errorf(n, "%s: expected a mapping with %s, got %s", what, list(known), n.kind)
		return f
	}
	for i, k := range n.keys {
		found := false
		for _, name := range known {
			found = found || name == k.text
		}
		if !found {
			meant := suggest(k.text, known)
			if f := otherNames[k.text]; meant == "" && slices.Contains(known, f.field) {
				meant = fmt.Sprintf(", did you mean %q, such as %s?", f.field, f.example)
			}
			l.errorf(k, "unknown field %q%s expected %s", k.text, sentence(meant), list(known))
			continue
		}
		f[k.text] = n.items[i]
	}
	return f
}

// text reads a text that is not empty.
func (l *loader) text(n *node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.kind == text {
		return n.text, true
	}
	if col, hint := unquoted(l.lines, n.line); hint != "" && n.kind == mapping {
		l.problems = append(l.problems, &FileError{l.file, n.line, col, what + ": " + hint})
	} else {
		l.errorf(n, "%s: expected text, got %s", what, n.kind)
	}
	return "", false
}

func (l *loader) texts(n *node, what string, each func(n *node, text string)) {
	if n == nil {
		return
	}
	if n.kind != sequence {
		if t, ok := l.text(n, what); ok {
			each(n, t)
		}
		return
	}
	for _, item := range n.items {
		if t, ok := l.text(item, what); ok {
			each(item, t)
		}
	}
}

func (l *loader) integer(n *node, what string, least, most int) (int, bool) {
	if n == nil {
		return 0, false
	}
	i, err := strconv.Atoi(n.json)
	if n.kind != number || err != nil {
		got := n.kind.String()
		if n.kind == number {
			got = n.text
		}
		l.errorf(n, "%s: expected a whole number, got %s", what, got)
		return 0, false
	}
	if i < least || i > most {
		l.errorf(n, "%s: expected %d to %d, got %d", what, least, most, i)
		return 0, false
	}
	return i, true
}

func (l *loader) boolean(n *node, what string) bool {
	if n == nil {
		return false
	}
	if n.kind != boolean {
		l.errorf(n, "%s: expected true or false, got %s", what, n.kind)
	}
	return n.json == "true"
}

// otherNames are what other programs call the fields.
var otherNames = func() map[string]struct{ field, example string } {
	type field = struct{ field, example string }
	on, when, message := field{"on", "on: {done: plan}"}, field{"when", `when: input.level == "expert"`}, field{"message", `message: "{{ input.question }}"`}
	return map[string]field{
		"after": on, "needs": on, "depends_on": on, "dependsOn": on, "depends": on, "requires": on, "trigger": on, "triggers": on, "wait_for": on,
		"if": when, "condition": when, "user": message, "question": message, "content": message,
		"system": {"prompt", "prompt: Answer briefly."}, "instructions": {"prompt", "prompt: Answer briefly."},
		"output": {"root", "root: article"}, "path": {"root", "root: article"}, "uri": {"root", "root: article"},
		"steps": {"bots", "bots: {plan: {}}"}, "nodes": {"bots", "bots: {plan: {}}"}, "agents": {"bots", "bots: {plan: {}}"}, "tasks": {"bots", "bots: {plan: {}}"},
		"inputs": {"input", "input: {type: object}"}, "failed": {"error", "{error: plan}"}, "fail": {"error", "{error: plan}"},
		"success": {"completed", "{completed: plan}"}, "succeeded": {"completed", "{completed: plan}"}, "finished": {"done", "{done: plan}"}, "ended": {"done", "{done: plan}"},
	}
}()

var (
	workflowFields = []string{"name", "description", "model", "options", "input", "bots", "events", "filter", "limits", "restart"}
	botFields      = []string{"on", "when", "model", "options", "prompt", "history", "message", "root", "format", "schema", "on_invalid", "quiet", "concurrency", "max", "filter"}
)

func (l *loader) workflow(n *node) *spec {
	if n.kind != mapping {
		l.errorf(n, "expected a workflow (a mapping with %s), got %s", list(workflowFields), n.kind)
		return nil
	}
	f := l.fields(n, "the workflow", workflowFields...)
	s := &spec{file: l.file}
	l.name(s, f["name"])
	s.info.Description, _ = l.text(f["description"], "description")
	s.model = l.model(f["model"])
	s.info.Model = s.model
	s.info.Restart = l.boolean(f["restart"], "restart")
	s.options, s.optionsAt = l.options(f["options"]), f["options"]
	s.filter = l.filter(f["filter"])
	s.limits = l.limits(f["limits"])
	s.info.Input, s.input = l.input(f["input"])

	// Triggers and roots come first: what templates may name depends on them.
	parts := l.bots(s, n, f["bots"])
	events := l.events(s, f["events"])
	l.link(s)
	roots := s.firstSegments()
	for i, b := range s.bots {
		l.templates(b, parts[i], &scope{s.input, b.on, false, b.unread, roots})
	}
	for i, e := range s.events {
		sc := &scope{s.input, e.on, false, e.unread, roots}
		e.when = l.condition(events[i]["when"], sc)
		if send := events[i]["send"]; send != nil && send.kind == mapping {
			if data := send.get("data"); data != nil {
				e.data = l.value(data, sc)
			}
		}
	}
	s.info.Graph = s.graph()
	return s
}

func (l *loader) name(s *spec, n *node) {
	if n == nil {
		base := path.Base(l.file)
		s.info.Name = strings.TrimSuffix(base, path.Ext(base))
		if !validName(s.info.Name) {
			l.errorf(&node{line: 1, col: 1}, "the workflow needs a name; expected %s", nameRule)
		}
		return
	}
	if t, ok := l.text(n, "name"); ok {
		if s.info.Name = t; !validName(t) {
			l.errorf(n, "%q is not a valid name; expected %s", short(t), nameRule)
		}
	}
}

// model reads "provider:model", or a list of such, which is a chain: the next is asked when one fails.
func (l *loader) model(n *node) string {
	var names []string
	l.texts(n, "model", func(n *node, t string) {
		provider, name, ok := strings.Cut(t, ":")
		if !ok || !validName(provider) || name == "" || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }) {
			l.errorf(n, "model: expected PROVIDER:MODEL, such as openai:gpt-4o-mini, or a list of models; got %q", short(t))
			return
		}
		if len(l.providers) > 0 && !slices.Contains(l.providers, provider) {
			l.errorf(n, "model: unknown provider %q%s expected one of %s", provider, sentence(suggest(provider, l.providers)), list(l.providers))
			return
		}
		names = append(names, t)
	})
	if n != nil && n.kind == sequence && len(n.items) == 0 {
		l.errorf(n, "model: the list is empty; expected at least one PROVIDER:MODEL")
	}
	return strings.Join(names, ",")
}

// options reads what is asked of the models. A workflow of a request, which has no folder, is not trusted.
func (l *loader) options(n *node) adapter.Options {
	if n == nil {
		return adapter.Options{}
	}
	o, misfits := adapter.ReadOptions(n.appendJSON(nil), l.dir != nil)
	for _, m := range misfits {
		at := n.find(m.At)
		if last := len(m.At) - 1; m.Name {
			of := n.find(m.At[:last])
			at = of.keys[slices.IndexFunc(of.keys, func(k *node) bool { return k.text == m.At[last] })]
		}
		l.errorf(at, "%s: %s", strings.Join(append([]string{"options"}, m.At...), "."), m.Detail)
	}
	return o
}

func (l *loader) filter(n *node) *filter {
	if n == nil {
		return nil
	}
	f := l.fields(n, "filter", "exclude", "include")
	matchers := func(what string) (out []tube.Matcher) {
		l.texts(f[what], what, func(n *node, t string) {
			p, err := compilePattern(t)
			if err == nil && t != "**" && !strings.HasSuffix(t, "/**") {
				// A pattern stands for what it matches and all that is below.
				p, err = compilePattern(strings.TrimPrefix(t+"/**", "/"))
			}
			if err != nil {
				l.errorf(n, "%s: %s", what, plainError(err))
				return
			}
			out = append(out, p)
		})
		return out
	}
	return &filter{matchers("exclude"), matchers("include")}
}

// plainError is the text of an error of another package, without that package's name.
func plainError(err error) string {
	text := err.Error()
	for _, p := range []string{"jsonuri: ", "prompt: ", "bot: ", "ling: "} {
		text = strings.TrimPrefix(text, p)
	}
	return firstLine(text)
}

func (l *loader) limits(n *node) limits {
	out := limits{bots: defaultMax}
	if n == nil {
		return out
	}
	f := l.fields(n, "limits", "bots", "time")
	if i, ok := l.integer(f["bots"], "bots", 1, largestMax); ok {
		out.bots = i
	}
	if t, ok := l.text(f["time"], "time"); ok {
		d, err := time.ParseDuration(t)
		if err != nil || d < time.Second || d > 24*time.Hour {
			l.errorf(f["time"], "time: expected a duration from 1s to 24h, such as 90s or 5m, got %q", short(t))
		} else {
			out.time = d
		}
	}
	return out
}

func (l *loader) input(n *node) (json.RawMessage, *inputSchema) {
	if n == nil {
		n = &node{kind: mapping, keys: []*node{{kind: text, text: "type"}}, items: []*node{{kind: text, text: "object"}}}
	}
	raw := n.appendJSON(nil)
	s, err := compileInput(raw)
	if err != nil {
		l.schemaError(n, "input", err)
		return raw, &inputSchema{open: true}
	}
	return raw, s
}

func (l *loader) schemaError(n *node, what string, err error) {
	if e, ok := errors.AsType[*schema.Error](err); ok {
		l.errorf(n.find(e.At), "%s: %s", what, e.Message)
		return
	}
	l.errorf(n, "%s: %s", what, err)
}

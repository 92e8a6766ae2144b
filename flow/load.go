package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// maxPrompt bounds a template, in bytes.
const maxPrompt = 64 << 10

// FileReader reads the files that a workflow names; the FS of an *os.Root is one.
type FileReader interface {
	ReadFile(name string) ([]byte, error)
}

// ParseSpec reads a workflow from YAML or JSON text; file names it in errors, and the workflow itself where it has no name.
// dir resolves `file:` references; where it is nil, as for a workflow in a request, there can be none. All problems found
// are joined; each is a *[FileError].
func ParseSpec(file string, text []byte, dir FileReader) (Workflow, error) {
	// One kind of line end, so that the parser and the places of problems count the same lines.
	source := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	l := &loader{file: file, dir: dir, lines: strings.Split(source, "\n")}
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
	file     string
	lines    []string
	dir      FileReader
	problems []*FileError
	unclear  bool // what bots write is not known, so what they start is not either
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
			l.errorf(k, "unknown field %q%s expected %s", k.text, sentence(suggest(k.text, known)), list(known))
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
	if n.kind != text {
		l.errorf(n, "%s: expected text, got %s", what, n.kind)
		return "", false
	}
	return n.text, true
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

func (l *loader) number(n *node, what string, least, most float64) *float64 {
	if n == nil {
		return nil
	}
	f, err := strconv.ParseFloat(n.json, 64)
	if n.kind != number || err != nil {
		l.errorf(n, "%s: expected a number, got %s", what, n.kind)
		return nil
	}
	if f < least || f > most {
		l.errorf(n, "%s: expected %g to %g, got %s", what, least, most, n.text)
		return nil
	}
	return &f
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

var (
	workflowFields = []string{"name", "description", "model", "options", "input", "bots", "events", "filter", "limits"}
	botFields      = []string{"on", "when", "model", "options", "prompt", "history", "message", "root", "format", "schema", "quiet", "concurrency", "max", "filter"}
	optionFields   = []string{"temperature", "top_p", "max_tokens", "stop", "seed"}
)

func (l *loader) workflow(n *node) *spec {
	if n.kind != mapping {
		l.errorf(n, "expected a workflow (a mapping with %s), got %s", list(workflowFields), n.kind)
		return nil
	}
	f := l.fields(n, "the workflow", workflowFields...)
	s := &spec{}
	l.name(s, f["name"])
	s.info.Description, _ = l.text(f["description"], "description")
	s.model = l.model(f["model"])
	s.info.Model = s.model
	s.options = l.options(f["options"])
	s.filter = l.filter(f["filter"])
	s.limits = l.limits(f["limits"])
	s.info.Input, s.input = l.input(f["input"])

	// Triggers and roots come first: what templates may name depends on them.
	parts := l.bots(s, n, f["bots"])
	events := l.events(s, f["events"])
	l.link(s)
	roots := s.firstSegments()
	for i, b := range s.bots {
		l.templates(b, parts[i], &scope{s.input, b.on, b.refused && b.on == nil, roots})
	}
	for i, e := range s.events {
		sc := &scope{s.input, e.on, e.on == nil, roots}
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
			l.errorf(&node{line: 1, col: 1}, "the workflow needs a name: %s", nameRule)
		}
		return
	}
	if t, ok := l.text(n, "name"); ok {
		if s.info.Name = t; !validName(t) {
			l.errorf(n, "%q is no name: expected %s", short(t), nameRule)
		}
	}
}

// model reads "provider:model", or a list of such, which is a chain: the next is asked when one fails.
func (l *loader) model(n *node) string {
	var names []string
	l.texts(n, "model", func(n *node, t string) {
		provider, name, ok := strings.Cut(t, ":")
		if !ok || !validName(provider) || name == "" || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }) {
			l.errorf(n, "model: expected provider:model, as in openai:gpt-4o-mini, or a list of such; got %q", short(t))
			return
		}
		names = append(names, t)
	})
	if n != nil && n.kind == sequence && len(n.items) == 0 {
		l.errorf(n, "model: the list is empty; expected at least one provider:model")
	}
	return strings.Join(names, ",")
}

func (l *loader) options(n *node) (o options) {
	if n == nil {
		return o
	}
	f := l.fields(n, "options", optionFields...)
	o.temperature = l.number(f["temperature"], "temperature", 0, 2)
	o.topP = l.number(f["top_p"], "top_p", 0, 1)
	if i, ok := l.integer(f["max_tokens"], "max_tokens", 1, math.MaxInt32); ok {
		o.maxTokens = &i
	}
	if i, ok := l.integer(f["seed"], "seed", math.MinInt32, math.MaxInt32); ok {
		o.seed = &i
	}
	l.texts(f["stop"], "stop", func(n *node, t string) {
		if t == "" {
			l.errorf(n, "stop: expected some text, got none")
			return
		}
		o.stop = append(o.stop, t)
	})
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
			l.errorf(f["time"], "time: expected a duration from 1s to 24h, as 90s or 5m, got %q", short(t))
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
	if e, ok := errors.AsType[*schemaError](err); ok {
		l.errorf(n.find(e.at), "%s: %s", what, e.message)
		return
	}
	l.errorf(n, "%s: %s", what, err)
}

// bots reads what of the bots is not a template and returns the members of each.
func (l *loader) bots(s *spec, root, n *node) []fields {
	switch {
	case n == nil:
		l.errorf(root, "the workflow has no bots: expected bots: with at least one")
		return nil
	case n.kind != mapping:
		l.errorf(n, "bots: expected a mapping from names to bots, got %s", n.kind)
		return nil
	case len(n.items) == 0:
		l.errorf(n, "bots: expected at least one")
	case len(n.items) > maxBotSpecs:
		l.errorf(n, "bots: expected at most %d, got %d", maxBotSpecs, len(n.items))
		return nil
	}
	var parts []fields
	for i, key := range n.keys {
		f := fields{}
		// A bot without members is one that only sends the input to the model.
		if item := n.items[i]; item.kind != null {
			f = l.fields(item, "bot "+key.text, botFields...)
		}
		b := &botSpec{name: key.text, at: key, format: bot.JSON, max: defaultMax}
		if !validName(b.name) {
			l.errorf(key, "%q is no name for a bot: expected %s", short(b.name), nameRule)
		}
		b.model = l.model(f["model"])
		b.options = l.options(f["options"])
		b.quiet = l.boolean(f["quiet"], "quiet")
		b.filter = l.filter(f["filter"])
		if t, ok := l.text(f["format"], "format"); ok {
			if b.format = bot.Format(t); b.format != bot.JSON && b.format != bot.Text {
				l.errorf(f["format"], "format: expected json or text, got %q", short(t))
				b.format, l.unclear = bot.JSON, true
			}
		}
		if n := f["schema"]; n != nil {
			b.output = n.appendJSON(nil)
			if _, _, err := compileSchema(b.output); err != nil {
				l.schemaError(n, "schema", err)
			}
			if b.format == bot.Text {
				l.errorf(n, "schema: a bot with format: text has none; leave one of the two out")
			}
		}
		if i, ok := l.integer(f["concurrency"], "concurrency", 1, largestMax); ok {
			b.concurrency = i
		}
		if i, ok := l.integer(f["max"], "max", 1, largestMax); ok {
			b.max, b.bounded = i, true
		}
		b.conditional = f["when"] != nil
		b.bounded = b.bounded || b.conditional
		if on := f["on"]; on != nil {
			b.on = l.trigger(on)
			b.refused = b.on == nil
		}
		b.rootAt = key
		if t, ok := l.text(f["root"], "root"); ok {
			b.rootText, b.rootAt = t, f["root"]
		}
		b.segments = rootSegments(b.rootText, b.on.stars())
		l.root(b)
		s.bots, parts = append(s.bots, b), append(parts, f)
	}
	return parts
}

// root checks what can be known of a root before it is rendered.
func (l *loader) root(b *botSpec) {
	fixed, ok := static(b.segments)
	if !ok {
		return
	}
	if _, err := jsonuri.Parse(fixed); err != nil {
		l.errorf(b.rootAt, "root: %s", plainError(err))
	} else if jsonuri.Reserved(fixed) {
		l.errorf(b.rootAt, `root: %q is reserved; a name that begins with "$" is written "\$…"`, fixed)
	}
}

func (l *loader) trigger(n *node) *trigger {
	t := &trigger{at: n, bot: -1}
	kinds := []string{"string", "object", "value", "done", "error"} // in the order of triggerKind
	switch n.kind {
	case text:
		t.kind, t.text = onString, n.text
	case mapping:
		f := l.fields(n, "on", kinds...)
		if len(n.items) != 1 {
			l.errorf(n, "on: expected exactly one of %s, got %d", list(kinds), len(n.items))
			return nil
		}
		for k, name := range kinds {
			if f[name] == nil {
				continue
			}
			pattern, ok := l.text(f[name], name)
			if !ok {
				return nil
			}
			t.kind, t.text, t.at = triggerKind(k), pattern, f[name]
		}
		if t.at == n {
			return nil // an unknown field, which has been reported
		}
	default:
		l.errorf(n, "on: expected a uri pattern or a mapping with one of %s, got %s", list(kinds), n.kind)
		return nil
	}
	if t.kind == onDone || t.kind == onError {
		return t
	}
	if t.text == "" {
		l.errorf(t.at, "on: the pattern is empty; expected one such as article/title (give a bot a root to have a name for its whole document)")
		return nil
	}
	p, err := compilePattern(t.text)
	if err != nil {
		l.errorf(t.at, "on: %s", plainError(err))
		return nil
	}
	if jsonuri.Reserved(t.text) {
		l.errorf(t.at, `on: nothing below a name that begins with "$" starts a bot; such a name of the document is written "\$…"`)
		return nil
	}
	t.pattern, t.segments = p, patternSegments(t.text)
	return t
}

// ownEvents are the names that the server gives to events of its own (PROTOCOL 1.3).
var ownEvents = []string{"started", "error", "usage", "queued", "approval_required", "approval_resolved", "handoff", "finished", "canceled"}

func (l *loader) events(s *spec, n *node) []fields {
	if n == nil {
		return nil
	}
	if n.kind != sequence {
		l.errorf(n, "events: expected a list of {on, when, send}, got %s", n.kind)
		return nil
	}
	var parts []fields
	for _, item := range n.items {
		f := l.fields(item, "an event", "on", "when", "send")
		e := &eventSpec{}
		if on := f["on"]; on != nil {
			e.on = l.trigger(on)
		} else if item.kind == mapping {
			l.errorf(item, "the event has no on: that says when it is sent")
		}
		if send := f["send"]; send != nil {
			sent := l.fields(send, "send", "event", "data")
			name, ok := l.text(sent["event"], "event")
			switch {
			case sent["event"] == nil && send.kind == mapping:
				l.errorf(send, "send: expected {event: name}")
			case ok && !validName(name):
				l.errorf(sent["event"], "%q is no name for an event: expected %s", short(name), nameRule)
			}
			for _, own := range ownEvents {
				if name == own {
					l.errorf(sent["event"], "%q is an event of the server's own; choose another name", name)
				}
			}
			e.name = name
		} else if item.kind == mapping {
			l.errorf(item, "the event has no send: expected {event: name, data: …}")
		}
		s.events, parts = append(s.events, e), append(parts, f)
	}
	return parts
}

// templates reads a bot's templates.
func (l *loader) templates(b *botSpec, f fields, sc *scope) {
	b.when = l.condition(f["when"], sc)
	b.root = l.template(f["root"], "root", sc)
	b.message = l.template(f["message"], "message", sc)
	if n := f["prompt"]; n != nil {
		parts := []*node{n}
		if n.kind == sequence {
			parts = n.items
		}
		for _, p := range parts {
			if t := l.prompt(p, sc); t != nil {
				b.prompts = append(b.prompts, t)
			}
		}
	}
	if n := f["history"]; n != nil {
		if n.kind != sequence {
			l.errorf(n, "history: expected a list of {role, content}, got %s", n.kind)
			return
		}
		for _, item := range n.items {
			h := l.fields(item, "history", "role", "content")
			role, ok := l.text(h["role"], "role")
			if ok && role != adapter.User && role != adapter.Assistant && role != adapter.System {
				l.errorf(h["role"], "role: expected user, assistant or system, got %q", short(role))
			}
			if item.kind == mapping && (h["role"] == nil || h["content"] == nil) {
				l.errorf(item, "history: expected both role and content")
			}
			if t := l.template(h["content"], "content", sc); t != nil {
				b.history = append(b.history, message{role, t})
			}
		}
	}
}

func (l *loader) condition(n *node, sc *scope) *template {
	if n != nil && n.kind == boolean {
		return &template{literal: map[string]string{"true": "1", "false": ""}[n.json]}
	}
	t, ok := l.text(n, "when")
	if !ok {
		return nil
	}
	return compile("when", t, true, sc, func(line, col int, message string) {
		line, col = n.at(l.lines, line, col)
		l.problems = append(l.problems, &FileError{l.file, line, col, "when: " + message})
	})
}

func (l *loader) template(n *node, what string, sc *scope) *template {
	t, ok := l.text(n, what)
	if !ok {
		return nil
	}
	if len(t) > maxPrompt {
		l.errorf(n, "%s: the text has %d bytes, at most %d are allowed", what, len(t), maxPrompt)
		return nil
	}
	return compile(what, t, false, sc, func(line, col int, message string) {
		line, col = n.at(l.lines, line, col)
		l.problems = append(l.problems, &FileError{l.file, line, col, what + ": " + message})
	})
}

// prompt reads text or {file: name}.
func (l *loader) prompt(n *node, sc *scope) *template {
	switch n.kind {
	case text:
		return l.template(n, "prompt", sc)
	case mapping:
	default:
		l.errorf(n, "prompt: expected text, {file: name} or a list of these, got %s", n.kind)
		return nil
	}
	f := l.fields(n, "prompt", "file")
	if len(n.items) == 0 {
		l.errorf(n, "prompt: expected {file: name}")
	}
	name, ok := l.text(f["file"], "file")
	if !ok {
		return nil
	}
	at := f["file"]
	source, ok := l.read(at, name)
	if !ok {
		return nil
	}
	file := path.Join(path.Dir(l.file), name)
	return compile(name, source, false, sc, func(line, col int, message string) {
		l.problems = append(l.problems, &FileError{file, max(line, 1), max(col, 1), message})
	})
}

// read reads a file that the workflow names; it can only be one inside the workflow's folder (BO-03).
func (l *loader) read(n *node, name string) (string, bool) {
	if l.dir == nil {
		l.errorf(n, "file: a workflow that comes with a request has no folder: write the text itself")
		return "", false
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		l.errorf(n, "file: expected a path inside the workflow's folder, as prompts/outline.md, got %q", short(name))
		return "", false
	}
	data, err := l.dir.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.errorf(n, "file: there is no file %q in the workflow's folder", short(name))
	case err != nil:
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		l.errorf(n, "file: %q cannot be read: %s", short(name), firstLine(err.Error()))
	case len(data) > maxPrompt:
		l.errorf(n, "file: %q has more than %d bytes", short(name), maxPrompt)
	case !utf8.Valid(data):
		l.errorf(n, "file: %q is not UTF-8 text", short(name))
	default:
		return strings.TrimPrefix(string(data), "\ufeff"), true
	}
	return "", false
}

// value reads JSON with templates in its strings.
func (l *loader) value(n *node, sc *scope) *value {
	switch n.kind {
	case text:
		t := l.template(n, "data", sc)
		if t == nil {
			return nil
		}
		return &value{text: t}
	case sequence, mapping:
		v := &value{object: n.kind == mapping}
		for i, item := range n.items {
			if v.object {
				v.keys = append(v.keys, n.keys[i].text)
			}
			v.items = append(v.items, l.value(item, sc))
		}
		return v
	}
	return &value{json: n.appendJSON(nil)}
}

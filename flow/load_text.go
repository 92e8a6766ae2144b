package flow

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/yaml"
)

// templates reads a bot's templates.
func (l *loader) templates(b *botSpec, f fields, sc *scope) {
	ofRoot := *sc
	ofRoot.all = true
	b.root = l.template(f["root"], "root", &ofRoot)
	b.message = l.template(f["message"], "message", sc)
	if n := f["prompt"]; n != nil {
		parts := []*yaml.Node{n}
		if n.Kind == yaml.List {
			parts = n.Items
		}
		for _, p := range parts {
			if t := l.prompt(p, sc); t != nil {
				b.prompts = append(b.prompts, t)
			}
		}
	}
	if n := f["history"]; n != nil {
		if n.Kind != yaml.List {
			l.Errorf(n, "history", "expected a list of {role, content}, got %s", n.Kind)
			return
		}
		for _, item := range n.Items {
			h := l.Fields(item, "history", "role", "content")
			role, _ := l.choice(h["role"], "role", adapter.User, adapter.Assistant, adapter.System)
			if item.Kind == yaml.Mapping && (h["role"] == nil || h["content"] == nil) {
				l.Errorf(item, "history", "expected both role and content")
			}
			if t := l.template(h["content"], "content", sc); t != nil {
				b.history = append(b.history, message{role, t})
			}
		}
	}
}

func (l *loader) condition(n *yaml.Node, sc *scope) *template {
	if n != nil && n.Kind == yaml.Bool {
		return compile("when", strconv.FormatBool(l.Bool(n, "when")), true, sc, nil)
	}
	return l.compile(n, "when", true, sc)
}

func (l *loader) template(n *yaml.Node, what string, sc *scope) *template {
	return l.compile(n, what, false, sc)
}

func (l *loader) compile(n *yaml.Node, what string, condition bool, sc *scope) *template {
	t, ok := l.Text(n, what)
	if !ok || !l.fits(n, what, len(t)) {
		return nil
	}
	return compile(what, t, condition, sc, func(line, col int, message string) {
		line, col = l.Within(n, line, col)
		l.Add(&yaml.Error{Line: line, Column: col, Path: what, Message: message})
	})
}

// fits says whether another template of so many bytes is within the bound of all.
func (l *loader) fits(n *yaml.Node, what string, bytes int) bool {
	before := l.source
	if l.source += bytes; l.source > maxPrompts {
		if before <= maxPrompts { // said once
			l.Errorf(n, what, "the workflow's texts are too long; expected at most %d bytes in total", maxPrompts)
		}
		return false
	}
	return true
}

// prompt reads text or {file: name}.
func (l *loader) prompt(n *yaml.Node, sc *scope) *template {
	if n.Kind == yaml.Text {
		return l.template(n, "prompt", sc)
	}
	if hint := l.NotText(n); n.Kind != yaml.Mapping || len(n.Items) == 0 || hint != "" && n.Get("file") == nil {
		l.Errorf(n, "prompt", "expected text or {file: name}, got %s%s", n.Kind, hint)
		return nil
	}
	at := l.Fields(n, "prompt", "file")["file"]
	name, ok := l.Text(at, "file")
	if !ok {
		return nil
	}
	source, ok := l.read(at, name)
	if !ok || !l.fits(at, "file", len(source)) {
		return nil
	}
	file := path.Join(path.Dir(l.File), name)
	return compile(name, source, false, sc, func(line, col int, message string) {
		l.Add(&yaml.Error{File: file, Line: max(line, 1), Column: yaml.Characters(source, line, col), Message: message})
	})
}

// read reads a file that the workflow names; it can only be one inside the workflow's folder (BO-03).
func (l *loader) read(n *yaml.Node, name string) (string, bool) {
	if l.source > maxPrompts {
		return "", false
	}
	if l.dir == nil {
		l.Errorf(n, "file", "a workflow inside a request cannot read files; write the text itself")
		return "", false
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		l.Errorf(n, "file", "expected a path inside the workflow's folder, such as prompts/outline.md, got %q", short(name))
		return "", false
	}
	data, err := l.dir.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Errorf(n, "file", "the workflow's folder has no file %q", short(name))
	case err != nil:
		l.Errorf(n, "file", "cannot read %q: %s", short(name), yaml.FirstLine(cause(err)))
	case !utf8.Valid(data):
		l.Errorf(n, "file", "%q is not UTF-8 text; save it as UTF-8", short(name))
	default:
		return strings.TrimPrefix(string(data), "\ufeff"), true
	}
	return "", false
}

// value reads JSON with templates in its strings.
func (l *loader) value(n *yaml.Node, sc *scope) value {
	open, end := "[", "]"
	switch n.Kind {
	case yaml.Text:
		if t := l.template(n, "data", sc); t != nil {
			return value{{text: t}}
		}
		return nil
	case yaml.Mapping:
		open, end = "{", "}"
	case yaml.List:
	default:
		return value{{json: n.AppendJSON(nil)}}
	}
	v := value{{json: []byte(open)}}
	for i, item := range n.Items {
		if i > 0 {
			v = append(v, piece{json: []byte(",")})
		}
		if n.Kind == yaml.Mapping {
			v = append(v, piece{json: append(rawjson.MustMarshal(n.Keys[i].Text), ':')})
		}
		v = append(v, l.value(item, sc)...)
	}
	return append(v, piece{json: []byte(end)})
}

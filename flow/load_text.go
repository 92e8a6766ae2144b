package flow

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
)

// templates reads a bot's templates.
func (l *loader) templates(b *botSpec, f fields, sc *scope) {
	b.when = l.condition(f["when"], sc)
	ofRoot := *sc
	ofRoot.all = true
	b.root = l.template(f["root"], "root", &ofRoot)
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
	if !ok || !l.fits(n, "when", len(t)) {
		return nil
	}
	return compile("when", t, true, sc, func(line, col int, message string) {
		line, col = n.at(l.lines, line, col)
		l.problems = append(l.problems, &FileError{l.file, line, col, "when: " + message})
	})
}

func (l *loader) template(n *node, what string, sc *scope) *template {
	t, ok := l.text(n, what)
	if !ok || !l.fits(n, what, len(t)) {
		return nil
	}
	return compile(what, t, false, sc, func(line, col int, message string) {
		line, col = n.at(l.lines, line, col)
		l.problems = append(l.problems, &FileError{l.file, line, col, what + ": " + message})
	})
}

// fits says whether a template of so many bytes is within the bounds.
func (l *loader) fits(n *node, what string, bytes int) bool {
	if bytes > maxPrompt {
		l.errorf(n, "%s: the text has %d bytes; expected at most %d", what, bytes, maxPrompt)
		return false
	}
	before := l.source
	if l.source += bytes; l.source > maxPrompts {
		if before <= maxPrompts { // said once
			l.errorf(n, "%s: the workflow's texts are too long; expected at most %d bytes in total", what, maxPrompts)
		}
		return false
	}
	return true
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
	if !ok || !l.fits(at, "file", len(source)) {
		return nil
	}
	file := path.Join(path.Dir(l.file), name)
	return compile(name, source, false, sc, func(line, col int, message string) {
		l.problems = append(l.problems, &FileError{file, max(line, 1), characters(source, line, col), message})
	})
}

// read reads a file that the workflow names; it can only be one inside the workflow's folder (BO-03).
func (l *loader) read(n *node, name string) (string, bool) {
	if l.source > maxPrompts {
		return "", false
	}
	if l.dir == nil {
		l.errorf(n, "file: a workflow inside a request cannot read files; write the text itself")
		return "", false
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		l.errorf(n, "file: expected a path inside the workflow's folder, such as prompts/outline.md, got %q", short(name))
		return "", false
	}
	data, err := l.dir.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.errorf(n, "file: the workflow's folder has no file %q", short(name))
	case err != nil:
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		l.errorf(n, "file: cannot read %q: %s", short(name), firstLine(err.Error()))
	case len(data) > maxPrompt:
		l.errorf(n, "file: %q is too long; expected at most %d bytes", short(name), maxPrompt)
	case !utf8.Valid(data):
		l.errorf(n, "file: %q is not UTF-8 text; save it as UTF-8", short(name))
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

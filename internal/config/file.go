package config

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
)

// read reads the text of the configuration file.
func (l *loader) read(text string) {
	if root := l.Parse(text); root != nil {
		l.readSettings(root, nil, l.c.settings, l.readOther)
	}
}

// problems returns what is wrong with a file.
func problems(r *yaml.Reader) (errs []error) {
	for _, e := range r.Problems() {
		errs = append(errs, &Error{Where: e.Place(), Key: e.Path, Message: e.Message})
	}
	return errs
}

// readSettings reads the members of n, which are known settings or sections of them; path leads to n. other reads the rest.
func (l *loader) readSettings(n *yaml.Node, path []string, known []Setting, other func(k, v *yaml.Node, path []string)) {
	for k, v := range l.members(n, path, "settings, one per line, such as \"%s: …\"", firstKey(known, path)) {
		at := append(slices.Clip(path), k.Text)
		key := yaml.Path(at...)
		i := slices.IndexFunc(known, func(s Setting) bool { return s.Key == key })
		switch {
		case i >= 0:
			l.setting(known[i], v)
		case key == "models" && v.Kind == yaml.Text: // in short
			i := slices.IndexFunc(known, func(s Setting) bool { return s.Key == "models.callers" })
			l.setting(known[i], v)
		case firstKey(known, at) != "":
			l.readSettings(v, at, known, other)
		default:
			other(k, v, path)
		}
	}
}

// members returns the members of n, and reports what is expected if it is no mapping. Nothing is a mapping without members: perhaps each line
// of a section is commented out.
func (l *loader) members(n *yaml.Node, path []string, expected string, args ...any) iter.Seq2[*yaml.Node, *yaml.Node] {
	if n.Kind != yaml.Mapping && n.Kind != yaml.Null {
		l.Errorf(n, yaml.Path(path...), "expected "+expected, args...)
	}
	return n.Members()
}

// readOther reads what is no setting of the table: sections whose members have any names.
func (l *loader) readOther(k, v *yaml.Node, path []string) {
	_, dotted := find(yaml.Path(path...) + "." + k.Text)
	switch section := yaml.Path(path...); {
	case section == "" && k.Text == "agents":
		l.named(agentNames, v, l.checkAgent)
	case section == "models":
		l.namedOne(modelNames, k, v)
	case section == "" && k.Text == "mcp":
		l.named(mcpNames, v, l.checkMCP)
	case section == "" && k.Text == "channels":
		l.channels(v)
	case section == "providers" && !dotted:
		l.provider(k, v)
	case len(path) == 2 && path[0] == "providers" && k.Text == "headers":
		l.headers(v, path[1])
	case len(path) == 2 && path[0] == "providers" && k.Text == "kind":
		l.presetKind(v, path[1])
	default:
		l.unknown(k, path)
	}
}

// didYouMean ends a sentence with the known name that was probably meant.
func didYouMean(name string, known []string) string {
	if near := edits.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// unknown reports a key that is no setting.
func (l *loader) unknown(at *yaml.Node, path []string) {
	key := strings.TrimPrefix(yaml.Path(path...)+"."+at.Text, ".")
	for _, name := range []string{at.Text, key} {
		if s, ok := find(name); ok && strings.Contains(s.Key, ".") {
			last := len(s.path) - 1
			l.Errorf(at, key, "unknown setting; move %q below \"%s:\"", s.path[last], strings.Join(s.path[:last], ": "))
			return
		}
	}
	if _, ok := findPreset(at.Text); ok {
		l.Errorf(at, key, "unknown setting; move \"%s:\" below \"providers:\"", at.Text)
		return
	}
	l.Errorf(at, key, "unknown setting%s", didYouMean(key, keys(table)))
}

// unknownOf reports a key that is no setting of something that has a name of the user's. The names of its settings are those behind the first
// parts of their keys.
func (l *loader) unknownOf(what string, at *yaml.Node, path []string, parts int, known []Setting) {
	path = append(slices.Clip(path), at.Text)
	var names []string
	for _, s := range known {
		names = append(names, yaml.Path(s.path[parts:]...))
	}
	hint := fmt.Sprintf("; expected a setting of %s: %s", what, strings.Join(names, ", "))
	if near := edits.Nearest(yaml.Path(path[parts:]...), names); near != "" {
		hint = "; did you mean " + yaml.Path(path[:parts]...) + "." + near + "?"
	}
	l.Errorf(at, yaml.Path(path...), "unknown setting%s", hint)
}

// setting reads the value of a setting, unless a flag or a variable overrules it.
func (l *loader) setting(s Setting, n *yaml.Node) {
	if s.Key == "config" {
		l.Errorf(n, s.Key, "this setting does not work in the configuration file; use --config or LINGSERVE_CONFIG")
		return
	}
	if l.find(s) != nil {
		return
	}
	l.c.sources[s.Key] = l.source(n)
	if s.Key == pricesKey && n.Kind == yaml.Mapping {
		l.prices(n)
	} else if v, ok := l.value(s, n); ok {
		l.apply(s, v)
	}
}

func (l *loader) source(n *yaml.Node) Source {
	return Source{Kind: File, Name: fmt.Sprintf("%s:%d", l.File, n.Line), at: l.position(n)}
}

// value returns the value of a setting as text. Here, only what YAML itself tells apart is checked.
func (l *loader) value(s Setting, n *yaml.Node) (v value, ok bool) {
	v = value{from: l.source(n)}
	ok = true
	switch {
	case n.Kind == yaml.Null:
		l.Errorf(n, s.Key, "the value is missing; expected %s", s.expected())
		return v, false
	case s.Kind() == "options":
		ok = l.options(s, n, &v)
	case n.Kind == yaml.Mapping:
		ok = l.reference(s, n, &v)
	case n.Kind == yaml.List && !s.kind.list && !s.chain:
		l.Errorf(n, s.Key, "found a list; expected %s", s.expected())
		return v, false
	case n.Kind == yaml.List:
		if ok = l.list(s, n, &v); s.chain {
			v.text, v.list = strings.Join(v.list, ","), nil
		}
	case n.Kind == yaml.Text || s.kind.text:
		v.text, ok = l.Text(n, s.Key)
		if n.Block {
			v.text = strings.TrimSuffix(v.text, "\n")
		}
		l.hasKey = l.hasKey || s.Secret && v.text != "" || s.Key == "database" && strings.Contains(v.text, "@")
	default:
		v.text = n.Text
	}
	return v, ok
}

// options reads what is asked of models.
func (l *loader) options(s Setting, n *yaml.Node, v *value) bool {
	v.text = string(n.AppendJSON(nil))
	_, misfits := adapter.ReadOptions([]byte(v.text), true)
	for _, misfit := range misfits {
		at := n.Find(misfit.At)
		if misfit.Name {
			at = n.FindKey(misfit.At)
		}
		l.Errorf(at, strings.Join(append([]string{s.Key}, misfit.At...), "."), "%s", misfit.Detail)
	}
	return len(misfits) == 0
}

func (l *loader) list(s Setting, n *yaml.Node, v *value) bool {
	v.list = []string{}
	for i, item := range n.Items {
		if item.Kind == yaml.List || item.Kind == yaml.Mapping || item.Kind == yaml.Null {
			l.Errorf(item, s.Key, "element %d of the list is %s; expected text", i+1, item.Kind)
		} else if text, ok := l.Text(item, s.Key); ok {
			v.list = append(v.list, text)
		}
	}
	l.hasKey = l.hasKey || s.Secret && len(v.list) > 0
	return len(v.list) == len(n.Items)
}

// reference resolves {env: NAME} and {file: PATH}, which keep secrets out of the configuration file.
func (l *loader) reference(s Setting, n *yaml.Node, v *value) bool {
	if s.kind.list {
		l.Errorf(n, s.Key, "found %s; expected %s", n.Kind, s.expected())
		return false
	}
	if !s.kind.text || len(n.Items) != 1 {
		l.Errorf(n, s.Key, "expected %s", s.expected())
		return false
	}
	name := n.Items[0]
	if name.Kind != yaml.Text || name.Text == "" {
		l.Errorf(name, s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	switch n.Keys[0].Text {
	case "env":
		v.text = l.env[name.Text]
		if v.text == "" {
			l.Errorf(name, s.Key, "the environment variable %s is not set; set it, or use another one", name.Text)
			return false
		}
		v.variable = name.Text
		v.from.Name += " (environment " + name.Text + ")"
	case "file":
		path := name.Text
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.dir, path)
		}
		text, err := readLimited(path, 64<<10)
		if err != nil {
			l.Errorf(name, s.Key, "cannot read the file: %s", plain(err))
			return false
		}
		v.text = strings.TrimRight(string(text), "\r\n")
		v.from.Name += " (file " + name.Text + ")"
		v.file = path
	default:
		l.Errorf(n.Keys[0], s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	return true
}

// position returns the position of a node for errors.
func (l *loader) position(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", l.File, n.Line, n.Column)
}

// firstKey is the first setting of a section, without the section's name, as an example.
func firstKey(settings []Setting, path []string) string {
	for _, s := range settings {
		if len(s.path) > len(path) && slices.Equal(s.path[:len(path)], path) {
			return s.path[len(path)]
		}
	}
	return ""
}

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

// collect finds the values of the settings in n, and reports what is no setting. path leads to n.
func (l *loader) collect(n *yaml.Node, path []string) {
	for k, v := range l.members(n, path) {
		at := append(slices.Clip(path), k.Text)
		key := yaml.Path(at...)
		switch {
		case l.invalid[key]:
		case key == "config":
			l.Errorf(v, key, "this setting does not work in the configuration file; use --config or LINGSERVE_CONFIG")
		case key == "models" && v.Kind == yaml.Text: // in short
			l.nodes["models.callers"] = v
		case l.sections[key]:
			l.collect(v, at)
		case l.known[key]:
			l.nodes[key] = v
		default:
			l.unknown(k, at)
		}
	}
}

// members returns the members of a section, and reports a node that is none. Nothing is a section without members: perhaps each line of it is
// commented out.
func (l *loader) members(n *yaml.Node, path []string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if n.Kind != yaml.Mapping && n.Kind != yaml.Null {
		l.Errorf(n, yaml.Path(path...), "expected settings, one per line, such as \"%s: …\"", l.firstKey(path))
	}
	return n.Members()
}

// firstKey is the first setting of a section, without the section's name, as an example.
func (l *loader) firstKey(path []string) string {
	for _, s := range l.c.settings {
		if len(s.path) > len(path) && slices.Equal(s.path[:len(path)], path) {
			return s.path[len(path)]
		}
	}
	return "NAME"
}

// unknown reports a key that is no setting.
func (l *loader) unknown(k *yaml.Node, path []string) {
	name := strings.Join(path, ".")
	if l.known[name] {
		l.Errorf(k, name, "unknown setting; write each part of the name on its own line")
		return
	}
	section := path[:len(path)-1]
	var known []string // without the section
	for _, s := range l.c.settings {
		if len(s.path) > len(section) && slices.Equal(s.path[:len(section)], section) {
			known = append(known, yaml.Path(s.path[len(section):]...))
		}
	}
	l.Errorf(k, name, "unknown setting%s", edits.Suggest(k.Text, known, strings.TrimPrefix(yaml.Path(section...)+".", ".")))
}

// source is where a value in the file is.
func (l *loader) source(n *yaml.Node) Source {
	return Source{Kind: File, Name: fmt.Sprintf("%s:%d", l.File, n.Line), at: l.position(n)}
}

// position returns the position of a node for errors.
func (l *loader) position(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", l.File, n.Line, n.Column)
}

// value returns the value of a setting as text. Here, only what YAML itself tells apart is checked.
func (l *loader) value(s Setting, n *yaml.Node) (v value, ok bool) {
	v = value{from: l.source(n)}
	ok = true
	switch {
	case n.Kind == yaml.Null:
		l.Errorf(n, s.Key, "the value is missing; expected %s", s.expected())
		return v, false
	case s.isOptions():
		v.text = string(n.AppendJSON(nil))
		ok = l.checkOptions(s, n, v.text)
	case n.Kind == yaml.Mapping && s.isText():
		ok = l.reference(s, n, &v)
	case n.Kind == yaml.List && (s.isList() || s.chain):
		v.list, ok = l.list(s, n)
		if s.chain {
			v.text, v.list = strings.Join(v.list, ","), nil
		}
	case n.Kind == yaml.Mapping || n.Kind == yaml.List:
		l.Errorf(n, s.Key, "found %s; expected %s", n.Kind, s.expected())
		return v, false
	case n.Kind == yaml.Text || s.isText():
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

// checkOptions reports what is wrong with options of models.
func (l *loader) checkOptions(s Setting, n *yaml.Node, text string) bool {
	_, misfits := adapter.ReadOptions([]byte(text), true)
	for _, misfit := range misfits {
		at := n.Find(misfit.At)
		if misfit.Name {
			at = n.FindKey(misfit.At)
		}
		l.Errorf(at, strings.Join(append([]string{s.Key}, misfit.At...), "."), "%s", misfit.Detail)
	}
	return len(misfits) == 0
}

func (l *loader) list(s Setting, n *yaml.Node) (list []string, ok bool) {
	list = []string{}
	l.hasKey = l.hasKey || s.Secret && len(n.Items) > 0
	for _, item := range n.Items {
		text, isText := l.Text(item, s.Key)
		if !isText {
			return list, false
		}
		list = append(list, text)
	}
	return list, true
}

// reference resolves {env: NAME} and {file: PATH}, which keep secrets out of the configuration file.
func (l *loader) reference(s Setting, n *yaml.Node, v *value) bool {
	env, file := n.Get("env"), n.Get("file")
	switch {
	case len(n.Items) != 1 || env == nil && file == nil || n.Items[0].Kind != yaml.Text || n.Items[0].Text == "":
		l.Errorf(n, s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	case env != nil:
		v.text = l.env[env.Text]
		if v.text == "" {
			l.Errorf(env, s.Key, "the environment variable %s is not set; set it, or use another one", env.Text)
			return false
		}
		v.variable = env.Text
		v.from.Name += " (environment " + env.Text + ")"
		return true
	}
	v.file = file.Text
	if !filepath.IsAbs(v.file) {
		v.file = filepath.Join(l.dir, v.file)
	}
	text, err := readLimited(v.file, 64<<10)
	if err != nil {
		l.Errorf(file, s.Key, "cannot read the file: %s", plain(err))
		return false
	}
	v.text = strings.TrimRight(string(text), "\r\n")
	v.from.Name += " (file " + file.Text + ")"
	return true
}

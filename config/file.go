package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// fileReader reads a configuration file into values by key.
type fileReader struct {
	name   string
	dir    string            // that {file: …} is relative to
	env    map[string]string // for {env: …}
	values map[string]*value
	errs   []error
}

func (r *fileReader) read(text []byte) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	// The parser recurses; no configuration nests this deep.
	if deepest(text) > 64 {
		r.errs = append(r.errs, &Error{Where: r.name, Message: "brackets are nested too deeply"})
		return
	}
	file, err := parse(text)
	if err != nil {
		if ye, ok := errors.AsType[yaml.Error](err); ok && ye.GetToken() != nil {
			r.fail(ye.GetToken(), "", "not valid YAML: %s", ye.GetMessage())
			return
		}
		r.errs = append(r.errs, &Error{Where: r.name, Message: "not valid YAML"})
		return
	}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			r.fail(doc.Body.GetToken(), "", "a second document; a configuration file has one")
			return
		}
		r.section(doc.Body, "")
	}
}

// parse turns a panic of the YAML parser into an error: it is foreign code, and its input is written by hand.
func parse(text []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not valid YAML")
		}
	}()
	return parser.ParseBytes(text, 0)
}

// deepest is how many brackets are open at most, strings and comments not regarded.
func deepest(text []byte) (deepest int) {
	open := 0
	for _, b := range text {
		switch b {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open = max(open-1, 0)
		}
	}
	return deepest
}

// section reads the members of a mapping, prefix being "" or "run.".
func (r *fileReader) section(n ast.Node, prefix string) {
	members, ok := mapping(n)
	if !ok {
		if _, null := n.(*ast.NullNode); null {
			return // a section of which every line is commented out
		}
		r.fail(n.GetToken(), strings.TrimSuffix(prefix, "."), "expected settings, one a line, as \"%s: …\"", firstKey(prefix))
		return
	}
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil {
			continue
		}
		name := m.Key.GetToken().Value
		key := prefix + name
		s, found := find(key)
		switch {
		case strings.Contains(name, "."):
			r.unknown(m.Key.GetToken(), key, prefix)
		case found && key == "config":
			r.fail(m.Key.GetToken(), key, "cannot stand in the configuration file itself; use --config or LINGSERVE_CONFIG")
		case found:
			r.setting(s, m)
		case prefix == "" && isSection(key):
			r.section(m.Value, key+".")
		default:
			r.unknown(m.Key.GetToken(), key, prefix)
		}
	}
}

func (r *fileReader) unknown(at *token.Token, key, prefix string) {
	if s, ok := find(strings.TrimPrefix(key, prefix)); ok && strings.Contains(s.Key, ".") {
		section, name, _ := strings.Cut(s.Key, ".")
		r.fail(at, key, "unknown setting; write %q under \"%s:\"", name, section)
		return
	}
	if near := Nearest(key, keys()); near != "" {
		r.fail(at, key, "unknown setting; did you mean %s?", near)
		return
	}
	r.fail(at, key, "unknown setting")
}

// setting stores the value of a node as text. Whether it is the right kind of text is found out when it is set; only what YAML
// itself tells apart is looked at here.
func (r *fileReader) setting(s Setting, m *ast.MappingValueNode) {
	at := m.Key.GetToken()
	if _, null := m.Value.(*ast.NullNode); null || m.Value == nil || m.Value.GetToken() == nil {
		r.fail(at, s.Key, "has no value; expected %s", s.expected())
		return
	}
	at = m.Value.GetToken()
	v := &value{from: Source{File, fmt.Sprintf("%s:%d", r.name, at.Position.Line)}, at: r.place(at)}
	switch n := m.Value.(type) {
	case *ast.StringNode:
		v.text = n.Value
	case *ast.LiteralNode:
		v.text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.text = at.Value
		if s.isText() {
			r.fail(at, s.Key, "%s is not text; put it in quotes", at.Value)
			return
		}
	case *ast.SequenceNode:
		if !s.isList() || !r.list(s, n, v) {
			if !s.isList() {
				r.fail(at, s.Key, "a list, where %s is expected", s.expected())
			}
			return
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		if !r.reference(s, n, v) {
			return
		}
	default:
		r.fail(at, s.Key, "anchors, aliases and tags have no meaning here; expected %s", s.expected())
		return
	}
	r.values[s.Key] = v
}

func (r *fileReader) list(s Setting, n *ast.SequenceNode, v *value) bool {
	v.list = []string{}
	for _, item := range n.Values {
		text, ok := item.(*ast.StringNode)
		if !ok {
			r.fail(item.GetToken(), s.Key, "each element of the list must be text")
			return false
		}
		v.list = append(v.list, text.Value)
	}
	return true
}

// reference resolves {env: NAME} and {file: PATH}, which keep secrets out of the configuration file.
func (r *fileReader) reference(s Setting, n ast.Node, v *value) bool {
	members, _ := mapping(n)
	if !s.isText() || len(members) != 1 {
		r.fail(n.GetToken(), s.Key, "expected %s", s.expected())
		return false
	}
	m := members[0]
	name, ok := m.Value.(*ast.StringNode)
	if !ok || name.Value == "" {
		r.fail(m.Value.GetToken(), s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	switch m.Key.GetToken().Value {
	case "env":
		v.text = r.env[name.Value]
		if v.text == "" {
			r.fail(name.Token, s.Key, "the environment variable %s is not set", name.Value)
			return false
		}
		v.from.Name += " (environment " + name.Value + ")"
	case "file":
		path := name.Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		text, err := readLimited(path, 64<<10)
		if err != nil {
			r.fail(name.Token, s.Key, "cannot be read: %s", plain(err))
			return false
		}
		v.text = strings.TrimRight(string(text), "\r\n")
		v.from.Name += " (file " + name.Value + ")"
	default:
		r.fail(m.Key.GetToken(), s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	return true
}

func (r *fileReader) place(t *token.Token) string {
	if t == nil || t.Position == nil {
		return r.name
	}
	return fmt.Sprintf("%s:%d:%d", r.name, t.Position.Line, t.Position.Column)
}

func (r *fileReader) fail(t *token.Token, key, format string, args ...any) {
	r.errs = append(r.errs, &Error{Where: r.place(t), Key: key, Message: fmt.Sprintf(format, args...)})
}

// expected says what may be written for the setting.
func (s Setting) expected() string {
	switch kind := s.Kind(); kind {
	case "true or false":
		return kind
	case "duration":
		return "a duration (as 30s or 5m)"
	case "size":
		return "a size (as 512KiB or 8MiB)"
	case "secret text":
		return "text, {env: NAME} or {file: PATH}"
	case "text":
		return kind
	default:
		if len(s.OneOf) > 0 {
			return "one of " + kind
		}
		return "a " + kind
	}
}

// mapping returns the members of a mapping, which the parser gives in two shapes.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func find(key string) (Setting, bool) {
	for _, s := range table {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

func keys() []string {
	var all []string
	for _, s := range table {
		all = append(all, s.Key)
	}
	return all
}

func isSection(name string) bool { return firstKey(name+".") != "" }

// firstKey is the first setting of a section, without the section's name, as an example.
func firstKey(prefix string) string {
	for _, s := range table {
		if name, ok := strings.CutPrefix(s.Key, prefix); ok {
			return name
		}
	}
	return ""
}

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
)

// fileReader reads a configuration file into values by key.
type fileReader struct {
	name    string
	dir     string            // that {file: …} is relative to
	env     map[string]string // for {env: …}
	values  map[string]*value
	added   []Setting // of providers that are no presets
	ofNames []Setting // of agents, MCP servers and channels
	hasKey  bool      // a secret stands in the file itself

	priced map[string]price.Row // by model

	logins   []Channel // names alone, in order
	policies []policySetting
	failed   map[string]bool // settings of channels whose value is wrong
	errs     []error
}

func (r *fileReader) read(text []byte) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	// The parser recurses; no configuration nests this deep.
	if deepest(text) > 64 {
		r.errs = append(r.errs, &Error{Where: r.name, Message: "brackets are nested too deeply; remove some"})
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
			r.fail(doc.Body.GetToken(), "", "found a second document; a configuration file has only one")
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
		r.fail(n.GetToken(), strings.TrimSuffix(prefix, "."), "expected settings, one per line, such as \"%s: …\"", firstKey(prefix))
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
		case prefix == "" && name == "agents":
			r.named(agentNames, m, r.checkAgent)
		case prefix == "" && name == "models":
			r.named(modelNames, m, func(*token.Token, string) {})
		case prefix == "" && name == "mcp":
			r.named(mcpNames, m, r.checkMCP)
		case prefix == "" && name == "channels":
			r.channels(m)
		case prefix == "" && name == pricesKey && isMapping(m.Value):
			r.prices(m)
		case strings.Contains(name, ".") && (prefix != providers || found):
			r.unknown(m.Key.GetToken(), key, prefix)
		case prefix == providers && !isSection(key):
			r.provider(m, name)
		case name == "headers" && strings.HasPrefix(prefix, providers):
			r.headers(m, strings.TrimSuffix(strings.TrimPrefix(prefix, providers), "."))
		case found && key == "config":
			r.fail(m.Key.GetToken(), key, "this setting does not work in the configuration file; use --config or LINGSERVE_CONFIG")
		case found:
			r.setting(s, m)
		case isSection(key):
			r.section(m.Value, key+".")
		case name == "kind" && strings.HasPrefix(prefix, providers):
			r.presetKind(m, strings.TrimSuffix(strings.TrimPrefix(prefix, providers), "."))
		default:
			r.unknown(m.Key.GetToken(), key, prefix)
		}
	}
}

// providers is the section whose members may have any name.
const providers = "providers."

// presetKind allows a preset's kind to be said, but not to be another: its name would no longer say what it is.
func (r *fileReader) presetKind(m *ast.MappingValueNode, name string) {
	known, _ := preset(name)
	s := kindSetting(name)
	r.setting(s, m)
	if v := r.values[s.Key]; v != nil && v.text != known.Kind {
		r.fail(m.Value.GetToken(), s.Key, "the name %s is reserved for the provider of kind %s; choose another name", name, known.Kind)
	}
	delete(r.values, s.Key)
}

// provider reads a provider that is no preset.
func (r *fileReader) provider(m *ast.MappingValueNode, name string) {
	at, key := m.Key.GetToken(), providers+name
	members, ok := mapping(m.Value)
	switch m.Value.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.fail(at, key, "anchors, aliases and tags are not supported; expected settings, one per line, such as \"kind: …\"")
		return
	}
	switch {
	case name == "demo":
		r.fail(at, key, "demo is the built-in scripted model; choose another name")
		return
	case !providerName.MatchString(name):
		r.fail(at, key, "invalid name; a provider's name has only lower-case letters, digits, - and _")
		return
	case !ok:
		r.fail(at, key, "expected settings, one per line, such as \"kind: …\"")
		return
	}
	kind, ok := r.kind(at, name, members)
	if !ok {
		return
	}
	own := addedSettings(name, kind)
	r.added = append(r.added, own...)
	written := map[string]bool{}
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil {
			continue
		}
		field := m.Key.GetToken().Value
		written[field] = true
		if field == "headers" {
			r.headers(m, name)
			continue
		}
		if i := slices.IndexFunc(own, func(s Setting) bool { return s.Key == key+"."+field }); i >= 0 {
			r.setting(own[i], m)
			continue
		}
		r.unknownField(m.Key.GetToken(), key+"."+field, kind, own)
	}
	switch {
	case kind == KindVertex && !written["project"] && !written["key"]:
		r.fail(at, key, "needs a project; set project")
	case kind == KindBedrock && !written["region"] && !written["profile"] && !written["base_url"]:
		r.fail(at, key, "needs a region; set region")
	case !written["base_url"] && needsURL(kind):
		r.fail(at, key, "needs base_url, the server's address, such as %s", exampleURL(kind))
	}
	if !written["key"] && (mustHaveKey(kind) || !written["base_url"] && (kind == KindAnthropic || kind == KindGemini || kind == KindResponses)) {
		r.fail(at, key, "needs a key; expected key: {env: NAME} or {file: PATH}")
	}
}

// kind reads what decides which settings a provider has.
func (r *fileReader) kind(at *token.Token, name string, members []*ast.MappingValueNode) (string, bool) {
	key := providers + name
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil || m.Key.GetToken().Value != "kind" {
			continue
		}
		before := len(r.errs)
		r.setting(kindSetting(name), m)
		v := r.values[key+".kind"]
		if v == nil || len(r.errs) > before {
			return "", false
		}
		if !slices.Contains(kinds, v.text) {
			delete(r.values, key+".kind")
			r.fail(m.Value.GetToken(), key+".kind", "%v", noneOf(v.text, kinds))
			return "", false
		}
		return v.text, true
	}
	var names []string
	for _, p := range presets {
		names = append(names, p.Name)
	}
	hint := ""
	if near := Nearest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	r.fail(at, key, "needs a kind; expected one of %s%s", strings.Join(kinds, ", "), hint)
	return "", false
}

func (r *fileReader) unknownField(at *token.Token, key, kind string, own []Setting) {
	field := key[strings.LastIndex(key, ".")+1:]
	for _, other := range kinds {
		for _, s := range providerSettings("x", "x", other) {
			if s.Key == "providers.x."+field {
				r.fail(at, key, "this setting is for providers of kind %s; this provider has kind %s", other, kind)
				return
			}
		}
	}
	var names []string
	for _, s := range own {
		names = append(names, s.Key)
	}
	if near := Nearest(key, names); near != "" {
		r.fail(at, key, "unknown setting; did you mean %s?", near)
		return
	}
	r.fail(at, key, "unknown setting")
}

func (r *fileReader) unknown(at *token.Token, key, prefix string) {
	name := strings.TrimPrefix(key, prefix)
	s, ok := find(name)
	if !ok && strings.Contains(name, ".") {
		s, ok = find(key)
	}
	if ok && strings.Contains(s.Key, ".") {
		path := strings.Split(s.Key, ".")
		last := len(path) - 1
		r.fail(at, key, "unknown setting; move %q below \"%s:\"", path[last], strings.Join(path[:last], ": "))
		return
	}
	if _, ok := preset(name); ok {
		r.fail(at, key, "unknown setting; move \"%s:\" below \"providers:\"", name)
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
		r.fail(at, s.Key, "the value is missing; expected %s", s.expected())
		return
	}
	if s.isOptions() {
		r.options(s, m)
		return
	}
	at = m.Value.GetToken()
	v := &value{from: Source{File, fmt.Sprintf("%s:%d", r.name, at.Position.Line)}, at: r.place(at)}
	switch n := m.Value.(type) {
	case *ast.StringNode:
		v.text = n.Value
		r.hasKey = r.hasKey || s.Secret && v.text != ""
	case *ast.LiteralNode:
		v.text = strings.TrimSuffix(n.Value.Value, "\n")
		r.hasKey = r.hasKey || s.Secret && v.text != ""
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.text = at.Value
		if s.isText() {
			r.fail(at, s.Key, "%s is not text; put the value in quotes", at.Value)
			return
		}
	case *ast.SequenceNode:
		if !s.isList() && !s.chain {
			r.fail(at, s.Key, "found a list; expected %s", s.expected())
			return
		}
		if !r.list(s, n, v) {
			return
		}
		if s.chain {
			v.text, v.list = strings.Join(v.list, ","), nil
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		if !r.reference(s, n, v) {
			return
		}
	default:
		r.fail(at, s.Key, "anchors, aliases and tags are not supported; expected %s", s.expected())
		return
	}
	r.values[s.Key] = v
}

// options reads what is asked of models.
func (r *fileReader) options(s Setting, m *ast.MappingValueNode) {
	text, err := nodeJSON(m.Value)
	if err != nil {
		r.fail(m.Value.GetToken(), s.Key, "anchors, aliases, tags, infinity and not-a-number are not supported; expected options, such as \"temperature: 0.2\"")
		return
	}
	_, misfits := adapter.ReadOptions(text, true)
	for _, misfit := range misfits {
		r.fail(tokenAt(m, misfit), strings.Join(append([]string{s.Key}, misfit.At...), "."), "%s", misfit.Detail)
	}
	if at := m.Value.GetToken(); len(misfits) == 0 {
		r.values[s.Key] = &value{text: string(text), from: Source{File, fmt.Sprintf("%s:%d", r.name, m.Key.GetToken().Position.Line)}, at: r.place(at)}
	}
}

// nodeJSON writes a value of the file as JSON.
func nodeJSON(n ast.Node) (text []byte, err error) {
	defer func() {
		if recover() != nil { // the library's, with nodes that stand for others
			err = errors.New("no value")
		}
	}()
	var v any
	if err := yaml.NodeToValue(n, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// tokenAt is where a mistake in options stands.
func tokenAt(m *ast.MappingValueNode, misfit adapter.Misfit) *token.Token {
	at, n := m.Value.GetToken(), m.Value
	for i, name := range misfit.At {
		if list, ok := n.(*ast.SequenceNode); ok {
			if item, err := strconv.Atoi(name); err == nil && item < len(list.Values) {
				n = list.Values[item]
				at = n.GetToken()
			}
			continue
		}
		members, _ := mapping(n)
		for _, member := range members {
			if member.Key.GetToken().Value == name {
				n, at = member.Value, member.Value.GetToken()
				if misfit.Name && i == len(misfit.At)-1 {
					at = member.Key.GetToken()
				}
				break
			}
		}
	}
	return at
}

func (r *fileReader) list(s Setting, n *ast.SequenceNode, v *value) bool {
	v.list = []string{}
	for i, item := range n.Values {
		text, ok := item.(*ast.StringNode)
		if !ok {
			switch item.(type) {
			case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode: // as a bot's id is
				r.fail(item.GetToken(), s.Key, "%s is not text; put the value in quotes", item.GetToken().Value)
			default:
				r.fail(item.GetToken(), s.Key, "element %d of the list is %s; expected text%s", i+1, found(item), s.as("%s"))
			}
			return false
		}
		v.list = append(v.list, text.Value)
	}
	r.hasKey = r.hasKey || s.Secret && len(v.list) > 0
	return true
}

// reference resolves {env: NAME} and {file: PATH}, which keep secrets out of the configuration file.
func (r *fileReader) reference(s Setting, n ast.Node, v *value) bool {
	members, _ := mapping(n)
	if s.isList() {
		r.fail(n.GetToken(), s.Key, "found %s; expected %s", found(n), s.expected())
		return false
	}
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
			r.fail(name.Token, s.Key, "the environment variable %s is not set; set it, or use another one", name.Value)
			return false
		}
		v.variable = name.Value
		v.from.Name += " (environment " + name.Value + ")"
	case "file":
		path := name.Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		text, err := readLimited(path, 64<<10)
		if err != nil {
			r.fail(name.Token, s.Key, "cannot read the file: %s", plain(err))
			return false
		}
		v.text = strings.TrimRight(string(text), "\r\n")
		v.from.Name += " (file " + name.Value + ")"
		v.file = path
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

// found says what a node is that is no text. It does not repeat what stands there.
func found(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping (name: value)"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, an alias or a tag, which are not supported"
	}
	return "something else"
}

// as shows an example in the form, where there is one.
func (s Setting) as(form string) string {
	if s.example == "" {
		return ""
	}
	return " (such as " + fmt.Sprintf(form, s.example) + ")"
}

// expected says what may be written for the setting.
func (s Setting) expected() string {
	switch kind := s.Kind(); kind {
	case "true or false":
		return kind
	case "duration":
		return "a duration, such as 30s or 5m"
	case "size":
		return "a size, such as 512KiB or 8MiB"
	case "secret text":
		return "text, {env: NAME} or {file: PATH}"
	case "text", "options":
		return kind
	default:
		if len(s.OneOf) > 0 {
			return "one of " + kind
		}
		return "a " + kind + s.as("[%s]")
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

func isMapping(n ast.Node) bool {
	_, ok := mapping(n)
	return ok
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
			name, _, _ = strings.Cut(name, ".")
			return name
		}
	}
	return ""
}

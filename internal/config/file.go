package config

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
)

// fileReader reads a configuration file into values by key.
type fileReader struct {
	yaml.Reader
	dir     string            // that {file: …} is relative to
	env     map[string]string // for {env: …}
	values  map[string]*value
	added   []Setting // of providers that are no presets
	ofNames []Setting // of agents, MCP servers and channels
	hasKey  bool      // a secret stands in the file itself

	priced map[string]price.Row // by model

	logins   []Channel // names alone, in order
	policies []policySetting
}

func (r *fileReader) read(text []byte) {
	if root := r.Parse(string(text)); root != nil {
		r.readSettings(root, "", table, r.readOther)
	}
}

// errors returns what is wrong with the file.
func (r *fileReader) errors() (errs []error) {
	for _, e := range r.Problems() {
		errs = append(errs, &Error{Where: e.Place(), Key: e.Path, Message: e.Message})
	}
	return errs
}

// readSettings reads the members of n, which are known settings or sections of them; their keys begin with prefix. other reads what is neither. It
// returns false if n is no mapping.
func (r *fileReader) readSettings(n *yaml.Node, prefix string, known []Setting, other func(k, v *yaml.Node, prefix string)) bool {
	for k, v := range r.members(n, strings.TrimSuffix(prefix, "."), "settings, one per line, such as \"%s: …\"", firstKey(known, prefix)) {
		key := prefix + k.Text
		i := slices.IndexFunc(known, func(s Setting) bool { return s.Key == key })
		switch {
		case strings.Contains(k.Text, "."):
			other(k, v, prefix)
		case i >= 0:
			r.setting(known[i], v)
		case key == "models" && v.Kind == yaml.Text: // in short
			s, _ := find(callerModels)
			r.setting(s, v)
		case firstKey(known, key+".") != "":
			r.readSettings(v, key+".", known, other)
		default:
			other(k, v, prefix)
		}
	}
	return n.Kind == yaml.Mapping || n.Kind == yaml.Null
}

// members returns the members of n, and reports what is expected if it is no mapping. Nothing is one without members: perhaps each line of
// a section is commented out.
func (r *fileReader) members(n *yaml.Node, key, expected string, args ...any) iter.Seq2[*yaml.Node, *yaml.Node] {
	if n.Kind != yaml.Mapping && n.Kind != yaml.Null {
		r.Errorf(n, key, "expected "+expected, args...)
	}
	return n.Members()
}

// readOther reads what is no setting of the table: sections whose members have any names.
func (r *fileReader) readOther(k, v *yaml.Node, prefix string) {
	provider, ofProvider := strings.CutPrefix(strings.TrimSuffix(prefix, "."), providers)
	_, dotted := find(prefix + k.Text)
	switch name := k.Text; {
	case prefix == "" && name == "agents":
		r.named(agentNames, v, r.checkAgent)
	case prefix == "models.":
		r.namedOne(modelNames, k, v)
	case prefix == "" && name == "mcp":
		r.named(mcpNames, v, r.checkMCP)
	case prefix == "" && name == "channels":
		r.channels(v)
	case prefix == "" && removed(name) != "":
		r.Errorf(k, name, "%s", removed(name))
	case prefix == providers && !dotted:
		r.provider(k, v)
	case ofProvider && name == "headers":
		r.headers(v, provider)
	case ofProvider && name == "kind":
		r.presetKind(v, provider)
	default:
		r.unknown(k, prefix+name, prefix)
	}
}

// providers is the section whose members may have any name.
const providers = "providers."

// presetKind allows a preset's kind to be said, but not to be another: its name would no longer say what it is.
func (r *fileReader) presetKind(n *yaml.Node, name string) {
	known, _ := preset(name)
	s := kindSetting(name)
	r.setting(s, n)
	if v := r.values[s.Key]; v != nil && v.text != known.Kind {
		r.Errorf(n, s.Key, "the name %s is reserved for the provider of kind %s; choose another name", name, known.Kind)
	}
	delete(r.values, s.Key)
}

// provider reads a provider that is no preset.
func (r *fileReader) provider(at, n *yaml.Node) {
	name := at.Text
	key := providers + name
	switch {
	case name == "demo":
		r.Errorf(at, key, "demo is the built-in scripted model; choose another name")
		return
	case !providerName.MatchString(name):
		r.Errorf(at, key, "invalid name; a provider's name has only lower-case letters, digits, - and _")
		return
	case n.Kind != yaml.Mapping && n.Kind != yaml.Null:
		r.Errorf(n, key, "expected settings, one per line, such as \"kind: …\"")
		return
	}
	kind, ok := r.kind(at, n)
	if !ok {
		return
	}
	own := addedSettings(name, kind)
	r.added = append(r.added, own...)
	r.readSettings(n, key+".", own, func(k, v *yaml.Node, prefix string) {
		if k.Text == "headers" {
			r.headers(v, name)
		} else {
			r.unknownField(k, prefix+k.Text, kind, own)
		}
	})
	has := func(field string) bool { return n.Get(field) != nil }
	switch {
	case kind == KindVertex && !has("project") && !has("key"):
		r.Errorf(at, key, "needs a project; set project")
	case kind == KindBedrock && !has("region") && !has("profile") && !has("base_url"):
		r.Errorf(at, key, "needs a region; set region")
	case !has("base_url") && needsURL(kind):
		r.Errorf(at, key, "needs base_url, the server's address, such as %s", exampleURL(kind))
	}
	if !has("key") && (mustHaveKey(kind) || !has("base_url") && (kind == KindAnthropic || kind == KindGemini || kind == KindResponses)) {
		r.Errorf(at, key, "needs a key; expected key: {env: NAME} or {file: PATH}")
	}
}

// kind reads what decides which settings a provider has.
func (r *fileReader) kind(at, provider *yaml.Node) (string, bool) {
	key := providers + at.Text
	if n := provider.Get("kind"); n != nil {
		before := r.NumProblems()
		r.setting(kindSetting(at.Text), n)
		v := r.values[key+".kind"]
		if v == nil || r.NumProblems() > before {
			return "", false
		}
		if !slices.Contains(kinds, v.text) {
			delete(r.values, key+".kind")
			r.Errorf(n, key+".kind", "%v", noneOf(v.text, kinds))
			return "", false
		}
		return v.text, true
	}
	var names []string
	for _, p := range presets {
		names = append(names, p.Name)
	}
	r.Errorf(at, key, "needs a kind; expected one of %s%s", strings.Join(kinds, ", "), didYouMean(at.Text, names))
	return "", false
}

// didYouMean ends a sentence with the known name that was probably meant.
func didYouMean(name string, known []string) string {
	if near := edits.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func (r *fileReader) unknownField(at *yaml.Node, key, kind string, own []Setting) {
	field := key[strings.LastIndex(key, ".")+1:]
	for _, other := range kinds {
		for _, s := range providerSettings("x", "x", other) {
			if s.Key == "providers.x."+field {
				r.Errorf(at, key, "this setting is for providers of kind %s; this provider has kind %s", other, kind)
				return
			}
		}
	}
	r.Errorf(at, key, "unknown setting%s", didYouMean(key, keys(own)))
}

func (r *fileReader) unknown(at *yaml.Node, key, prefix string) {
	name := strings.TrimPrefix(key, prefix)
	s, ok := find(name)
	if !ok && strings.Contains(name, ".") {
		s, ok = find(key)
	}
	if ok && strings.Contains(s.Key, ".") {
		path := strings.Split(s.Key, ".")
		last := len(path) - 1
		r.Errorf(at, key, "unknown setting; move %q below \"%s:\"", path[last], strings.Join(path[:last], ": "))
		return
	}
	if _, ok := preset(name); ok {
		r.Errorf(at, key, "unknown setting; move \"%s:\" below \"providers:\"", name)
		return
	}
	r.Errorf(at, key, "unknown setting%s", didYouMean(key, keys(table)))
}

// setting stores a value as text. Whether it is the right kind of text is found out when it is set; only what YAML itself tells apart is
// looked at here.
func (r *fileReader) setting(s Setting, n *yaml.Node) {
	v := &value{from: Source{File, fmt.Sprintf("%s:%d", r.File, n.Line)}, at: r.place(n)}
	ok := true
	switch {
	case s.Key == "config":
		r.Errorf(n, s.Key, "this setting does not work in the configuration file; use --config or LINGSERVE_CONFIG")
		return
	case s.Key == pricesKey && n.Kind == yaml.Mapping:
		r.priced = r.rows(n, pricesKey)
	case n.Kind == yaml.Null:
		r.Errorf(n, s.Key, "the value is missing; expected %s", s.expected())
		return
	case s.isOptions():
		ok = r.options(s, n, v)
	case n.Kind == yaml.Mapping:
		ok = r.reference(s, n, v)
	case n.Kind == yaml.List && !s.isList() && !s.chain:
		r.Errorf(n, s.Key, "found a list; expected %s", s.expected())
		return
	case n.Kind == yaml.List:
		if ok = r.list(s, n, v); s.chain {
			v.text, v.list = strings.Join(v.list, ","), nil
		}
	case n.Kind == yaml.Text || s.isText():
		v.text, ok = r.Text(n, s.Key)
		if n.Block {
			v.text = strings.TrimSuffix(v.text, "\n")
		}
		r.hasKey = r.hasKey || s.Secret && v.text != "" || s.Key == "database" && strings.Contains(v.text, "@")
	default:
		v.text = n.Text
	}
	if ok {
		r.values[s.Key] = v
	}
}

// options reads what is asked of models.
func (r *fileReader) options(s Setting, n *yaml.Node, v *value) bool {
	v.text = string(n.AppendJSON(nil))
	_, misfits := adapter.ReadOptions([]byte(v.text), true)
	for _, misfit := range misfits {
		at := n.Find(misfit.At)
		if misfit.Name {
			at = n.FindKey(misfit.At)
		}
		r.Errorf(at, strings.Join(append([]string{s.Key}, misfit.At...), "."), "%s", misfit.Detail)
	}
	return len(misfits) == 0
}

func (r *fileReader) list(s Setting, n *yaml.Node, v *value) bool {
	v.list = []string{}
	for i, item := range n.Items {
		if item.Kind == yaml.List || item.Kind == yaml.Mapping || item.Kind == yaml.Null {
			r.Errorf(item, s.Key, "element %d of the list is %s; expected text%s", i+1, item.Kind, s.as("%s"))
		} else if text, ok := r.Text(item, s.Key); ok {
			v.list = append(v.list, text)
		}
	}
	r.hasKey = r.hasKey || s.Secret && len(v.list) > 0
	return len(v.list) == len(n.Items)
}

// reference resolves {env: NAME} and {file: PATH}, which keep secrets out of the configuration file.
func (r *fileReader) reference(s Setting, n *yaml.Node, v *value) bool {
	if s.isList() {
		r.Errorf(n, s.Key, "found %s; expected %s", n.Kind, s.expected())
		return false
	}
	if !s.isText() || len(n.Items) != 1 {
		r.Errorf(n, s.Key, "expected %s", s.expected())
		return false
	}
	name := n.Items[0]
	if name.Kind != yaml.Text || name.Text == "" {
		r.Errorf(name, s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	switch n.Keys[0].Text {
	case "env":
		v.text = r.env[name.Text]
		if v.text == "" {
			r.Errorf(name, s.Key, "the environment variable %s is not set; set it, or use another one", name.Text)
			return false
		}
		v.variable = name.Text
		v.from.Name += " (environment " + name.Text + ")"
	case "file":
		path := name.Text
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		text, err := readLimited(path, 64<<10)
		if err != nil {
			r.Errorf(name, s.Key, "cannot read the file: %s", plain(err))
			return false
		}
		v.text = strings.TrimRight(string(text), "\r\n")
		v.from.Name += " (file " + name.Text + ")"
		v.file = path
	default:
		r.Errorf(n.Keys[0], s.Key, "expected {env: NAME} or {file: PATH}")
		return false
	}
	return true
}

func (r *fileReader) place(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", r.File, n.Line, n.Column)
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

func find(key string) (Setting, bool) {
	return lookup(table, func(s Setting) bool { return s.Key == key })
}

func keys(settings []Setting) []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.Key)
	}
	return all
}

// firstKey is the first setting of a section, without the section's name, as an example.
func firstKey(settings []Setting, prefix string) string {
	for _, s := range settings {
		if name, ok := strings.CutPrefix(s.Key, prefix); ok {
			name, _, _ = strings.Cut(name, ".")
			return name
		}
	}
	return ""
}

package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// named is a section whose members may have any name, and what they are.
type named struct {
	section  string // "agents"
	many     string // "agents"
	one      string // "an agent"
	name     *regexp.Regexp
	rule     string // of the name, in words
	example  string // of a member
	settings func(name string) []Setting
}

// named reads the members of such a section. check looks at one as a whole.
func (r *fileReader) named(of named, m *ast.MappingValueNode, check func(at *token.Token, key string)) {
	members, ok := mapping(m.Value)
	if _, null := m.Value.(*ast.NullNode); !ok && !null {
		r.fail(m.Key.GetToken(), of.section, "expected names with settings for %s, such as \"%s\"", of.many, of.example)
	}
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil {
			continue
		}
		if r.namedOne(of, m) {
			check(m.Key.GetToken(), of.section+"."+m.Key.GetToken().Value)
		}
	}
}

// namedOne reads one member; false where nothing of it can be used. One without any settings is one with the defaults.
func (r *fileReader) namedOne(of named, m *ast.MappingValueNode) bool {
	at := m.Key.GetToken()
	name := at.Value
	key := of.section + "." + pathPart(name)
	if !of.name.MatchString(name) {
		r.fail(at, key, "invalid name; the name of %s has %s", of.one, of.rule)
		return false
	}
	own := of.settings(name)
	var keys []string
	for _, s := range own {
		keys = append(keys, s.Key)
	}
	members, ok := mapping(m.Value)
	if _, null := m.Value.(*ast.NullNode); !ok && !null {
		r.fail(at, key, "expected settings, one per line, such as \"%s: …\"", strings.TrimPrefix(keys[0], key+"."))
		return false
	}
	r.ofNames = append(r.ofNames, own...)
	for _, m := range members {
		if m.Key == nil || m.Key.GetToken() == nil {
			continue
		}
		field := key + "." + m.Key.GetToken().Value
		if i := slices.Index(keys, field); i >= 0 {
			r.setting(own[i], m)
		} else if near := Nearest(field, keys); near != "" {
			r.fail(m.Key.GetToken(), field, "unknown setting; did you mean %s?", near)
		} else {
			r.fail(m.Key.GetToken(), field, "unknown setting; expected a setting of %s: %s", of.one, strings.ReplaceAll(strings.Join(keys, ", "), key+".", ""))
		}
	}
	return true
}

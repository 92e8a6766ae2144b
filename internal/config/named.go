package config

import (
	"regexp"
	"slices"

	"github.com/lingserve/lingserve/internal/yaml"
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

// named reads the members of such a section. check checks the settings of one together.
func (l *loader) named(of named, n *yaml.Node, check func(at *yaml.Node, key string)) {
	for k, v := range l.members(n, []string{of.section}, "names with settings for %s, such as \"%s\"", of.many, of.example) {
		if l.namedOne(of, k, v) {
			check(k, of.section+"."+k.Text)
		}
	}
}

// namedOne reads one member. It returns false if the member has no settings. Nothing is a mapping without settings, which has the defaults.
func (l *loader) namedOne(of named, at, n *yaml.Node) bool {
	path := []string{of.section, at.Text}
	if !of.name.MatchString(at.Text) {
		l.Errorf(at, yaml.Path(path...), "invalid name; the name of %s has %s", of.one, of.rule)
		return false
	}
	known := of.settings(at.Text)
	l.applyDefaults(known)
	l.readSettings(n, path, known, func(k, _ *yaml.Node, path []string) { l.unknownOf(of.one, k, path, 2, known) })
	l.c.settings = append(l.c.settings, known...)
	return n.Kind == yaml.Mapping || n.Kind == yaml.Null
}

// element returns the first element that is accepts. Without one, it appends fresh.
func element[T any](list *[]T, is func(*T) bool, fresh T) *T {
	for i := range *list {
		if is(&(*list)[i]) {
			return &(*list)[i]
		}
	}
	*list = append(*list, fresh)
	return &(*list)[len(*list)-1]
}

// lookup returns the first element that is accepts.
func lookup[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}

package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

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

// named reads the members of such a section. check looks at one as a whole.
func (r *fileReader) named(of named, n *yaml.Node, check func(at *yaml.Node, key string)) {
	for k, v := range r.members(n, of.section, "names with settings for %s, such as \"%s\"", of.many, of.example) {
		if r.namedOne(of, k, v) {
			check(k, of.section+"."+k.Text)
		}
	}
}

// namedOne reads one member; false where nothing of it can be used. One without any settings is one with the defaults.
func (r *fileReader) namedOne(of named, at, n *yaml.Node) bool {
	key := yaml.Path(of.section, at.Text)
	if !of.name.MatchString(at.Text) {
		r.Errorf(at, key, "invalid name; the name of %s has %s", of.one, of.rule)
		return false
	}
	own := of.settings(at.Text)
	known := keys(own)
	ok := r.readSettings(n, key+".", own, func(k, _ *yaml.Node, prefix string) {
		expected := fmt.Sprintf("; expected a setting of %s: %s", of.one, strings.ReplaceAll(strings.Join(known, ", "), prefix, ""))
		r.Errorf(k, prefix+k.Text, "unknown setting%s", cmp.Or(didYouMean(prefix+k.Text, known), expected))
	})
	if ok {
		r.ofNames = append(r.ofNames, own...)
	}
	return ok
}

// element returns the element of a list that is accepts. If there is none, it appends fresh.
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

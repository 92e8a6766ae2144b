package flow

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
)

// reach finds out whether a document that fits a schema can have a value where a pattern matches (DW-11). Where it cannot tell, since a
// schema says more than it understands, there may be one.
type reach struct {
	root  any // the whole schema, which references go through
	kind  triggerKind
	steps int // left; a schema that refers to itself has no end
	// missing is the first name that the schema does not have, and known are those that it has at that place.
	missing string
	known   []string
}

// maxReach bounds the work for one pattern and schema.
const maxReach = 20_000

// allows says whether what b writes can fire t, as far as the schema of b says. Otherwise it says why not.
func allows(b *botSpec, t *trigger) (why string) {
	if b.output == nil {
		return ""
	}
	r := &reach{kind: t.kind, steps: maxReach}
	if json.Unmarshal(b.output, &r.root) != nil {
		return ""
	}
	for _, rest := range below(t.segments, b.segments) {
		if r.may(r.root, rest) {
			return ""
		}
	}
	if r.missing != "" {
		return fmt.Sprintf("the schema of %s has no %q%s expected one of %s", b.name, r.missing, sentence(suggest(r.missing, r.known)), list(r.known))
	}
	return fmt.Sprintf("the schema of %s allows no %s at %q", b.name, [...]string{"text", "object or list", "value"}[t.kind], t.text)
}

// below lists what is left of a pattern for the document of a bot with this root.
func below(pattern, root []segment) (rests [][]segment) {
	at := map[int]bool{0: true} // how many segments of the pattern the root has used up so far
	grow := func() {
		for i := range len(pattern) {
			if at[i] && pattern[i].star == many {
				at[i+1] = true
			}
		}
	}
	for _, s := range root {
		grow()
		next := map[int]bool{}
		for i := range len(pattern) + 1 {
			switch {
			case !at[i]:
			case s.star == many:
				for j := i; j <= len(pattern); j++ {
					next[j] = true
				}
			case i == len(pattern):
			case pattern[i].star == many:
				next[i] = true
			case pattern[i].star == one, s.star == one, pattern[i].literal == s.literal:
				next[i+1] = true
			}
		}
		at = next
	}
	for i := range len(pattern) + 1 {
		if at[i] {
			rests = append(rests, pattern[i:])
		}
	}
	return rests
}

// may says whether a value that fits s can have one of the kind at path.
func (r *reach) may(s any, path []segment) bool {
	if r.steps--; r.steps < 0 {
		return true
	}
	m, ok := s.(map[string]any)
	if !ok {
		return s != false
	}
	if ref, ok := m["$ref"].(string); ok {
		if target, ok := r.resolve(ref); ok && !r.may(target, path) {
			return false
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, ok := m[name].([]any)
		if !ok {
			continue
		}
		possible := 0
		for _, one := range list {
			if r.may(one, path) {
				possible++
			}
		}
		if possible == 0 || name == "allOf" && possible < len(list) {
			return false
		}
	}
	switch {
	case len(path) == 0:
		return r.fits(m)
	case path[0].star == many && r.may(s, path[1:]):
		return true
	}
	rest := path[1:]
	if path[0].star == many {
		rest = path
	}
	return isOf(m, "object") && r.member(m, path[0], rest) || isOf(m, "array") && r.element(m, path[0], rest)
}

// resolve follows a reference inside the schema.
func (r *reach) resolve(ref string) (any, bool) {
	if ref == "#" {
		return r.root, true
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	at := r.root
	for _, name := range strings.Split(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; !ok {
			return nil, false
		}
	}
	return at, true
}

// isOf says whether a schema allows values of a type.
func isOf(m map[string]any, names ...string) bool {
	switch t := m["type"].(type) {
	case string:
		return slices.Contains(names, t)
	case []any:
		return slices.ContainsFunc(t, func(one any) bool { name, _ := one.(string); return slices.Contains(names, name) })
	}
	return true
}

// fits says whether a schema allows values of the trigger's kind.
func (r *reach) fits(m map[string]any) bool {
	switch r.kind {
	case onString:
		return isOf(m, "string")
	case onObject:
		return isOf(m, "object", "array")
	}
	return true
}

// member goes on with the members of an object that the segment names.
func (r *reach) member(m map[string]any, s segment, rest []segment) bool {
	properties, _ := m["properties"].(map[string]any)
	patterns, _ := m["patternProperties"].(map[string]any)
	others, closed := m["additionalProperties"]
	if s.star != none {
		for _, one := range properties {
			if r.may(one, rest) {
				return true
			}
		}
		for _, one := range patterns {
			if r.may(one, rest) {
				return true
			}
		}
		return !closed || r.may(others, rest)
	}
	name := s.literal
	if parts, err := jsonuri.Parse(name); err == nil && len(parts) == 1 {
		name = parts[0]
	}
	one, found := properties[name]
	if found && !r.may(one, rest) {
		return false
	}
	for pattern, one := range patterns {
		p, err := regexp.Compile(pattern)
		if err != nil {
			return true
		}
		if p.MatchString(name) {
			if found = true; !r.may(one, rest) {
				return false
			}
		}
	}
	if found || !closed {
		return true
	}
	if r.may(others, rest) {
		return true
	}
	if r.missing == "" && others == false && len(properties) > 0 {
		r.missing = name
		for name := range properties {
			r.known = append(r.known, name)
		}
		slices.Sort(r.known)
	}
	return false
}

// element goes on with the elements of a list that the segment names.
func (r *reach) element(m map[string]any, s segment, rest []segment) bool {
	first, _ := m["prefixItems"].([]any)
	others, closed := m["items"]
	if s.star == none {
		i, err := strconv.Atoi(s.literal)
		switch {
		case err != nil || i < 0:
			return false
		case i < len(first):
			return r.may(first[i], rest)
		}
		return !closed || r.may(others, rest)
	}
	for _, one := range first {
		if r.may(one, rest) {
			return true
		}
	}
	return !closed || r.may(others, rest)
}

package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Resources that scopes are of.
const (
	workflows = "workflows"
	agents    = "agents"
	sessions  = "sessions"
	admin     = "admin"
)

var resources = []string{workflows, agents, sessions, admin}

// Scopes narrow what a principal may. The zero value narrows nothing; [ParseScopes] makes others.
type Scopes struct {
	listed bool // only what is in the list
	list   []scope
}

// scope is one of them: a resource and, where it has names, a pattern for them.
type scope struct{ resource, pattern string }

func (s scope) String() string {
	if s.pattern == "*" {
		return s.resource
	}
	return s.resource + ":" + s.pattern
}

const (
	maxScopes = 64
	// maxPattern is longer than any name of a workflow or agent that makes sense.
	maxPattern = 128
)

// ParseScopes reads scopes as they are written in a list: "workflows", "workflows:PATTERN", "agents", "agents:PATTERN", "sessions"
// and "admin". In a pattern "*" stands for any letters, none included. No scopes at all narrow nothing.
func ParseScopes(list []string) (Scopes, error) {
	if len(list) == 0 {
		return Scopes{}, nil
	}
	s := Scopes{listed: true}
	if len(list) > maxScopes {
		return Scopes{}, fmt.Errorf("too many scopes: %d; expected at most %d", len(list), maxScopes)
	}
	for _, text := range list {
		one, err := parseScope(text)
		if err != nil {
			return Scopes{}, err
		}
		if !slices.Contains(s.list, one) {
			s.list = append(s.list, one)
		}
	}
	return s, nil
}

func parseScope(text string) (scope, error) {
	resource, pattern, named := strings.Cut(text, ":")
	switch {
	case !slices.Contains(resources, resource):
		return scope{}, fmt.Errorf("unknown scope %q; expected %s, %s:PATTERN, %s, %s:PATTERN, %s or %s",
			short(text), workflows, workflows, agents, agents, sessions, admin)
	case !named:
		pattern = "*"
	case resource != workflows && resource != agents:
		return scope{}, fmt.Errorf("the scope %s takes no pattern; write only its name", resource)
	case pattern == "":
		return scope{}, fmt.Errorf("the scope %q has no pattern after the colon; expected one such as %s:team-*", short(text), resource)
	case len(pattern) > maxPattern:
		return scope{}, fmt.Errorf("a scope's pattern is too long: %d bytes; expected at most %d", len(pattern), maxPattern)
	case strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '+' || r == ',' }):
		return scope{}, errors.New("a scope's pattern contains a space, a comma or a +; remove it")
	}
	return scope{resource, pattern}, nil
}

// scopesOf reads the scopes of a token: those that begin with prefix, and mean something here. Issuers put scopes of others beside
// them, so none is wrong; but where none is left, nothing is allowed.
func scopesOf(list []string, prefix string) Scopes {
	s := Scopes{listed: true}
	for _, text := range list {
		own, ok := strings.CutPrefix(text, prefix)
		if !ok || len(s.list) == maxScopes {
			continue
		}
		if one, err := parseScope(own); err == nil && !slices.Contains(s.list, one) {
			s.list = append(s.list, one)
		}
	}
	return s
}

// MarshalJSON writes a list of scopes. Scopes that narrow nothing have no list: leave them out with omitzero.
func (s Scopes) MarshalJSON() ([]byte, error) {
	if !s.listed {
		return nil, errors.New("access: scopes that narrow nothing are left out, and not written")
	}
	list := make([]string, len(s.list))
	for i, one := range s.list {
		list[i] = one.String()
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what MarshalJSON has written. An empty list allows nothing. An unknown scope is an error, so that a principal
// of a newer version has no more rights here.
func (s *Scopes) UnmarshalJSON(data []byte) error {
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("access: scopes are null; expected a list")
	}
	scopes, err := ParseScopes(list)
	scopes.listed = true
	*s = scopes
	return err
}

// All says that nothing is narrowed.
func (s Scopes) All() bool { return !s.listed }

// has says whether one is of a resource.
func (s Scopes) has(resource string) bool {
	return slices.ContainsFunc(s.list, func(one scope) bool { return one.resource == resource })
}

// allow says whether the scopes let something be used; "" is what has no name, and needs all of the resource.
func (s Scopes) allow(resource, name string) bool {
	if !s.listed {
		return true
	}
	for _, one := range s.list {
		if one.resource == resource && (one.pattern == "*" || name != "" && match(one.pattern, name)) {
			return true
		}
	}
	return false
}

// String writes the scopes as in a line of a key file, joined by "+"; "" narrows nothing.
func (s Scopes) String() string {
	if s.listed && len(s.list) == 0 {
		return "none"
	}
	texts := make([]string, len(s.list))
	for i, one := range s.list {
		texts[i] = one.String()
	}
	return strings.Join(texts, "+")
}

// match reports whether a name fits a pattern, in which each "*" stands for any text.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return name == pattern
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1:last] { // the earliest place of a part leaves the most to the next ones
		if ok {
			_, rest, ok = strings.Cut(rest, part)
		}
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

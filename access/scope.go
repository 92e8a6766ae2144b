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

// Scopes narrow what a principal may. Nil narrows nothing, and an empty list allows nothing; [ParseScopes] makes others. Each is the name of a
// resource or, where it has names, RESOURCE:PATTERN.
type Scopes []string

const (
	maxScopes = 64
	// maxPattern is longer than any name of a workflow or agent that makes sense.
	maxPattern = 128
)

// ParseScopes reads scopes as they are written in a list: "workflows", "workflows:PATTERN", "agents", "agents:PATTERN", "sessions"
// and "admin". In a pattern "*" stands for any letters, none included. No scopes at all narrow nothing.
func ParseScopes(list []string) (Scopes, error) {
	if len(list) > maxScopes {
		return nil, fmt.Errorf("too many scopes: %d; expected at most %d", len(list), maxScopes)
	}
	var s Scopes
	for _, text := range list {
		one, err := parseScope(text)
		if err != nil {
			return nil, err
		}
		s = s.with(one)
	}
	return s, nil
}

// with returns the scopes with another one.
func (s Scopes) with(one string) Scopes {
	if slices.Contains(s, one) {
		return s
	}
	return append(s, one)
}

func parseScope(text string) (string, error) {
	resource, pattern, named := strings.Cut(text, ":")
	switch {
	case !slices.Contains(resources, resource):
		return "", fmt.Errorf("unknown scope %q; expected %s, %s:PATTERN, %s, %s:PATTERN, %s or %s",
			short(text), workflows, workflows, agents, agents, sessions, admin)
	case !named:
		return resource, nil
	case resource != workflows && resource != agents:
		return "", fmt.Errorf("the scope %s takes no pattern; write only its name", resource)
	case pattern == "":
		return "", fmt.Errorf("the scope %q has no pattern after the colon; expected one such as %s:team-*", short(text), resource)
	case len(pattern) > maxPattern:
		return "", fmt.Errorf("a scope's pattern is too long: %d bytes; expected at most %d", len(pattern), maxPattern)
	case strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '+' || r == ',' }):
		return "", errors.New("a scope's pattern contains a space, a comma or a +; remove it")
	}
	return strings.TrimSuffix(text, ":*"), nil
}

// scopesOf reads the scopes of a token: those that begin with prefix, and mean something here. Issuers put scopes of others beside
// them, so none is wrong; but where none is left, nothing is allowed.
func scopesOf(list []string, prefix string) Scopes {
	s := Scopes{}
	for _, text := range list {
		own, ok := strings.CutPrefix(text, prefix)
		if one, err := parseScope(own); ok && err == nil && len(s) < maxScopes {
			s = s.with(one)
		}
	}
	return s
}

// UnmarshalJSON reads a list of scopes. An unknown scope is an error, so that a principal of a newer version has no more rights here.
func (s *Scopes) UnmarshalJSON(data []byte) error {
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("access: scopes are null; expected a list")
	}
	scopes, err := ParseScopes(list)
	*s = append(Scopes{}, scopes...)
	return err
}

// All says that nothing is narrowed.
func (s Scopes) All() bool { return s == nil }

// allow says whether the scopes let something be used; "" is what has no name, and needs all of the resource.
func (s Scopes) allow(resource, name string) bool {
	return s == nil || slices.ContainsFunc(s, func(one string) bool {
		of, pattern, named := strings.Cut(one, ":")
		return of == resource && (!named || name != "" && match(pattern, name))
	})
}

// String writes the scopes as in a line of a key file, joined by "+"; "" narrows nothing.
func (s Scopes) String() string {
	if s != nil && len(s) == 0 {
		return "none"
	}
	return strings.Join(s, "+")
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

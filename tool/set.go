package tool

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Set is the tools of one agent. It is safe for concurrent use. The zero value is empty.
type Set struct {
	mu      sync.RWMutex
	own     []*Tool
	sources []Source
	// allow, where it is set, hides what does not match.
	allow []string
}

// Source has tools that come and go, as those of a server do. Tools is asked often and must not wait. A [Set] is a source.
type Source interface{ Tools() []*Tool }

// NewSet makes a set of tools.
func NewSet(tools ...*Tool) (*Set, error) {
	s := &Set{}
	return s, s.Add(tools...)
}

// Add puts tools into the set: all of them, or none where one cannot be used or has the name of another, which it also has where
// the names differ only in dots and underscores.
func (s *Set) Add(tools ...*Tool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]string{}
	for _, t := range s.merged() {
		known[t.Wire()] = t.Name
	}
	for _, t := range tools {
		if err := t.Check(); err != nil {
			return err
		}
		if other, ok := known[t.Wire()]; ok {
			return fmt.Errorf("tool %s: another tool is already called %s", t.Name, other)
		}
		known[t.Wire()] = t.Name
	}
	s.own = append(s.own, tools...)
	return nil
}

// Attach adds the current tools of a source at each use. One that cannot be used, or whose name another
// tool has, is left out: the set's own come first, then the sources as they were attached.
func (s *Set) Attach(src Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, src)
}

// Tools lists the tools, by name.
func (s *Set) Tools() []*Tool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.merged()
}

func (s *Set) merged() []*Tool {
	out := slices.Clone(s.own)
	seen := map[string]bool{}
	for _, t := range out {
		seen[t.Wire()] = true
	}
	for _, src := range s.sources {
		for _, t := range src.Tools() {
			if w := t.Wire(); !seen[w] && t.Check() == nil {
				seen[w] = true
				out = append(out, t)
			}
		}
	}
	if s.allow != nil {
		out = slices.DeleteFunc(out, func(t *Tool) bool {
			return !slices.ContainsFunc(s.allow, func(pattern string) bool { return Matches(t.Name, pattern) })
		})
	}
	slices.SortFunc(out, func(a, b *Tool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns the tool of that name, dotted or as a model writes it.
func (s *Set) Find(name string) (*Tool, bool) { return find(s.Tools(), name) }

func find(tools []*Tool, name string) (*Tool, bool) {
	wire := Wire(name)
	for _, t := range tools {
		if t.Wire() == wire {
			return t, true
		}
	}
	return nil, false
}

// Subset is a set of those tools of s that match one of the patterns: a name, or "prefix.*" for all below it, or "*". What s gets
// later, it has too.
func (s *Set) Subset(patterns ...string) *Set {
	return &Set{sources: []Source{s}, allow: append([]string{}, patterns...)}
}

// Named says whether a tool of this name is meant: by that name, or by the one that models see, which has no dots. No other tool is meant by either.
func Named(name, meant string) bool {
	return meant == name || meant == Wire(name)
}

// Matches reports whether a pattern means a tool of this name: it is [Named] so, or the pattern is "*" or the beginning of the name with a
// dot and a star ("fs.*").
func Matches(name, pattern string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	if wild && strings.HasPrefix(name, prefix) && (prefix == "" || strings.HasSuffix(prefix, ".")) {
		return true
	}
	return Named(name, pattern)
}

package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// filter hides uris from clients.
type filter struct{ exclude, include []*filterPattern }

// filterPattern covers what its text matches and everything below.
type filterPattern struct {
	*jsonuri.Pattern
	text     string // as it is written
	at       *yaml.Node
	segments []segment // of the compiled pattern
}

// below returns the filter of what is written below root.
func (f *filter) below(root string) tube.Filter {
	matchers := func(patterns []*filterPattern) (out []tube.Matcher) {
		for _, p := range patterns {
			out = append(out, p)
		}
		return out
	}
	return tube.Filter{Root: root, Exclude: matchers(f.exclude), Include: matchers(f.include)}
}

func (l *loader) filter(n *yaml.Node) *filter {
	if n == nil {
		return nil
	}
	f := l.Fields(n, "filter", "exclude", "include")
	patterns := func(what string) (out []*filterPattern) {
		l.Texts(f[what], what, func(n *yaml.Node, t string) {
			p, err := compilePattern(t)
			full := t
			if err == nil && t != "**" && !strings.HasSuffix(t, "/**") {
				full = strings.TrimPrefix(t+"/**", "/")
				p, err = compilePattern(full)
			}
			if err != nil {
				l.Errorf(n, what, "%s", plainError(err))
				return
			}
			out = append(out, &filterPattern{Pattern: p, text: t, at: n, segments: patternSegments(full)})
		})
		return out
	}
	return &filter{patterns("exclude"), patterns("include")}
}

// checkFilters reports patterns that can match nothing that the bots write. Such a pattern of exclude would hide nothing, and show what
// its author wants to hide.
func (l *loader) checkFilters(s *spec) {
	if len(s.bots) == 0 || l.unclear {
		return
	}
	l.checkFilter(s.filter, s.bots)
	for _, b := range s.bots {
		l.checkFilter(b.filter, []*botSpec{b})
	}
}

func (l *loader) checkFilter(f *filter, bots []*botSpec) {
	if f == nil {
		return
	}
	check := func(patterns []*filterPattern, what, does string) {
		for _, p := range patterns {
			if jsonuri.Reserved(p.text) {
				continue
			}
			missing, ok := unmatched(bots, p.segments)
			if ok {
				continue
			}
			if missing == "" {
				missing = unwritten(bots, p.text)
				for _, b := range bots {
					if root, fixed := static(b.segments); fixed && root != "" && b.mayWrite(append(slices.Clone(b.segments), p.segments...), nil) {
						missing += fmt.Sprintf("; did you mean %q?", root+"/"+short(p.text))
						break
					}
				}
			}
			l.Errorf(p.at, what, "the pattern %s nothing: %s", does, missing)
		}
	}
	check(f.exclude, "exclude", "hides")
	check(f.include, "include", "shows")
}

// unmatched returns ok if one of the bots may write what the pattern matches, or else which property their schemas lack, if they say so.
func unmatched(bots []*botSpec, pattern []segment) (missing string, ok bool) {
	for _, b := range bots {
		w := &schemaWalk{pattern: pattern, bot: b.name}
		if b.mayWrite(pattern, w) {
			return "", true
		}
		if missing == "" {
			missing = w.missing
		}
	}
	return missing, false
}

// mayWrite reports whether the bot may write something that the pattern matches, as far as its root, format and, if w is given, schema say.
func (b *botSpec) mayWrite(pattern []segment, w *schemaWalk) bool {
	if b.format == bot.Text {
		return meet(pattern, b.segments)
	}
	if !meet(pattern, append(slices.Clone(b.segments), anySegments)) {
		return false
	}
	if w == nil || b.output == nil {
		return true
	}
	var schema any
	if json.Unmarshal(b.output, &schema) != nil {
		return true
	}
	at := w.enter(make([]bool, len(pattern)+1), 0)
	for _, s := range b.segments {
		at = w.step(at, s)
	}
	return w.reaches(schema, at)
}

// schemaWalk finds out whether a schema allows a value at a uri that a pattern matches. It follows all ways through the schema at once: each
// position in the pattern is marked that a way has reached.
type schemaWalk struct {
	pattern []segment
	bot     string
	missing string // says which property the schema lacks
}

// enter marks position i, and those behind it if the pattern has "**" there.
func (w *schemaWalk) enter(at []bool, i int) []bool {
	for ; ; i++ {
		at[i] = true
		if i == len(w.pattern) || w.pattern[i].star != many {
			return at
		}
	}
}

// step follows a segment of a uri from all marked positions. A star stands for any segment that may be there.
func (w *schemaWalk) step(at []bool, s segment) []bool {
	next := make([]bool, len(at))
	for i, p := range w.pattern {
		switch {
		case !at[i]:
		case p.star == many:
			w.enter(next, i)
		case p.star == one || s.star != none || p.literal == s.literal:
			w.enter(next, i+1)
		}
	}
	if s.star != many {
		return next
	}
	// It may stand for no segment, or for several.
	for i := range at {
		next[i] = next[i] || at[i]
	}
	if slices.Equal(next, at) {
		return next
	}
	return w.step(next, s)
}

// reaches reports whether the pattern may match a value that the schema allows, or one below. What the schema leaves open is allowed, except a
// name that is nearly that of a property.
func (w *schemaWalk) reaches(schema any, at []bool) bool {
	if at[len(w.pattern)] {
		return true
	}
	s, ok := schema.(map[string]any)
	if !ok {
		return schema != false
	}
	for _, word := range []string{"$ref", "$dynamicRef", "$recursiveRef", "allOf", "if", "patternProperties", "dependentSchemas", "dependencies", "prefixItems"} {
		if _, ok := s[word]; ok {
			return true // more than is followed here
		}
	}
	properties, hasProperties := s["properties"].(map[string]any)
	items, hasItems := s["items"]
	for _, word := range []string{"anyOf", "oneOf"} {
		if alternatives, ok := s[word].([]any); ok {
			if hasProperties || hasItems {
				return true
			}
			return slices.ContainsFunc(alternatives, func(a any) bool { return w.reaches(a, at) })
		}
	}
	kinds := types(s["type"])
	if kinds == nil || slices.Contains(kinds, "object") {
		for name, sub := range properties {
			if next := w.step(at, segment{literal: jsonuri.Format(name)}); slices.Contains(next, true) && w.reaches(sub, next) {
				return true
			}
		}
		if w.reachesOther(s, properties, at) {
			return true
		}
	}
	if kinds == nil && !hasItems && hasProperties || kinds != nil && !slices.Contains(kinds, "array") {
		return false
	}
	// The elements of a list.
	next := make([]bool, len(at))
	for i, p := range w.pattern {
		if _, err := strconv.Atoi(p.literal); at[i] && (p.star != none || err == nil) {
			w.enter(next, i+1)
			if p.star == many {
				w.enter(next, i)
			}
		}
	}
	if !slices.Contains(next, true) {
		return false
	}
	return !hasItems || w.reaches(items, next)
}

// reachesOther is reaches for the members of an object that its schema does not name.
func (w *schemaWalk) reachesOther(s, properties map[string]any, at []bool) bool {
	names := slices.Sorted(maps.Keys(properties))
	closed := s["additionalProperties"] == false || s["unevaluatedProperties"] == false
	for i, p := range w.pattern {
		if !at[i] {
			continue
		}
		if p.star != none {
			if !closed {
				return true
			}
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return jsonuri.Format(name) == p.literal }) {
			continue // its schema says what is below
		}
		if !closed && edits.Nearest(p.literal, names) == "" {
			return true
		}
		if w.missing == "" {
			w.missing = fmt.Sprintf("the schema of %s has no property %q", w.bot, short(p.literal))
			if n := len(names); n > 0 {
				w.missing += fmt.Sprintf("%s expected one of %s", edits.DidYouMean(p.literal, names, ";"), list(names[:min(n, 12)]))
			}
		}
	}
	return false
}

// unmatchedFilters warns of patterns of filters that matched nothing, although bots ended well that could have written it, and none failed. These
// are the filters of the workflow and its bots, and those of the request. Nothing runs any more.
func (r *run) unmatchedFilters(result func() *jsonuri.Document) (warnings []warning) {
	check := func(name, what string, bots []int, m tube.Matcher) {
		var text string
		var segments []segment
		switch p := m.(type) {
		case *filterPattern:
			text, segments = p.text, p.segments
		case *jsonuri.Pattern:
			text, segments = p.String(), patternSegments(p.String())
		default:
			return
		}
		wrote := false
		for _, i := range bots {
			if !r.spec.bots[i].mayWrite(segments, nil) {
				continue
			}
			if r.bots[i].failed > 0 {
				return
			}
			wrote = wrote || r.bots[i].finished > 0
		}
		// A request's pattern that no bot can match is a mistake whatever has happened.
		if !wrote && slices.ContainsFunc(bots, func(i int) bool { return r.spec.bots[i].mayWrite(segments, nil) }) {
			return
		}
		matched := jsonuri.Reserved(text)
		result().Walk(func(uri string, _ []byte) bool {
			matched = matched || m.Match([]byte(uri))
			return !matched
		})
		if !matched {
			warnings = append(warnings, warning{Code: codeFilterUnmatched, Bot: name, Message: fmt.Sprintf("the filter's pattern %s in %s matched nothing", short(text), what)})
		}
	}
	each := func(name string, bots []int, f tube.Filter) {
		for _, m := range f.Exclude {
			check(name, "exclude", bots, m)
		}
		for _, m := range f.Include {
			check(name, "include", bots, m)
		}
	}
	all := make([]int, len(r.spec.bots))
	for i := range all {
		all[i] = i
	}
	for _, f := range r.manager.Tube().Filters() {
		each("", all, f)
	}
	for i, b := range r.spec.bots {
		if b.filter != nil {
			each(b.name, []int{i}, b.filter.below(""))
		}
	}
	return warnings
}

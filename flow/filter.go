package flow

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bot"
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
	segments []string // of the compiled pattern
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
			out = append(out, &filterPattern{Pattern: p, text: t, at: n, segments: splitURI(full)})
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
			if slices.ContainsFunc(bots, func(b *botSpec) bool { return b.mayWrite(p.segments) }) {
				continue
			}
			l.Errorf(p.at, what, "the pattern %s nothing: no bot writes to %q; %s", does, short(p.text), writers(bots))
		}
	}
	check(f.exclude, "exclude", "hides")
	check(f.include, "include", "shows")
}

// mayWrite reports whether the bot may write something that the pattern matches, as far as its root and format say.
func (b *botSpec) mayWrite(pattern []string) bool {
	if b.format == bot.Text {
		return meet(pattern, b.segments)
	}
	return meet(pattern, append(slices.Clone(b.segments), many))
}

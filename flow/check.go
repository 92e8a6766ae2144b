package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bot"
)

// link finds out what starts what, and reports what cannot work: triggers that nothing fires, bots that wait for themselves
// or start each other without end, and bots that write over each other.
func (l *loader) link(s *spec) {
	var names []string
	for _, b := range s.bots {
		names = append(names, b.name)
		s.steps = append(s.steps, &b.step)
	}
	for _, e := range s.events {
		s.steps = append(s.steps, &e.step)
	}
	for i, st := range s.steps {
		for _, t := range st.on {
			l.sources(s, names, listener{t, i})
		}
	}
	s.starts = make([][]int, len(s.bots))
	for i, b := range s.bots {
		b.refused = b.unread
		for _, t := range b.on {
			b.refused = b.refused || len(t.sources) == 0
			b.sources = append(b.sources, t.sources...)
		}
		slices.Sort(b.sources)
		b.sources = slices.Compact(b.sources)
		for _, source := range b.sources {
			s.starts[source] = append(s.starts[source], i)
		}
	}
	if len(s.bots) == 0 || l.unclear {
		return
	}
	l.reachable(s)
	if !l.selfWaits(s) {
		l.cycles(s)
	}
	l.collisions(s)
}

// sources finds the bots that can fire a trigger, and enters it into their listeners.
func (l *loader) sources(s *spec, names []string, to listener) {
	t := to.trigger
	for _, n := range t.names {
		i := slices.Index(names, n.Text)
		if i < 0 {
			l.Errorf(n, "on", "%s", notOneOf("unknown bot", n.Text, names))
			t.bots, t.sources = nil, nil
			return
		}
		t.bots = append(t.bots, i)
	}
	if t.names != nil {
		if t.sources = t.bots; t.ends() {
			s.waits = append(s.waits, to)
		}
		return
	}
	for i, b := range s.bots {
		if t.fits(b) {
			t.sources = append(t.sources, i)
			b.listeners = append(b.listeners, to)
		}
	}
	if len(t.sources) == 0 {
		what := map[triggerKind]string{onString: "a text", onObject: "an object or list", onValue: "a value"}[t.kind]
		l.Errorf(t.at, "on", "no bot writes %s at %q; %s", what, short(t.text), writers(s.bots))
	}
}

// writers says where bots write.
func writers(bots []*botSpec) string {
	var roots []string
	for _, b := range bots {
		where := fmt.Sprintf("%s writes below %q", b.name, b.rootText)
		if b.format != bot.JSON {
			where = fmt.Sprintf("%s writes %s to %q", b.name, b.format, b.rootText)
		}
		roots = append(roots, where)
	}
	if len(roots) > 8 {
		roots = append(roots[:8], "others elsewhere")
	}
	return list(roots)
}

// closure marks what can be reached from the marked ones.
func closure(marked []bool, edges [][]int) {
	var walk func(i int)
	walk = func(i int) {
		for _, next := range edges[i] {
			if !marked[next] {
				marked[next] = true
				walk(next)
			}
		}
	}
	for i, m := range slices.Clone(marked) {
		if m {
			walk(i)
		}
	}
}

// reachable reports bots whose triggers nothing that starts can fire.
func (l *loader) reachable(s *spec) {
	reached := make([]bool, len(s.bots))
	for i, b := range s.bots {
		// A bot whose trigger was refused is not reported a second time, nor is what it starts.
		reached[i] = len(b.sources) == 0
	}
	closure(reached, s.starts)
	for i, b := range s.bots {
		if !reached[i] {
			l.Errorf(b.on[0].at, "on", "%s never starts: no bot without on: leads to this trigger", b.name)
		}
	}
}

// selfWaits reports bots that wait for the end of what they can start themselves.
func (l *loader) selfWaits(s *spec) (found bool) {
	for i, b := range s.bots {
		from := make([]bool, len(s.bots))
		from[i] = true
		closure(from, s.starts)
		for _, t := range b.on {
			if !t.ends() {
				continue
			}
			for k, target := range t.bots {
				if !from[target] {
					continue
				}
				found = true
				l.Errorf(t.names[k], "on", "%s waits for the end of %s, which it can start itself; use another trigger", b.name, s.bots[target].name)
			}
		}
	}
	return found
}

// cycles reports bots that start each other without a bound.
func (l *loader) cycles(s *spec) {
	state := make([]byte, len(s.bots)) // 0 new, 1 on the way, 2 done
	var way []int
	var walk func(i int)
	walk = func(i int) {
		state[i] = 1
		way = append(way, i)
		for _, next := range s.starts[i] {
			switch {
			case s.bots[next].bounded || state[next] == 2:
			case state[next] == 0:
				walk(next)
			default:
				b := s.bots[next]
				var names []string
				for _, w := range way[slices.Index(way, next):] {
					names = append(names, s.bots[w].name)
				}
				l.Errorf(b.on[0].at, "on", "%s → %s is an endless loop; give one of its bots max: or when:", strings.Join(names, " → "), b.name)
			}
		}
		way = way[:len(way)-1]
		state[i] = 2
	}
	for i, b := range s.bots {
		if state[i] == 0 && !b.bounded {
			walk(i)
		}
	}
}

// collisions reports bots that would write to the same place at the same time. Roots that templates give are not compared, and neither are
// bots behind the end or failure of others: a run reports it where these conflict.
func (l *loader) collisions(s *spec) {
	early := s.early()
	for i, b := range s.bots {
		root, ok := static(b.segments)
		if !ok || b.refused {
			continue
		}
		if b.overlaps() && b.max != 1 && b.concurrency != 1 {
			use := "what the trigger matched, as in {{ event.match.0 }}"
			if len(b.on) > 1 {
				use = "what tells them apart, as in {{ event.bot }}"
			}
			l.Errorf(b.rootAt, "root", "%s can run several times at once and would always write to %q; use %s, or set concurrency: 1", b.name, root, use)
		}
		for j, other := range s.bots {
			otherRoot, ok := static(other.segments)
			if !ok || i == j || other.refused || !early[i] || !early[j] {
				continue
			}
			if b.format != bot.JSON && otherRoot != root && (root == "" || strings.HasPrefix(otherRoot, root+"/")) {
				l.Errorf(b.rootAt, "root", "%s writes %s to %q, but %s writes below it, to %q; choose another root for one of them", b.name, b.format, root, other.name, otherRoot)
			}
			// Documents without a root merge, and of two conditions only one may hold.
			merge := root == "" && b.format == bot.JSON && other.format == bot.JSON
			if i < j && root == otherRoot && !merge && !(b.conditional && other.conditional) {
				l.Errorf(other.rootAt, "root", "%s and %s can run at the same time and would both write to %q; choose another root for one of them", b.name, other.name, root)
			}
		}
	}
}

// early marks the bots that start with the run, and those that start while others of them write.
func (s *spec) early() []bool {
	marked, edges := make([]bool, len(s.bots)), make([][]int, len(s.bots))
	waits := func(i int) bool {
		return slices.ContainsFunc(s.bots[i].on, func(t *trigger) bool { return t.kind >= onDone })
	}
	for i, b := range s.bots {
		marked[i] = b.on == nil
		edges[i] = slices.DeleteFunc(slices.Clone(s.starts[i]), waits)
	}
	closure(marked, edges)
	return marked
}

// overlaps says whether two starts of the bot can run at once, as far as its triggers say. Of triggers that wait for the failure or
// success of bots, one fires as a rule: they are the ways in which something can go.
func (b *botSpec) overlaps() bool {
	single := 0
	for _, t := range b.on {
		if t.repeats() {
			return true
		}
		if t.kind <= onDone {
			single++
		}
	}
	return single > 1
}

// firstSegments lists the names at the top of the result, as far as all of them are known.
func (s *spec) firstSegments() []string {
	var out []string
	for _, b := range s.bots {
		if len(b.segments) == 0 || isStar(b.segments[0]) {
			return nil
		}
		if name := b.segments[0]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Package fair has a queue in which callers take turns.
package fair

import (
	"iter"
	"slices"
)

// Queue holds values that wait. Callers take turns, so that one with a thousand values keeps another one waiting for a single value; the values of a
// caller come in the order in which they were added (DO-08). The zero value is empty and ready. It is not safe for concurrent use.
type Queue[V any] struct {
	callers []*caller[V] // the next first
	length  int
}

// caller is one whose values wait.
type caller[V any] struct {
	name   string
	places []*Place[V] // the next first
}

// Place is where a value waits.
type Place[V any] struct {
	Value  V
	caller *caller[V]
}

// Len is the number of values.
func (q *Queue[V]) Len() int { return q.length }

// Push adds a value behind the others of its caller.
func (q *Queue[V]) Push(name string, v V) *Place[V] {
	i := slices.IndexFunc(q.callers, func(c *caller[V]) bool { return c.name == name })
	if i < 0 {
		i = len(q.callers)
		q.callers = append(q.callers, &caller[V]{name: name})
	}
	c := q.callers[i]
	p := &Place[V]{v, c}
	c.places = append(c.places, p)
	q.length++
	return p
}

// First returns the place whose turn it is; nil where nothing waits.
func (q *Queue[V]) First() *Place[V] {
	for p := range q.All() {
		return p
	}
	return nil
}

// All yields the values: those of the caller whose turn it is first. The loop ends with the first change.
func (q *Queue[V]) All() iter.Seq[*Place[V]] {
	return func(yield func(*Place[V]) bool) {
		for _, c := range q.callers {
			for _, p := range c.places {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// InOrder yields the values in the order in which they are taken if nothing else comes.
func (q *Queue[V]) InOrder() iter.Seq[V] {
	return func(yield func(V) bool) {
		left := q.length
		for turn := 0; left > 0; turn++ {
			for _, c := range q.callers {
				if turn >= len(c.places) {
					continue
				}
				if left--; !yield(c.places[turn].Value) {
					return
				}
			}
		}
	}
}

// Take removes a value that has waited long enough. Its caller then comes behind the others.
func (q *Queue[V]) Take(p *Place[V]) {
	i := slices.Index(q.callers, p.caller)
	q.callers = append(slices.Delete(q.callers, i, i+1), p.caller)
	q.Remove(p)
}

// Remove removes a value.
func (q *Queue[V]) Remove(p *Place[V]) {
	c := p.caller
	i := slices.Index(c.places, p)
	c.places = slices.Delete(c.places, i, i+1)
	q.length--
	if len(c.places) == 0 {
		i := slices.Index(q.callers, c)
		q.callers = slices.Delete(q.callers, i, i+1)
	}
}

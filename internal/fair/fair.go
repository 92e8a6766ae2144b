// Package fair has a queue in which callers take turns.
package fair

import (
	"container/list"
	"iter"
)

// Queue holds values that wait. Callers take turns, so that one with a thousand values keeps another one waiting for a single value; the values of a
// caller come in the order in which they were added (DO-08). The zero value is empty and ready. It is not safe for concurrent use.
type Queue[V any] struct {
	callers list.List // of *caller[V], the next first
	byName  map[string]*list.Element
	length  int
}

// caller is one whose values wait.
type caller[V any] struct {
	name   string
	places list.List // of *Place[V], the next first
}

// Place is where a value waits.
type Place[V any] struct {
	Value  V
	caller *list.Element
	at     *list.Element // among the caller's
}

// Len is the number of values.
func (q *Queue[V]) Len() int { return q.length }

// Push adds a value behind the others of its caller.
func (q *Queue[V]) Push(name string, v V) *Place[V] {
	of := q.byName[name]
	if of == nil {
		of = q.callers.PushBack(&caller[V]{name: name})
		if q.byName == nil {
			q.byName = map[string]*list.Element{}
		}
		q.byName[name] = of
	}
	p := &Place[V]{Value: v, caller: of}
	p.at = of.Value.(*caller[V]).places.PushBack(p)
	q.length++
	return p
}

// First returns the place whose turn it is; nil where nothing waits.
func (q *Queue[V]) First() *Place[V] {
	if q.length == 0 {
		return nil
	}
	return q.callers.Front().Value.(*caller[V]).places.Front().Value.(*Place[V])
}

// All yields the values: those of the caller whose turn it is first. The loop ends with the first change.
func (q *Queue[V]) All() iter.Seq[*Place[V]] {
	return func(yield func(*Place[V]) bool) {
		for c := q.callers.Front(); c != nil; c = c.Next() {
			for e := c.Value.(*caller[V]).places.Front(); e != nil; e = e.Next() {
				if !yield(e.Value.(*Place[V])) {
					return
				}
			}
		}
	}
}

// InOrder yields the values in the order in which they are taken if nothing else comes.
func (q *Queue[V]) InOrder() iter.Seq[V] {
	return func(yield func(V) bool) {
		next := make([]*list.Element, 0, q.callers.Len())
		for c := q.callers.Front(); c != nil; c = c.Next() {
			next = append(next, c.Value.(*caller[V]).places.Front())
		}
		for len(next) > 0 {
			left := next[:0]
			for _, e := range next {
				if !yield(e.Value.(*Place[V]).Value) {
					return
				}
				if e = e.Next(); e != nil {
					left = append(left, e)
				}
			}
			next = left
		}
	}
}

// Take removes a value that has waited long enough. Its caller then comes behind the others.
func (q *Queue[V]) Take(p *Place[V]) {
	q.callers.MoveToBack(p.caller)
	q.Remove(p)
}

// Remove removes a value.
func (q *Queue[V]) Remove(p *Place[V]) {
	c := p.caller.Value.(*caller[V])
	c.places.Remove(p.at)
	q.length--
	if c.places.Len() == 0 {
		q.callers.Remove(p.caller)
		delete(q.byName, c.name)
	}
}

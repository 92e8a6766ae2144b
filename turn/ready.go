package turn

import (
	"container/list"
	"iter"
)

// ready holds the lanes that want a slot. Callers are served one after the other: one with a thousand lanes delays another caller by a single
// turn; the lanes of a caller come in the order in which they began to wait (DO-08).
type ready struct {
	callers list.List // of *caller, the next first
	byName  map[string]*list.Element
}

// caller has lanes that wait.
type caller struct {
	name  string
	lanes list.List // of *lane, the next first
}

// push adds a lane behind the others of its caller.
func (r *ready) push(name string, ln *lane) {
	at := r.byName[name]
	if at == nil {
		at = r.callers.PushBack(&caller{name: name})
		if r.byName == nil {
			r.byName = map[string]*list.Element{}
		}
		r.byName[name] = at
	}
	ln.caller = at
	ln.ready = at.Value.(*caller).lanes.PushBack(ln)
}

// all yields the lanes: those of the next caller first. The loop ends with the first change.
func (r *ready) all() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for c := r.callers.Front(); c != nil; c = c.Next() {
			for e := c.Value.(*caller).lanes.Front(); e != nil; e = e.Next() {
				if !yield(e.Value.(*lane)) {
					return
				}
			}
		}
	}
}

// take removes a lane that gets a slot. Its caller then comes behind the others.
func (r *ready) take(ln *lane) {
	r.callers.MoveToBack(ln.caller)
	r.remove(ln)
}

// remove removes a lane.
func (r *ready) remove(ln *lane) {
	c := ln.caller.Value.(*caller)
	c.lanes.Remove(ln.ready)
	if c.lanes.Len() == 0 {
		r.callers.Remove(ln.caller)
		delete(r.byName, c.name)
	}
	ln.caller, ln.ready = nil, nil
}

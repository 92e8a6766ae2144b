package wire

import "sync"

// Lessons are what the models of a server have refused, or insist on, each under a name that the adapter gives it. They are safe for concurrent
// use; the zero value is ready.
type Lessons struct{ known sync.Map }

type lesson struct{ model, what string }

// Knows says whether a model has taught this.
func (l *Lessons) Knows(model, what string) bool {
	_, known := l.known.Load(lesson{model, what})
	return known
}

// Learn takes down what a model has taught; false where that is known already.
func (l *Lessons) Learn(model, what string) bool {
	_, known := l.known.LoadOrStore(lesson{model, what}, true)
	return !known
}

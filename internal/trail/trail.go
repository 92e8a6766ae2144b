// Package trail carries in a context what work belongs to, so that each line of the log can say it without being told.
package trail

import "context"

// Trail is what work belongs to. Members that are empty are not said.
type Trail struct {
	Run     string
	Turn    string
	Session string // its id; whoever shows it decides how
	Caller  string // who has asked for it, as requests are counted; not logged
}

type key struct{}

// With returns a context in which work belongs to t. What t leaves open stays as it was.
func With(ctx context.Context, t Trail) context.Context {
	if outer, ok := ctx.Value(key{}).(*Trail); ok {
		if t.Run == "" {
			t.Run = outer.Run
		}
		if t.Turn == "" {
			t.Turn = outer.Turn
		}
		if t.Session == "" {
			t.Session = outer.Session
		}
		if t.Caller == "" {
			t.Caller = outer.Caller
		}
		if t == *outer {
			return ctx
		}
	}
	return context.WithValue(ctx, key{}, &t)
}

// Of returns what work under this context belongs to.
func Of(ctx context.Context) Trail {
	if t, ok := ctx.Value(key{}).(*Trail); ok {
		return *t
	}
	return Trail{}
}

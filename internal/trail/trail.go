// Package trail carries in a context what work belongs to, so that each line of the log can say it without being told.
package trail

import (
	"cmp"
	"context"
)

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
		t.Run, t.Turn = cmp.Or(t.Run, outer.Run), cmp.Or(t.Turn, outer.Turn)
		t.Session, t.Caller = cmp.Or(t.Session, outer.Session), cmp.Or(t.Caller, outer.Caller)
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

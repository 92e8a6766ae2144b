package web

import (
	"context"
	"iter"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/once"
)

// sharedAway is what replicas share and cannot reach.
func sharedAway() *run.Shared {
	return &run.Shared{
		Runs: logAway{}, Control: control.NewLocal("self", nil), Keys: keysAway{},
		Replicas: func() []string { return []string{"self"} },
		Watch:    func(func(string)) func() { return func() {} },
		Holder:   func(context.Context, string) (string, error) { return "", runlog.ErrAway },
	}
}

// logAway is a log of runs that cannot be reached; it takes none.
type logAway struct{ runlog.Log }

func (logAway) Holds() bool                 { return true }
func (logAway) Flush(context.Context) error { return runlog.ErrAway }

func (logAway) Find(context.Context, string) (runlog.Found, error) {
	return runlog.Found{}, runlog.ErrAway
}

func (logAway) Follow(context.Context, string) (runlog.Tail, error) { return nil, runlog.ErrAway }

func (logAway) Running(context.Context, string) ([]runlog.Going, error) {
	return nil, runlog.ErrAway
}

func (logAway) Adopt(context.Context, string, string) (*runlog.Left, error) {
	return nil, runlog.ErrAway
}

// keysAway are keys that cannot be reached.
type keysAway struct{}

func (keysAway) Claim(context.Context, once.Claim) (once.Claim, bool, error) {
	return once.Claim{}, false, once.ErrAway
}

func (keysAway) Find(context.Context, string, string) (once.Claim, bool, error) {
	return once.Claim{}, false, once.ErrAway
}

func (keysAway) Move(context.Context, string, string, string, string) (bool, error) {
	return false, once.ErrAway
}

func (keysAway) Forget(context.Context, string, string, string) error { return once.ErrAway }

// tapesAway is a store of tapes that cannot be reached.
type tapesAway struct{ tape.Store }

func (tapesAway) Info(context.Context, string) (tape.Info, error) { return tape.Info{}, once.ErrAway }

func (tapesAway) Sessions(context.Context, tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) { yield(tape.Info{}, once.ErrAway) }
}

// failingFiles is a store of files that has an error.
type failingFiles struct {
	FileStore
	err error
}

func (f failingFiles) Find(context.Context, string, string) (store.File, error) {
	return store.File{}, f.err
}

func (f failingFiles) Held(context.Context, string) (int, int64, error) { return 0, 0, f.err }

func (f failingFiles) Remove(context.Context, string, string) error { return f.err }

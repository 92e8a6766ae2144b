package run

import (
	"context"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/runlog"
)

// alone returns what a server has that has no other replicas: its own keys, and a log of runs in which no other replica has any.
func (s *Service) alone() *Shared {
	return &Shared{
		Runs: localLog{noLog{}}, Control: control.NewLocal("", s.log), Keys: s.keys,
		Replicas: func() []string { return []string{""} },
		Watch:    func(func(string)) func() { return func() {} },
		Holder:   here,
	}
}

// here is the place of all turns of a server that is alone.
func here(context.Context, string) (string, error) { return "", nil }

// localLog is a log in which all runs are this server's, which knows them by itself.
type localLog struct{ runlog.Log }

// Find implements [runlog.Shared].
func (localLog) Find(context.Context, string) (runlog.Found, error) {
	return runlog.Found{}, runlog.ErrUnknown
}

// Follow implements [runlog.Shared].
func (localLog) Follow(context.Context, string) (runlog.Tail, error) { return nil, runlog.ErrUnknown }

// Running implements [runlog.Shared].
func (localLog) Running(context.Context, string) ([]runlog.Going, error) { return nil, nil }

// Adopt implements [runlog.Shared].
func (localLog) Adopt(context.Context, string, string) (*runlog.Left, error) {
	return nil, runlog.ErrUnknown
}

// noLog keeps nothing.
type noLog struct{}

func (noLog) Keep(runlog.Run) runlog.Entry { return noLog{} }
func (noLog) Holds() bool                  { return false }
func (noLog) Flush(context.Context) error  { return nil }
func (noLog) Close() error                 { return nil }
func (noLog) End([]byte)                   {}
func (noLog) Drop()                        {}

// thereAlways is the engine of a server that shares nothing.
type thereAlways struct{}

// Away implements [Engine].
func (thereAlways) Away() bool { return false }

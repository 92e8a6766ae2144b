package run

import (
	"context"
	"iter"

	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// memoryTapes are tapes as one replica has them.
type memoryTapes struct {
	*db.Tapes
	node *node
}

// tapesAway is the error of a database that cannot be reached.
type tapesAway struct{}

func (tapesAway) Error() string        { return "away" }
func (tapesAway) ErrorCode() string    { return "overloaded" }
func (tapesAway) Is(target error) bool { return target == tape.ErrAway }

func (t memoryTapes) cut() error {
	if t.node.cut() != nil {
		return tapesAway{}
	}
	return nil
}

func (t memoryTapes) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if err := t.cut(); err != nil {
		return 0, err
	}
	return t.Tapes.Append(ctx, name, b)
}

func (t memoryTapes) Info(ctx context.Context, name string) (tape.Info, error) {
	if err := t.cut(); err != nil {
		return tape.Info{}, err
	}
	return t.Tapes.Info(ctx, name)
}

func (t memoryTapes) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	if err := t.cut(); err != nil {
		return func(yield func(tape.Entry, error) bool) { yield(tape.Entry{}, err) }
	}
	return t.Tapes.Read(ctx, name, q)
}

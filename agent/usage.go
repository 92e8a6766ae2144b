package agent

import (
	"context"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
)

// Usage returns what the turns of a session used, tokens and their cost, as the entries at their ends say: the sum, and that of the
// last turn. A turn that is running, or that a crash has ended, has none.
func Usage(ctx context.Context, t *tape.Tape) (sum, last adapter.Usage, err error) {
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindEvent}}) {
		if err != nil {
			return adapter.Usage{}, adapter.Usage{}, err
		}
		if name, data := eventOf(e); name == entryEnd {
			last = adapter.Usage{}
			if used := decode[Ended](data).Usage; used != nil {
				last = *used
			}
			sum.Add(last)
		}
	}
	return sum, last, nil
}

package agent

import (
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
)

// Usage adds up what the turns of a session took: tokens and their cost, as the entries at their ends say. A turn that goes on, or that a
// crash has ended, has none.
func Usage(ctx context.Context, t *tape.Tape) (sum adapter.Usage, err error) {
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindEvent}}) {
		if err != nil {
			return adapter.Usage{}, err
		}
		if name, data := eventOf(e); name == entryEnd {
			var d struct {
				Usage adapter.Usage `json:"usage"`
			}
			_ = json.Unmarshal(data, &d) // nobody has counted
			sum.Add(d.Usage)
		}
	}
	return sum, nil
}

package ling

import (
	"cmp"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// ResultOf puts together what the events of a run say of it, without its document. The status is "" if it has not ended.
func ResultOf(t *tube.Tube) Result {
	o := newResult()
	r := t.NewReader(0)
	for e := range r.Waiting() {
		if e.Kind != tube.Named {
			continue
		}
		switch e.Name {
		case "error":
			var data ErrorData
			if json.Unmarshal(e.Value, &data) == nil {
				o.Errors = append(o.Errors, data)
			}
		case "usage":
			data := bot.UsageData{Usage: new(adapter.Usage)}
			if json.Unmarshal(e.Value, &data) == nil {
				o.add(data.Bot, data.Model, *data.Usage)
			}
		case "finished", "canceled":
			var data struct{ Status, Reason string }
			_ = json.Unmarshal(e.Value, &data) // it is ours
			o.Status, o.Reason = cmp.Or(data.Status, e.Name), data.Reason
		}
	}
	return o
}

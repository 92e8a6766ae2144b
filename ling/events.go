package ling

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
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
			var data struct {
				Bot, Model string
				adapter.Usage
			}
			if json.Unmarshal(e.Value, &data) != nil {
				continue
			}
			o.add(data.Bot, data.Model, data.Usage)
		case "finished":
			var data struct{ Status string }
			_ = json.Unmarshal(e.Value, &data) // it is ours
			o.Status = data.Status
		case "canceled":
			var data struct{ Reason string }
			_ = json.Unmarshal(e.Value, &data)
			o.Status, o.Reason = "canceled", data.Reason
		}
	}
	return o
}

package native

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
)

// Document is the aggregated document of a run: {"run","session"?,"status","reason"?,"result","usage","models","errors"}, with repairs
// and truncated where there are any, and the reserved values if the client wants them. The result's text goes in as it is: encoding
// it again would take time and change how its numbers and strings are written. It comes in parts, since a copy would take memory.
func Document(r *run.Run, reserved bool) [][]byte {
	o, document, beside := r.Result()
	if len(document) == 0 {
		document = []byte("{}")
	}
	if o.Usage == nil {
		o.Usage = map[string]adapter.Usage{}
	}
	if o.Models == nil {
		o.Models = map[string][]string{}
	}
	if o.Errors == nil {
		o.Errors = []ling.ErrorData{}
	}
	head, _ := json.Marshal(struct {
		Run     string `json:"run"`
		Session string `json:"session,omitempty"`
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
	}{r.ID, o.Session, o.Status, o.Reason}) // strings, numbers and maps of them can be written
	tail, _ := json.Marshal(struct {
		Usage     map[string]adapter.Usage  `json:"usage"`
		Models    map[string][]string       `json:"models"`
		Repairs   map[string]map[string]int `json:"repairs,omitempty"`
		Truncated bool                      `json:"truncated,omitempty"`
		Errors    []ling.ErrorData          `json:"errors"`
	}{o.Usage, o.Models, o.Repairs, o.Truncated, o.Errors})
	parts := [][]byte{append(head[:len(head)-1], `,"result":`...), document}
	if reserved {
		if len(beside) == 0 {
			beside = []byte("{}")
		}
		parts = append(parts, []byte(`,"reserved":`), beside)
	}
	tail[0] = ','
	return append(parts, append(tail, '\n'))
}

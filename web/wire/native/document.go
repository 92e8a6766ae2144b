package native

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
)

// Document is the aggregated document of a run: {"run","session"?,"status","reason"?,"result","usage","models","errors"}, with repairs
// and truncated where there are any, and what stands beside the document where asked for. The result's text goes in as it is: encoding
// it again would take time and change how its numbers and strings are written. It comes in parts, since a copy would take memory.
func Document(r *run.Run, reserved bool) [][]byte {
	o, document, beside := r.Result()
	return aggregated(o, r.ID, document, beside, reserved)
}

// aggregated makes the document of a result.
func aggregated(o run.Result, id string, document, beside []byte, reserved bool) [][]byte {
	head := append([]byte(`{"run":"`), id...)
	head = append(head, '"')
	if o.Session != "" {
		head = appendMember(head, "session", o.Session)
	}
	head = appendMember(head, "status", o.Status)
	if o.Reason != "" {
		head = appendMember(head, "reason", o.Reason)
	}
	head = append(head, `,"result":`...)
	if len(document) == 0 {
		document = []byte("{}")
	}
	parts := [][]byte{head, document}
	if reserved {
		if len(beside) == 0 {
			beside = []byte("{}")
		}
		parts = append(parts, []byte(`,"reserved":`), beside)
	}
	if o.Usage == nil {
		o.Usage = map[string]adapter.Usage{}
	}
	tail := appendMember(nil, "usage", o.Usage)
	if o.Models == nil {
		o.Models = map[string][]string{}
	}
	tail = appendMember(tail, "models", o.Models)
	if len(o.Repairs) > 0 {
		tail = appendMember(tail, "repairs", o.Repairs)
	}
	if o.Truncated {
		tail = appendMember(tail, "truncated", true)
	}
	if o.Errors == nil {
		o.Errors = []ling.ErrorData{}
	}
	tail = appendMember(tail, "errors", o.Errors)
	return append(parts, append(tail, "}\n"...))
}

func appendMember(dst []byte, name string, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // cannot be: strings, numbers and maps of them
		panic(err)
	}
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, text...)
}

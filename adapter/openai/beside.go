package openai

import (
	"encoding/json"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// besides is the extra data of the reasoning of an answer, as it is in [adapter.MadePart]: the members that had its text, and those that only
// the provider understands.
type besides struct {
	Fields  []string        `json:"fields,omitempty"` // of reasoningFields
	Details json.RawMessage `json:"reasoning_details,omitempty"`
	Blocks  json.RawMessage `json:"thinking_blocks,omitempty"`
	Parts   bool            `json:"parts,omitempty"` // it came as a part of the content
}

// reasoningFields are the members of a message that have the text of its reasoning.
var reasoningFields = [...]string{"reasoning_content", "reasoning", "thinking"}

// details joins the elements of a list that grows by deltas: OpenRouter's reasoning_details, LiteLLM's thinking_blocks. An element
// belongs to the last one of its type and index as long as that has no signature; its text is appended, its other members take the
// place of those before.
type details []detail

type detail struct {
	kind, index string
	text        map[string][]byte // escaped as it came
	members     wire.Members
	signed      bool
}

// textMembers are the members of an element that have text.
var textMembers = []string{"text", "summary", "thinking"}

// maxDetails is how many elements a list may have.
const maxDetails = 4096

// add takes an element. It returns its text, escaped as it came.
func (l *details) add(value json.RawMessage) (text []byte) {
	in := wire.ReadObject(value)
	kind, index := in.Text("type"), string(in["index"])
	var d *detail
	if n := len(*l); n > 0 && !(*l)[n-1].signed && (*l)[n-1].kind == kind && (*l)[n-1].index == index {
		d = &(*l)[n-1]
	} else {
		if n == maxDetails {
			return nil
		}
		*l = append(*l, detail{kind: kind, index: index, text: map[string][]byte{}})
		d = &(*l)[n]
	}
	for name, value := range rawjson.Members(value) {
		inner := inside(value)
		switch {
		case value[0] == '"' && slices.Contains(textMembers, name):
			d.text[name] = append(d.text[name], inner...)
			text = append(text, inner...)
		case string(value) == "null", string(value) == `""`:
			if !d.members.Has(name) {
				d.members.Set(name, value)
			}
		default:
			d.members.Set(name, value)
			d.signed = d.signed || name == "signature" || name == "data"
		}
	}
	return text
}

// json is the list as the provider would have it whole; nil where it has no element.
func (l details) json() json.RawMessage {
	if len(l) == 0 {
		return nil
	}
	var list []json.RawMessage
	for _, d := range l {
		for _, name := range textMembers {
			if text, ok := d.text[name]; ok {
				d.members.Set(name, slices.Concat([]byte{'"'}, text, []byte{'"'}))
			}
		}
		list = append(list, d.members.JSON())
	}
	out, err := rawjson.Marshal(list)
	if err != nil { // the elements are not JSON
		return nil
	}
	return out
}

// passMade passes on what stood beside the reasoning and the calls of an answer.
func (a *answer) passMade() bool {
	d := &a.events
	b := besides{Details: d.details.json(), Blocks: d.blocks.json(), Parts: d.thoughtParts}
	for i, name := range reasoningFields {
		if d.fields&(1<<i) != 0 {
			b.Fields = append(b.Fields, name)
		}
	}
	// The text alone, in the member that is the usual one, needs no mark.
	if b.Details != nil || b.Blocks != nil || b.Parts || len(b.Fields) > 0 && (len(b.Fields) > 1 || b.Fields[0] != reasoningFields[0]) {
		data, err := rawjson.Marshal(b)
		if err == nil && !a.Pass(adapter.Chunk{Beside: &adapter.Beside{Type: adapter.PartReasoning, Data: data}}) {
			return false
		}
	}
	for i, c := range d.calls {
		if len(c.beside) == 0 {
			continue
		}
		if data := c.beside.JSON(); json.Valid(data) && !a.Pass(adapter.Chunk{Beside: &adapter.Beside{Type: adapter.PartCall, Index: i, Data: data}}) {
			return false
		}
	}
	for _, raw := range d.strange {
		if json.Valid(raw) && !a.Pass(adapter.Chunk{Beside: &adapter.Beside{Type: adapter.PartOther, Data: raw}}) {
			return false
		}
	}
	return true
}

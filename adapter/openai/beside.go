package openai

import (
	"bytes"
	"encoding/json"

	"github.com/buger/jsonparser"

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
	kind, index []byte
	text        map[string][]byte // escaped as it came
	members     wire.Object
	signed      bool
}

// maxDetails is how many elements a list may have.
const maxDetails = 4096

// add takes an element. It returns its text, escaped as it came.
func (l *details) add(value []byte) (text []byte) {
	kind := wire.StringAt(value, "type")
	index, _, _, _ := jsonparser.Get(value, "index") // nil if the element has no index
	n := len(*l)
	if n == 0 || (*l)[n-1].signed || !bytes.Equal((*l)[n-1].kind, kind) || !bytes.Equal((*l)[n-1].index, index) {
		if n == maxDetails {
			return nil
		}
		*l = append(*l, detail{kind: bytes.Clone(kind), index: bytes.Clone(index), text: map[string][]byte{}, members: wire.Object{}})
		n++
	}
	d := &(*l)[n-1]
	_ = jsonparser.ObjectEach(value, func(key, value []byte, kind jsonparser.ValueType, _ int) error {
		name := string(key)
		empty := kind == jsonparser.Null || kind == jsonparser.String && len(value) == 0
		switch {
		case kind == jsonparser.String && (name == "text" || name == "summary" || name == "thinking"):
			d.text[name] = append(d.text[name], value...)
			text = append(text, value...)
		case !empty || d.members[name] == nil: // where it has nothing to say, it does not replace anything
			d.members[name] = rawOf(value, kind)
			d.signed = d.signed || !empty && (name == "signature" || name == "data")
		}
		return nil
	})
	return text
}

// rawOf returns the JSON of a value that the parser has found.
func rawOf(value []byte, kind jsonparser.ValueType) []byte {
	if kind != jsonparser.String {
		return bytes.Clone(value)
	}
	raw := append(make([]byte, 0, len(value)+2), '"')
	return append(append(raw, value...), '"')
}

// json is the list as the provider would have it whole; nil where it has no element.
func (l details) json() json.RawMessage {
	var all []wire.Object
	for _, d := range l {
		for name, text := range d.text {
			d.members[name] = rawOf(text, jsonparser.String)
		}
		all = append(all, d.members)
	}
	data, err := rawjson.Marshal(all)
	if err != nil || len(all) == 0 {
		return nil
	}
	return data
}

// passMade passes on what stood beside the reasoning and the calls of an answer.
func (a *answer) passMade() error {
	d := &a.events
	b := besides{Details: d.details.json(), Blocks: d.blocks.json(), Parts: d.thoughtParts}
	for i, name := range reasoningFields {
		if d.fields&(1<<i) != 0 {
			b.Fields = append(b.Fields, name)
		}
	}
	// The text alone, in the member that is the usual one, needs no mark.
	if b.Details != nil || b.Blocks != nil || b.Parts || len(b.Fields) > 0 && (len(b.Fields) > 1 || b.Fields[0] != reasoningFields[0]) {
		if err := a.passData(adapter.PartReasoning, 0, b); err != nil {
			return err
		}
	}
	for i, c := range d.calls {
		if c.beside == nil {
			continue
		}
		if err := a.passData(adapter.PartCall, i, c.beside); err != nil {
			return err
		}
	}
	for _, raw := range d.strange {
		if err := a.passData(adapter.PartOther, 0, raw); err != nil {
			return err
		}
	}
	return nil
}

// passData passes on the extra data of a part. What is no JSON is left out.
func (a *answer) passData(kind string, call int, v any) error {
	data, err := rawjson.Marshal(v)
	if err != nil {
		return nil
	}
	return a.Beside(kind, call, data)
}

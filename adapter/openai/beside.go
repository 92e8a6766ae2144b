package openai

import (
	"bytes"
	"encoding/json"
	"slices"

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
	members     []element
	signed      bool
}

type element struct {
	name  string
	value []byte // JSON
}

// maxDetails is how many elements a list may have.
const maxDetails = 4096

// add takes an element. It returns its text, escaped as it came.
func (l *details) add(value []byte) (text []byte) {
	kind, index := wire.StringAt(value, "type"), []byte(nil)
	if raw, _, _, err := jsonparser.Get(value, "index"); err == nil {
		index = raw
	}
	var d *detail
	if n := len(*l); n > 0 && !(*l)[n-1].signed && bytes.Equal((*l)[n-1].kind, kind) && bytes.Equal((*l)[n-1].index, index) {
		d = &(*l)[n-1]
	} else {
		if n == maxDetails {
			return nil
		}
		*l = append(*l, detail{kind: bytes.Clone(kind), index: bytes.Clone(index), text: map[string][]byte{}})
		d = &(*l)[n]
	}
	_ = jsonparser.ObjectEach(value, func(key, value []byte, kind jsonparser.ValueType, _ int) error {
		switch name := string(key); {
		case kind == jsonparser.String && (name == "text" || name == "summary" || name == "thinking"):
			d.text[name] = append(d.text[name], value...)
			text = append(text, value...)
		case kind == jsonparser.Null || kind == jsonparser.String && len(value) == 0:
			d.set(name, value, kind, false)
		default:
			d.set(name, value, kind, true)
			d.signed = d.signed || name == "signature" || name == "data"
		}
		return nil
	})
	return text
}

// set sets a member; where it has nothing to say, only if there is none.
func (d *detail) set(name string, value []byte, kind jsonparser.ValueType, over bool) {
	raw := rawOf(value, kind)
	i := slices.IndexFunc(d.members, func(e element) bool { return e.name == name })
	switch {
	case i < 0:
		d.members = append(d.members, element{name, raw})
	case over:
		d.members[i].value = raw
	}
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
	if len(l) == 0 {
		return nil
	}
	out := []byte{'['}
	for i, d := range l {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		for _, m := range d.members {
			out = appendMember(out, m.name, m.value)
		}
		for _, name := range []string{"text", "summary", "thinking"} {
			if text, ok := d.text[name]; ok {
				out = appendMember(out, name, rawOf(text, jsonparser.String))
			}
		}
		out = append(out, '}')
	}
	out = append(out, ']')
	if !json.Valid(out) {
		return nil
	}
	return out
}

// appendMember appends a member to an object that is being written.
func appendMember(dst []byte, name string, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	quoted, _ := json.Marshal(name)
	return append(append(append(dst, quoted...), ':'), value...)
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
		data := []byte{'{'}
		for _, m := range c.beside {
			data = appendMember(data, m.name, m.value)
		}
		data = append(data, '}')
		if json.Valid(data) && !a.Pass(adapter.Chunk{Beside: &adapter.Beside{Type: adapter.PartCall, Index: i, Data: data}}) {
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

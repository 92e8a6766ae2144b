package openai

import (
	"bytes"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// besides is the extra data of the reasoning of an answer, as it is in [adapter.MadePart]: the members that had its text, and those that only
// the provider understands.
type besides struct {
	Fields  []string `json:"fields,omitempty"` // of reasoningFields
	Details details  `json:"reasoning_details,omitempty"`
	Blocks  details  `json:"thinking_blocks,omitempty"`
	Parts   bool     `json:"parts,omitempty"` // it came as a part of the content
}

// reasoningFields are the members of a message that have the text of its reasoning.
var reasoningFields = [...]string{"reasoning_content", "reasoning", "thinking"}

// details joins the elements of a list that grows by deltas: OpenRouter's reasoning_details, LiteLLM's thinking_blocks. An element belongs to the
// last one of its type and index as long as that has no signature; its text is appended, its other members replace those before.
type details []wire.Object

// maxDetails is how many elements a list may have.
const maxDetails = 4096

// add adds elements, and appends their text, escaped, to text.
func (l *details) add(elements []wire.Object, text []byte) []byte {
	for _, e := range elements {
		last := len(*l) - 1
		if last < 0 || isSigned((*l)[last]) || !bytes.Equal((*l)[last]["type"], e["type"]) || !bytes.Equal((*l)[last]["index"], e["index"]) {
			if last++; e == nil || last == maxDetails {
				continue
			}
			*l = append(*l, wire.Object{})
		}
		d := (*l)[last]
		for _, name := range []string{"text", "summary", "thinking"} {
			more := insideQuotes(e[name])
			text = append(text, more...)
			if before := d[name]; more != nil && insideQuotes(before) != nil {
				d[name] = append(append(before[:len(before)-1], more...), '"')
				delete(e, name)
			}
		}
		for name, value := range e {
			if _, known := d[name]; !known || e.Has(name) {
				d[name] = value
			}
		}
	}
	return text
}

func isSigned(d wire.Object) bool { return d.Has("signature") || d.Has("data") }

// passBeside passes on what stood beside the reasoning and the calls of an answer.
func (a *answer) passBeside() error {
	d := &a.events
	b := besides{Details: d.details, Blocks: d.blocks, Parts: d.thoughtParts}
	for i, name := range reasoningFields {
		if d.fields[i] {
			b.Fields = append(b.Fields, name)
		}
	}
	// The text alone, in the member that is the usual one, needs no mark.
	if b.Details != nil || b.Blocks != nil || b.Parts || len(b.Fields) > 1 || len(b.Fields) == 1 && !d.fields[0] {
		data, _ := rawjson.Marshal(b) // of JSON: cannot fail
		if err := a.Beside(adapter.PartReasoning, 0, data); err != nil {
			return err
		}
	}
	for i, c := range d.calls {
		if len(c.beside) == 0 {
			continue
		}
		data, _ := rawjson.Marshal(c.beside)
		if err := a.Beside(adapter.PartCall, i, data); err != nil {
			return err
		}
	}
	for _, raw := range d.unknown {
		if err := a.Beside(adapter.PartOther, 0, raw); err != nil {
			return err
		}
	}
	return nil
}

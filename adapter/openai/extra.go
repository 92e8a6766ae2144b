package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// reasoningExtra is the extra data of the reasoning of an answer, as it is in [adapter.MadePart]: the members that had its text, and those that
// only the provider understands.
type reasoningExtra struct {
	Members []string `json:"fields,omitempty"` // of reasoningMembers
	Details elements `json:"reasoning_details,omitempty"`
	Blocks  elements `json:"thinking_blocks,omitempty"`
	Parts   bool     `json:"parts,omitempty"` // it came as a part of the content
}

// reasoningMembers are the members of a message that have the text of its reasoning. The first is the usual one.
var reasoningMembers = [...]string{"reasoning_content", "reasoning", "thinking"}

func (r *reasoningExtra) add(member string) {
	if !slices.Contains(r.Members, member) {
		r.Members = append(r.Members, member)
	}
}

// plain reports whether the text, in its usual member, is all that there is.
func (r *reasoningExtra) plain() bool {
	others := slices.ContainsFunc(r.Members, func(member string) bool { return member != reasoningMembers[0] })
	return !others && r.Details == nil && r.Blocks == nil && !r.Parts
}

// elements are a list that grows by deltas: OpenRouter's reasoning_details, LiteLLM's thinking_blocks. An element belongs to the last one of its
// type and index as long as that has no signature. Its text is appended; its other members replace those before.
type elements []wire.Object

// elementTexts are the members of an element that have its text.
var elementTexts = []string{"text", "summary", "thinking"}

// add adds the elements of a delta to a list, and returns their text.
func (a *answer) add(l *elements, delta []wire.Object) (text wire.Escaped) {
	for _, e := range delta {
		n := len(*l)
		if n == 0 || !continues((*l)[n-1], e) {
			a.Hold(wire.ItemSize)
			*l = append(*l, wire.Object{})
			n++
		}
		last := (*l)[n-1]
		for name, value := range e {
			piece := wire.Unquote(value)
			switch {
			case piece != nil && slices.Contains(elementTexts, name):
				text = append(text, piece...)
				last[name] = json.RawMessage(`"` + string(wire.Unquote(last[name])) + string(piece) + `"`)
			case last[name] == nil || e.Has(name):
				last[name] = value
			}
		}
	}
	return text
}

// continues reports whether an element of a delta belongs to the last element of the list.
func continues(last, e wire.Object) bool {
	return !last.Has("signature") && !last.Has("data") && bytes.Equal(last["type"], e["type"]) && bytes.Equal(last["index"], e["index"])
}

// yieldExtra passes on what the provider wants to have back with the answer.
func (a *answer) yieldExtra() {
	if !a.extra.plain() {
		a.Beside(adapter.PartReasoning, 0, rawjson.MustMarshal(a.extra))
	}
	for i, c := range a.calls {
		if len(c.extra) > 0 {
			a.Beside(adapter.PartCall, i, rawjson.MustMarshal(c.extra))
		}
	}
	for _, part := range a.unknown {
		a.Beside(adapter.PartOther, 0, part)
	}
}

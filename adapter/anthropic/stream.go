package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// answer reads one answer.
type answer struct {
	*wire.BlockReader
	m *model
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) {
	a := &answer{m: m}
	a.BlockReader = wire.NewBlockReader(w, a.closed)
	a.Read("check the base URL (it is what comes before /v1/messages)", a.event, a.whole)
}

// event passes on what an event has; done says that it is the last.
func (a *answer) event(kind, data []byte) (done bool) {
	switch {
	case string(kind) == "ping", len(bytes.TrimSpace(data)) == 0:
		return false
	case bytes.HasPrefix(data, []byte("[DONE]")): // of servers that translate from OpenAI's format
		return true
	case string(kind) != "error" && (!wire.IsObject(data) || !json.Valid(data)):
		a.Fail(wire.ErrFormat)
		return false
	}
	event := wire.StringAt(data, "type")
	if len(event) == 0 || string(kind) == "error" {
		event = kind
	}
	switch string(event) {
	case "content_block_delta":
		a.delta(data)
	case "content_block_start":
		if raw := wire.ObjectAt(data, "content_block"); raw != nil {
			a.begin(wire.IndexAt(data, "index"), raw)
		}
	case "content_block_stop":
		if b := a.Find(wire.IndexAt(data, "index")); b != nil {
			a.Close(b)
		}
	case "message_start":
		a.count(wire.ObjectAt(data, "message", "usage"))
	case "message_delta":
		a.count(wire.ObjectAt(data, "usage"))
		a.stop(wire.StringAt(data, "delta", "stop_reason"), wire.ObjectAt(data, "delta", "stop_details"))
	case "message_stop":
		return true
	default: // an error, a ping, or an event that we do not know
		if string(event) == "error" || reportsError(data) {
			a.Report(data)
		}
	}
	return false
}

func reportsError(data []byte) bool {
	raw, kind, _, err := jsonparser.Get(data, "error")
	return err == nil && kind != jsonparser.Null && len(raw) > 0
}

// begin opens a block with what it begins with, which may be all of it.
func (a *answer) begin(index int, raw []byte) {
	switch string(wire.StringAt(raw, "type")) {
	case "text":
		citations, _, _, _ := jsonparser.Get(raw, "citations")
		b := a.Open(index, adapter.PartText, nil)
		a.KeepAll(b, citations)
		a.Write(b, wire.StringAt(raw, "text"))
	case "thinking":
		b := a.Open(index, adapter.PartReasoning, nil)
		a.Sign(b, wire.StringAt(raw, "signature"))
		a.Write(b, wire.StringAt(raw, "thinking"))
	case "tool_use":
		a.call(index, raw)
	default:
		a.Open(index, adapter.PartOther, raw)
	}
}

// call opens a call of a tool. What it has beside the members that we know goes back with it.
func (a *answer) call(index int, raw []byte) {
	b := a.OpenCall(index, raw, wire.StringAt(raw, "id"), wire.StringAt(raw, "name"))
	others := wire.ReadObject(raw)
	for _, known := range []string{"type", "id", "name", "input"} {
		delete(others, known)
	}
	if len(others) > 0 {
		a.Beside(adapter.PartCall, b.Call, rawjson.MustMarshal(others))
	}
}

// deltas are the types of deltas: of which part, and which member they add to it.
var deltas = map[string]struct{ part, member string }{
	"text_delta":       {adapter.PartText, "text"},
	"citations_delta":  {adapter.PartText, "citation"},
	"thinking_delta":   {adapter.PartReasoning, "thinking"},
	"signature_delta":  {adapter.PartReasoning, "signature"},
	"input_json_delta": {adapter.PartCall, "partial_json"},
}

// delta adds to a block.
func (a *answer) delta(data []byte) {
	index, d := wire.IndexAt(data, "index"), wire.ObjectAt(data, "delta")
	of, known := deltas[string(wire.StringAt(d, "type"))]
	if !known {
		if b := a.Find(index); b != nil && b.Kind == adapter.PartOther {
			a.Keep(b, d)
		}
		return
	}
	b, text := a.At(index, of.part), wire.StringAt(d, of.member)
	switch of.member {
	case "signature":
		a.Sign(b, text)
	case "citation":
		if c := wire.ObjectAt(d, "citation"); c != nil {
			a.Keep(b, c)
		}
	default:
		a.Write(b, text)
	}
}

// closed passes on what the end of a block brings, as [wire.NewBlockReader] has it.
func (a *answer) closed(b *wire.Block) {
	switch {
	case b.Kind == adapter.PartText:
		a.cite(b)
	case b.Kind == adapter.PartOther:
		a.Beside(adapter.PartOther, 0, joined(b))
	case b.Kind == adapter.PartCall && !b.Passed:
		input := wire.ObjectAt(b.Raw, "input") // servers that send a call at once send all of it here
		if input == nil {
			input = []byte("{}")
		}
		a.Say(b, strings.ToValidUTF8(string(input), "\uFFFD"))
	}
}

// cite passes on the citations of a text.
func (a *answer) cite(b *wire.Block) {
	if len(b.Pieces) > 0 && b.Passed {
		a.Beside(adapter.PartText, 0, rawjson.MustMarshal(map[string]any{"citations": b.Pieces}))
	}
	for _, raw := range b.Pieces {
		var c struct {
			URL      string `json:"url"`
			Source   string `json:"source"` // of a search result that we gave
			Title    string `json:"title"`
			Document string `json:"document_title"`
			Text     string `json:"cited_text"`
		}
		json.Unmarshal(raw, &c) // what is of another type is left out
		a.Cite(adapter.Citation{URL: cmp.Or(c.URL, c.Source), Title: cmp.Or(c.Title, c.Document), Text: c.Text})
	}
}

// joined is a block that only the provider understands. The strings of its deltas go on with its members of the same names, as in compaction_delta.
func joined(b *wire.Block) []byte {
	raw, grown := b.Raw, map[string][]byte{}
	if len(b.Input) > 0 {
		raw = b.WithInput("input")
	}
	for _, delta := range b.Pieces {
		jsonparser.ObjectEach(delta, func(key, value []byte, kind jsonparser.ValueType, _ int) error {
			name := string(key)
			if kind != jsonparser.String || name == "type" {
				return nil
			}
			if _, begun := grown[name]; !begun {
				grown[name] = bytes.Clone(wire.StringAt(raw, name))
			}
			grown[name] = append(grown[name], value...)
			return nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(grown)) { // the same text each time, for the provider's cache
		raw, _ = jsonparser.Set(raw, append(append([]byte{'"'}, grown[name]...), '"'), name) // of an object: cannot fail
	}
	return raw
}

// stop takes the reason for which the answer ends. Where a model refuses and has said nothing, the API's explanation is its answer.
func (a *answer) stop(reason, details []byte) {
	if len(reason) == 0 || a.Finish != "" {
		return
	}
	if string(reason) == "refusal" && a.Length == 0 {
		why, _ := wire.Unescape(wire.StringAt(details, "explanation"))
		a.Say(&wire.Block{Kind: adapter.PartText}, why)
	}
	a.Finish = wire.FinishReason(string(reason))
	a.Enough()
}

// whole passes on an answer in one piece.
func (a *answer) whole(body []byte) {
	content, kind, _, err := jsonparser.Get(body, "content")
	reason := wire.StringAt(body, "stop_reason")
	switch {
	case reportsError(body):
		a.Fail(a.m.p.Failed(body))
	case err != nil || kind != jsonparser.Array || !json.Valid(body):
		a.Fail(a.m.p.NotAnswer("a message", wire.ErrFormat, body))
	case len(reason) == 0:
		a.CutOff(nil)
	default:
		jsonparser.ArrayEach(content, func(raw []byte, _ jsonparser.ValueType, _ int, _ error) {
			if wire.IsObject(raw) {
				a.begin(-1, raw) // which ends the one before
			} else {
				a.Fail(a.m.p.NotAnswer("a message", wire.ErrFormat, raw))
			}
		})
		a.count(wire.ObjectAt(body, "usage"))
		a.stop(reason, wire.ObjectAt(body, "stop_details"))
	}
}

// count takes the counts of an event.
func (a *answer) count(usage []byte) {
	a.Count(usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens", "output_tokens_details", "thinking_tokens")
}

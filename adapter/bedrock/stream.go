package bedrock

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/buger/jsonparser"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const atIndex = "contentBlockIndex"

var errNoBlock = errors.New("a part of a block that has not begun")

// answer reads one answer.
type answer struct {
	*wire.BlockReader
	p *provider
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{p: m.p}
	a.BlockReader = wire.NewBlockReader(w, a.closed)
	if kind := a.Kind(); kind != wire.AWSStreamType && kind != "" {
		return a.Unknown("an AWS event stream", "check the base URL")
	}
	return a.AWSMessages(a.event)
}

// event passes on what a message has; done says that it is the last.
func (a *answer) event(m *wire.AWSMessage) (done bool, err error) {
	switch string(m.Kind) {
	case "exception", "error":
		if a.Finish != "" {
			return false, nil // nothing is missing
		}
		return false, a.p.explainAuth(a.p.Failed(m.Payload, string(m.Name)), string(m.Name))
	case "event":
	default:
		return false, nil
	}
	if !json.Valid(m.Payload) {
		return false, wire.ErrFormat
	}
	switch string(m.Name) {
	case "contentBlockStart":
		return false, a.start(m.Payload)
	case "contentBlockDelta":
		return false, a.delta(m.Payload)
	case "contentBlockStop":
		if b := a.Find(wire.IndexAt(m.Payload, atIndex)); b != nil {
			return false, a.Close(b)
		}
	case "messageStop":
		return false, a.finish(m.Payload)
	case "metadata":
		a.Count(wire.ObjectAt(m.Payload, "usage"), "inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens")
		return a.Finish != "", nil
	}
	return false, nil
}

// start opens a call, or a block that is kept until it is whole: an image, and a call or a result of a tool of Bedrock's own.
func (a *answer) start(payload []byte) (err error) {
	index, begun := wire.IndexAt(payload, atIndex), wire.ObjectAt(payload, "start")
	call := wire.ObjectAt(begun, "toolUse")
	if call == nil || string(wire.StringAt(call, "type")) == "server_tool_use" {
		_, err = a.Open(index, adapter.PartOther, begun)
		return err
	}
	_, err = a.OpenCall(index, call, wire.StringAt(call, "toolUseId"), wire.StringAt(call, "name"))
	return err
}

// texts are where a delta has a piece of a text, of reasoning, or of arguments.
var texts = []struct {
	kind string
	path []string
}{
	{adapter.PartText, []string{"text"}},
	{adapter.PartReasoning, []string{"reasoningContent", "text"}},
	{adapter.PartCall, []string{"toolUse", "input"}},
}

// delta adds to a block.
func (a *answer) delta(payload []byte) error {
	index, d := wire.IndexAt(payload, atIndex), wire.ObjectAt(payload, "delta")
	for _, of := range texts {
		if text := wire.StringAt(d, of.path...); text != nil {
			b, err := a.At(index, of.kind)
			if err != nil {
				return err
			}
			return a.Write(b, text)
		}
	}
	if thought := wire.ObjectAt(d, "reasoningContent"); thought != nil {
		return a.think(index, thought)
	}
	if source := wire.ObjectAt(d, "citation"); source != nil {
		b, err := a.At(index, adapter.PartText)
		if err != nil {
			return err
		}
		return a.Keep(b, source)
	}
	result, _, _, _ := jsonparser.Get(d, "toolResult")
	image := wire.StringAt(d, "image", "source", "bytes")
	if result == nil && image == nil {
		return nil // of something newer
	}
	b := a.Find(index)
	if b == nil || b.Kind != adapter.PartOther {
		return errNoBlock
	}
	if image != nil {
		return a.Keep(b, image)
	}
	return a.KeepAll(b, result)
}

// think keeps a signature, or reasoning that Bedrock does not show.
func (a *answer) think(index int, thought []byte) error {
	if redacted := wire.StringAt(thought, "redactedContent"); redacted != nil {
		b, err := a.At(index, adapter.PartOther)
		if err != nil {
			return err
		}
		return a.Keep(b, redacted)
	}
	b, err := a.At(index, adapter.PartReasoning)
	if err != nil {
		return err
	}
	return a.Sign(b, wire.StringAt(thought, "signature"))
}

// closed passes on what the end of a block brings, as [wire.NewBlockReader] has it.
func (a *answer) closed(b *wire.Block) error {
	if b.Kind == adapter.PartText {
		for _, raw := range b.Pieces {
			if err := a.Cite(readCitation(raw)); err != nil {
				return err
			}
		}
	}
	if b.Kind != adapter.PartOther {
		return nil
	}
	switch format, _ := jsonparser.GetString(b.Raw, "image", "format"); {
	case b.Raw == nil || format != "":
		data, err := joined(b.Pieces)
		if err != nil || len(data) == 0 {
			return err
		}
		if format == "" {
			return a.Beside(adapter.PartOther, 0, marshal(object{"reasoningContent": object{"redactedContent": data}}))
		}
		kind := "image/" + format
		return a.Yield(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)}})
	case wire.ObjectAt(b.Raw, "toolUse") != nil:
		return a.Beside(adapter.PartOther, 0, b.WithInput("toolUse", "input"))
	case wire.ObjectAt(b.Raw, "toolResult") != nil:
		raw, _ := jsonparser.Set(b.Raw, marshal(b.Pieces), "toolResult", "content") // of an object: cannot fail
		return a.Beside(adapter.PartOther, 0, raw)
	}
	return nil // of something newer
}

// joined decodes pieces of data, each of which is in base64.
func joined(pieces []json.RawMessage) (data []byte, err error) {
	for _, raw := range pieces {
		piece, err := wire.Unescape(raw)
		if err == nil {
			data, err = base64.StdEncoding.AppendDecode(data, []byte(piece))
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// marshal writes what is made of strings and JSON that was read.
func marshal(v any) json.RawMessage {
	data, err := rawjson.Marshal(v)
	if err != nil {
		panic("bedrock: " + err.Error())
	}
	return data
}

// readCitation reads a source as Bedrock names it.
func readCitation(raw []byte) adapter.Citation {
	var c struct {
		Title   string `json:"title"`
		Source  string `json:"source"`
		Content []struct {
			Text string `json:"text"`
		} `json:"sourceContent"`
		Location struct {
			Web struct {
				URL    string `json:"url"`
				Domain string `json:"domain"`
			} `json:"web"`
		} `json:"location"`
	}
	json.Unmarshal(raw, &c) // what is of another type is left out
	out := adapter.Citation{URL: c.Location.Web.URL, Title: cmp.Or(c.Title, c.Location.Web.Domain, c.Source)}
	if out.URL == "" && strings.Contains(c.Source, "://") {
		out.URL = c.Source
	}
	for _, part := range c.Content {
		out.Text += part.Text
	}
	return out
}

// finish takes the reason for which the answer ends.
func (a *answer) finish(payload []byte) error {
	reason, err := jsonparser.GetString(payload, "stopReason")
	if err != nil {
		return err
	}
	if strings.HasPrefix(reason, "malformed_") {
		return &adapter.Error{
			Code: adapter.CodeProtocol, Retryable: true,
			Message: "the model's answer was cut off: it contains something that " + a.p.Name() + " cannot read",
			Cause:   errors.New("stopReason " + a.p.Redact([]byte(reason))),
		}
	}
	a.Finish = wire.FinishReason(reason)
	a.Enough()
	return nil
}

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
func (m *model) read(w *wire.Answer) {
	a := &answer{p: m.p}
	a.BlockReader = wire.NewBlockReader(w, a.closed)
	if kind := a.Kind(); kind == wire.AWSStreamType || kind == "" {
		a.AWSMessages(a.event)
	} else {
		a.Unknown("an AWS event stream", "check the base URL")
	}
}

// event passes on what a message has; done says that it is the last.
func (a *answer) event(m wire.AWSMessage) (done bool) {
	switch m.Kind {
	case "exception", "error":
		if a.Finish == "" { // otherwise nothing is missing
			a.Fail(a.p.explainAuth(a.p.Failed(m.Payload, m.Name), m.Name))
		}
		return false
	case "event":
	default:
		return false
	}
	if !json.Valid(m.Payload) {
		a.Fail(wire.ErrFormat)
		return false
	}
	switch m.Name {
	case "contentBlockStart":
		a.start(m.Payload)
	case "contentBlockDelta":
		a.delta(m.Payload)
	case "contentBlockStop":
		if b := a.Find(wire.IndexAt(m.Payload, atIndex)); b != nil {
			a.Close(b)
		}
	case "messageStop":
		a.finish(m.Payload)
	case "metadata":
		a.Count(wire.ObjectAt(m.Payload, "usage"), "inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens")
		return a.Finish != ""
	}
	return false
}

// start opens a call, or a block that is kept until it is whole: an image, and a call or a result of a tool of Bedrock's own.
func (a *answer) start(payload []byte) {
	index, begun := wire.IndexAt(payload, atIndex), wire.ObjectAt(payload, "start")
	call := wire.ObjectAt(begun, "toolUse")
	if call == nil || string(wire.StringAt(call, "type")) == "server_tool_use" {
		a.Open(index, adapter.PartOther, begun)
		return
	}
	a.OpenCall(index, call, wire.StringAt(call, "toolUseId"), wire.StringAt(call, "name"))
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
func (a *answer) delta(payload []byte) {
	index, d := wire.IndexAt(payload, atIndex), wire.ObjectAt(payload, "delta")
	for _, of := range texts {
		if text := wire.StringAt(d, of.path...); text != nil {
			a.Write(a.At(index, of.kind), text)
			return
		}
	}
	if thought := wire.ObjectAt(d, "reasoningContent"); thought != nil {
		a.think(index, thought)
		return
	}
	if source := wire.ObjectAt(d, "citation"); source != nil {
		a.Keep(a.At(index, adapter.PartText), source)
		return
	}
	result, _, _, _ := jsonparser.Get(d, "toolResult")
	image, b := wire.StringAt(d, "image", "source", "bytes"), a.Find(index)
	switch {
	case result == nil && image == nil: // of something newer
	case b == nil || b.Kind != adapter.PartOther:
		a.Fail(errNoBlock)
	case image != nil:
		a.Keep(b, image)
	default:
		a.KeepAll(b, result)
	}
}

// think keeps a signature, or reasoning that Bedrock does not show.
func (a *answer) think(index int, thought []byte) {
	if redacted := wire.StringAt(thought, "redactedContent"); redacted != nil {
		a.Keep(a.At(index, adapter.PartOther), redacted)
		return
	}
	a.Sign(a.At(index, adapter.PartReasoning), wire.StringAt(thought, "signature"))
}

// closed passes on what the end of a block brings, as [wire.NewBlockReader] has it.
func (a *answer) closed(b *wire.Block) {
	if b.Kind == adapter.PartText {
		for _, raw := range b.Pieces {
			a.Cite(readCitation(raw))
		}
	}
	if b.Kind != adapter.PartOther {
		return
	}
	switch format, _ := jsonparser.GetString(b.Raw, "image", "format"); {
	case b.Raw == nil || format != "":
		data, err := joined(b.Pieces)
		if err != nil {
			a.Fail(err)
		}
		if kind := "image/" + format; format != "" && len(data) > 0 {
			a.Pass(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: adapter.DataURL(kind, data)}})
		} else if len(data) > 0 {
			a.Beside(adapter.PartOther, 0, rawjson.MustMarshal(object{"reasoningContent": object{"redactedContent": data}}))
		}
	case wire.ObjectAt(b.Raw, "toolUse") != nil:
		a.Beside(adapter.PartOther, 0, b.WithInput("toolUse", "input"))
	case wire.ObjectAt(b.Raw, "toolResult") != nil:
		raw, _ := jsonparser.Set(b.Raw, rawjson.MustMarshal(b.Pieces), "toolResult", "content") // of an object: cannot fail
		a.Beside(adapter.PartOther, 0, raw)
	}
	// Others are of something newer.
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
func (a *answer) finish(payload []byte) {
	reason, err := jsonparser.GetString(payload, "stopReason")
	switch {
	case err != nil:
		a.Fail(err)
	case strings.HasPrefix(reason, "malformed_"):
		a.Fail(&adapter.Error{
			Code: adapter.CodeProtocol, Retryable: true,
			Message: "the model's answer was cut off: it contains something that " + a.p.Name() + " cannot read",
			Cause:   errors.New("stopReason " + a.p.Redact([]byte(reason))),
		})
	default:
		a.Finish = wire.FinishReason(reason)
		a.Enough()
	}
}

package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	streamType = "application/vnd.amazon.eventstream"
	// maxBlocks is how many blocks and calls one answer may have.
	maxBlocks = 1024
	// maxBlock is how much of a block is kept until it is complete, in bytes: a signature, an image, a result of a tool of Bedrock's own.
	maxBlock = 32 << 20
)

var (
	errNoBlock  = errors.New("a part of a block that has not begun")
	errTooMany  = errors.New("more blocks than allowed")
	errTooLarge = errors.New("a block that is larger than allowed")
	errNotData  = errors.New("not data of a kind that the API takes")
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	p               *provider
	text, reasoning wire.Text
	blocks          []*block // that have begun and not ended
	calls           int
	chars           int    // of the text so far
	from            int    // where in it the block begins
	place           [2]int // where in it the last block with text begins and ends
}

// block is a block of the answer that is not complete.
type block struct {
	index     int
	call      int // its number among the calls, from 0; -1 is no call
	arguments wire.Text
	thinks    bool // it is reasoning
	thought   bool // with a text
	signature string
	redacted  []byte
	image     string // its format
	own       own    // a call or a result of a tool of Bedrock's own
	data      []byte // what has come of the image, the input or the result
	citations []adapter.Citation
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, p: m.p}
	a.Last = a.last
	if kind := a.Kind(); kind != streamType && kind != "" {
		return a.Unknown("an AWS event stream", "check the base URL")
	}
	events := frames{r: a.Res.Body, max: a.MaxEvent}
	var event frame
	for {
		switch err := events.next(&event); {
		case err == nil:
		case err == errDamaged && a.Finish == "":
			return a.p.NotPiece(err, nil) // with nothing of it: who knows what it is
		case err == io.EOF:
			return a.Complete(false, nil)
		default:
			return a.Complete(false, err)
		}
		if done, err := a.take(&event); err != nil {
			return err
		} else if done {
			return a.Complete(true, nil)
		}
	}
}

// take passes on what a message has; done says that it is the last. Text is what most messages have.
func (a *answer) take(f *frame) (done bool, err error) {
	if string(f.name) == "contentBlockDelta" && string(f.kind) == "event" {
		if raw, kind, _, err := jsonparser.Get(f.payload, "delta", "text"); err == nil && kind == jsonparser.String {
			text, err := a.text.Next(raw)
			if err != nil {
				return false, a.p.NotPiece(err, f.payload)
			}
			return false, a.say(text)
		}
	}
	return a.event(f)
}

// say passes on text.
func (a *answer) say(text string) error {
	if text == "" {
		return nil
	}
	a.chars += utf8.RuneCountInString(text)
	if !a.Pass(adapter.Chunk{Text: text}) { // not Yield, which would copy each delta once more
		return wire.ErrLeft
	}
	return nil
}

//go:noinline
func (a *answer) event(f *frame) (done bool, err error) {
	switch string(f.kind) {
	case "exception", "error":
		if a.Finish != "" {
			return false, nil // nothing is missing
		}
		return false, a.p.explained(a.p.Failed(f.payload, string(f.name)), string(f.name))
	case "event":
	default:
		return false, nil
	}
	switch string(f.name) {
	case "contentBlockStart":
		err = a.start(f.payload)
	case "contentBlockDelta":
		err = a.delta(f.payload)
	case "contentBlockStop":
		index, _ := jsonparser.GetInt(f.payload, "contentBlockIndex") // without one it is the first
		err = a.stop(int(index))
	case "messageStop":
		err = a.finish(f.payload)
	case "metadata":
		return a.Finish != "", a.usage(f.payload)
	}
	if err == nil || err == wire.ErrLeft {
		return false, err
	}
	if _, ok := errors.AsType[*adapter.Error](err); ok {
		return false, err
	}
	return false, a.p.NotPiece(err, f.payload)
}

// find returns a block that has begun, nil where there is none.
func (a *answer) find(index int) *block {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if a.blocks[i].index == index {
			return a.blocks[i]
		}
	}
	return nil
}

// block returns a block, which only has to be announced where it is a call, a result or an image.
func (a *answer) block(index int) (*block, error) {
	b := a.find(index)
	if b == nil {
		if len(a.blocks) == maxBlocks {
			return nil, errTooMany
		}
		b = &block{index: index, call: -1}
		a.blocks = append(a.blocks, b)
	}
	return b, nil
}

func (a *answer) start(payload []byte) error {
	var event struct {
		Index int `json:"contentBlockIndex"`
		Start struct {
			own
			Image *struct {
				Format string `json:"format"`
			} `json:"image"`
		} `json:"start"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return err
	}
	b, err := a.block(event.Index)
	if err != nil || b.call >= 0 || b.own != (own{}) {
		return err
	}
	switch begun := &event.Start; {
	case begun.Image != nil:
		b.image = begun.Image.Format
	case begun.ToolResult != nil || begun.ToolUse != nil && begun.ToolUse.Type == "server_tool_use":
		b.own = begun.own
	case begun.ToolUse != nil:
		if a.calls == maxBlocks {
			return errTooMany
		}
		b.call = a.calls
		a.calls++
		return a.Yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: b.call, ID: begun.ToolUse.ID, Name: begun.ToolUse.Name}})
	}
	return nil
}

func (a *answer) delta(payload []byte) error {
	index, _ := jsonparser.GetInt(payload, "contentBlockIndex")
	if raw, kind, _, err := jsonparser.Get(payload, "delta", "reasoningContent", "text"); err == nil && kind == jsonparser.String {
		b, err := a.block(int(index))
		if err != nil {
			return err
		}
		text, err := a.reasoning.Next(raw)
		if b.thinks = true; err != nil || text == "" {
			return err
		}
		b.thought = true
		return a.Yield(adapter.Chunk{Reasoning: text})
	}
	if raw, kind, _, err := jsonparser.Get(payload, "delta", "toolUse", "input"); err == nil && kind == jsonparser.String {
		b := a.find(int(index))
		if b == nil || b.call < 0 && b.own.ToolUse == nil {
			return errNoBlock
		}
		text, err := b.arguments.Next(raw)
		if err != nil || text == "" {
			return err
		}
		if b.call < 0 {
			return b.keep([]byte(text))
		}
		return a.Yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: b.call, Arguments: text}})
	}
	var event struct {
		Delta struct {
			Reasoning struct {
				Signature string `json:"signature"`
				Redacted  []byte `json:"redactedContent"`
			} `json:"reasoningContent"`
			Result []json.RawMessage `json:"toolResult"`
			Image  struct {
				Source struct {
					Bytes []byte `json:"bytes"`
				} `json:"source"`
			} `json:"image"`
			Citation *citation `json:"citation"`
		} `json:"delta"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return err
	}
	d := &event.Delta
	if d.Reasoning.Signature == "" && len(d.Reasoning.Redacted) == 0 && len(d.Result) == 0 && len(d.Image.Source.Bytes) == 0 && d.Citation == nil {
		return nil // of something newer
	}
	b, err := a.block(int(index))
	if err != nil {
		return err
	}
	if d.Citation != nil {
		if len(b.citations) == maxBlocks {
			return errTooMany
		}
		b.citations = append(b.citations, d.Citation.read())
	}
	b.thinks = b.thinks || d.Reasoning.Signature != "" || len(d.Reasoning.Redacted) > 0
	b.signature += d.Reasoning.Signature
	b.redacted = append(b.redacted, d.Reasoning.Redacted...)
	if len(b.signature)+len(b.redacted) > maxBlock {
		return errTooLarge
	}
	for _, part := range d.Result {
		if b.own.ToolResult == nil {
			return errNoBlock
		}
		b.own.ToolResult.Content = append(b.own.ToolResult.Content, part)
		if err := b.keep(part); err != nil {
			return err
		}
	}
	return b.keep(d.Image.Source.Bytes)
}

// keep adds to what has come of a block.
func (b *block) keep(data []byte) error {
	if len(b.data)+len(data) > maxBlock {
		return errTooLarge
	}
	b.data = append(b.data, data...)
	return nil
}

// stop ends a block: what was held back of it is passed on.
func (a *answer) stop(index int) error {
	if err := a.say(a.text.Rest()); err != nil {
		return err
	}
	if rest := a.reasoning.Rest(); rest != "" {
		if err := a.Yield(adapter.Chunk{Reasoning: rest}); err != nil {
			return err
		}
	}
	if a.from < a.chars {
		a.place, a.from = [2]int{a.from, a.chars}, a.chars
	}
	b := a.find(index)
	if b == nil {
		return nil
	}
	a.blocks = slices.DeleteFunc(a.blocks, func(other *block) bool { return other == b })
	for _, c := range b.citations {
		c.Start, c.End = a.place[0], a.place[1] // Claude's are in the block of the text, Nova's in one behind it
		if err := a.Yield(adapter.Chunk{Citation: &c}); err != nil {
			return err
		}
	}
	return a.complete(b)
}

func (a *answer) complete(b *block) error {
	beside := adapter.Beside{Type: adapter.PartOther}
	switch {
	case b.call >= 0:
		if rest := b.arguments.Rest(); rest != "" {
			return a.Yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: b.call, Arguments: rest}})
		}
		return nil
	case b.image != "":
		if len(b.data) == 0 {
			return nil
		}
		kind := "image/" + b.image
		return a.Yield(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(b.data)}})
	case len(b.redacted) > 0:
		beside.Data = marshal(reasoningBlock{Reasoning: reasoningContent{Redacted: b.redacted}})
	case b.thinks && b.thought: // without a signature, too: the next block is another one
		beside.Type, beside.Data = adapter.PartReasoning, marshal(signed{b.signature})
	case b.thinks && b.signature != "": // its text is not shown
		beside.Data = marshal(reasoningBlock{Reasoning: reasoningContent{Text: &reasoningText{Signature: b.signature}}})
	case b.own.ToolUse != nil:
		b.own.ToolUse.Input = wire.Arguments(string(b.data) + b.arguments.Rest())
		beside.Data = marshal(b.own)
	case b.own.ToolResult != nil:
		beside.Data = marshal(b.own)
	default:
		return nil
	}
	return a.Yield(adapter.Chunk{Beside: &beside})
}

// signed is what stands beside reasoning.
type signed struct {
	Signature string `json:"signature,omitempty"`
}

// marshal writes what is made of strings and JSON that was read.
func marshal(v any) json.RawMessage {
	data, err := wire.Marshal(v)
	if err != nil {
		panic("bedrock: " + err.Error())
	}
	return data
}

// citation is a source as Bedrock names it.
type citation struct {
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

func (c *citation) read() adapter.Citation {
	out := adapter.Citation{URL: c.Location.Web.URL, Title: c.Title}
	if out.URL == "" && strings.Contains(c.Source, "://") {
		out.URL = c.Source
	}
	for _, title := range []string{c.Location.Web.Domain, c.Source} {
		if out.Title == "" {
			out.Title = title
		}
	}
	for _, part := range c.Content {
		out.Text += part.Text
	}
	return out
}

// finish takes the reason for which the answer ends.
func (a *answer) finish(payload []byte) error {
	if a.Finish != "" {
		return nil
	}
	reason, err := jsonparser.GetString(payload, "stopReason")
	if err != nil {
		return err
	}
	if strings.HasPrefix(reason, "malformed_") {
		return &adapter.Error{
			Code: adapter.CodeProtocol, Retryable: true,
			Message: "the model's answer broke off: it wrote something that " + a.p.Name() + " cannot read",
			Cause:   errors.New("stopReason " + a.p.Redact([]byte(reason))),
		}
	}
	a.Finish = wire.FinishReason(reason)
	a.Enough()
	return nil
}

// usage reads the counts of tokens. Those of the cache are beside those of the input.
func (a *answer) usage(payload []byte) error {
	var event struct {
		Usage *struct {
			Input  int `json:"inputTokens"`
			Output int `json:"outputTokens"`
			Read   int `json:"cacheReadInputTokens"`
			Write  int `json:"cacheWriteInputTokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(payload, &event) != nil || event.Usage == nil {
		return nil // an answer without counts is still one
	}
	u := event.Usage
	const most = 1 << 50
	for _, n := range []*int{&u.Input, &u.Output, &u.Read, &u.Write} {
		*n = min(max(*n, 0), most)
	}
	a.Usage = wire.Counts{In: u.Input, Read: u.Read, Written: u.Write, Out: u.Output}.Usage()
	return nil
}

// last ends the blocks that nothing has ended.
func (a *answer) last() error {
	for len(a.blocks) > 0 {
		if err := a.stop(a.blocks[0].index); err != nil {
			return err
		}
	}
	if err := a.stop(-1); err != nil { // text is in no block
		return err
	}
	a.Settle(a.calls)
	return nil
}

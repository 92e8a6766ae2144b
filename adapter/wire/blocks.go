package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
)

var errNoCall = errors.New("arguments of no call")

// BlockReader reads an answer that is a list of blocks, each of which begins, grows and ends: Anthropic's and Amazon's. Text, reasoning and
// arguments of calls are passed on as they grow. Their extra data is kept, and passed on with the end of the block.
type BlockReader struct {
	*Answer
	Length int // of the text so far, in characters

	closed func(*Block)
	open   []*Block // in the order in which they began; nearly always one
	calls  int
	place  [2]int // of the last block with text in the answer's text, in characters
	plain  bool   // the last part is a text without data, so the next text would be joined to it
	counts counts
}

// Block is a block of an answer that has begun.
type Block struct {
	Kind      string            // one of adapter's types of parts
	Raw       []byte            // what it began with; nil where only a piece of it has announced it
	Pieces    []json.RawMessage // what belongs to it and is no text, as it came
	Signature []byte            // escaped: of reasoning
	Input     []byte            // escaped: of a call that the provider makes itself
	Passed    bool              // some of its text, or of its arguments, was passed on
	Call      int               // its number among the calls

	index int // on the wire; -1 where it has none
	text  Text
	start int // of its text in that of the answer, in characters
}

// NewBlockReader returns a reader of an answer. closed passes on what the API has its own form for when a block has ended: a text's citations,
// arguments of a call that came otherwise, and blocks that only the provider understands.
func NewBlockReader(a *Answer, closed func(*Block)) *BlockReader {
	r := &BlockReader{Answer: a, closed: closed}
	a.Last = r.end
	return r
}

// Find returns the open block with an index; the newest one where the event has none.
func (r *BlockReader) Find(index int) *Block {
	for i := len(r.open) - 1; i >= 0; i-- {
		if index < 0 || r.open[i].index == index {
			return r.open[i]
		}
	}
	return nil
}

// Open opens a block, and closes one in its place that the server has not ended. Two texts in a row are kept apart: they have to go back as two.
func (r *BlockReader) Open(index int, kind string, raw []byte) *Block {
	if old := r.Find(index); old != nil {
		r.Close(old)
	}
	if kind == adapter.PartText && r.plain {
		r.Beside(kind, 0, []byte("{}"))
	}
	b := &Block{index: index, Kind: kind, Raw: bytes.Clone(raw), start: r.Length}
	r.open = append(r.open, b)
	r.Hold(len(raw) + ItemSize)
	return b
}

// OpenCall opens a block that is a call of a tool. id and name are escaped.
func (r *BlockReader) OpenCall(index int, raw, id, name []byte) *Block {
	b := r.Open(index, adapter.PartCall, raw)
	b.Call, r.plain = r.calls, false
	r.calls++
	r.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: b.Call, ID: r.Next(new(Text), id), Name: r.Next(new(Text), name)}})
	return b
}

// At returns the open block that a piece of a kind belongs to, and opens one where the server has not. Arguments are of a call that is open, which
// may be one that the provider makes itself.
func (r *BlockReader) At(index int, kind string) *Block {
	b := r.Find(index)
	switch {
	case b != nil && (b.Kind == kind || kind == adapter.PartCall && b.Kind == adapter.PartOther):
		return b
	case kind == adapter.PartCall:
		r.Fail(errNoCall)
	}
	return r.Open(index, kind, nil)
}

// Write passes on a piece of a block's text, which is escaped. Arguments of a call that the provider makes itself are kept.
func (r *BlockReader) Write(b *Block, raw []byte) {
	if b.Kind == adapter.PartOther {
		b.Input = append(b.Input, raw...)
		r.Hold(len(raw))
		return
	}
	r.Say(b, r.Next(&b.text, raw))
}

// Say passes on a piece of a block's text.
func (r *BlockReader) Say(b *Block, text string) {
	if text == "" {
		return
	}
	b.Passed, r.plain = true, b.Kind == adapter.PartText
	var c adapter.Chunk
	switch b.Kind {
	case adapter.PartText:
		r.Length += utf8.RuneCountInString(text)
		c.Text = text
	case adapter.PartReasoning:
		c.Reasoning = text
	case adapter.PartCall:
		c.ToolCall = &adapter.ToolCall{Index: b.Call, Arguments: text}
	}
	r.Pass(c)
}

// Sign adds a piece, which is escaped, to a block's signature.
func (r *BlockReader) Sign(b *Block, raw []byte) {
	b.Signature = append(b.Signature, raw...)
	r.Hold(len(raw))
}

// Keep adds a piece of what belongs to a block.
func (r *BlockReader) Keep(b *Block, raw []byte) {
	b.Pieces = append(b.Pieces, bytes.Clone(raw))
	r.Hold(len(raw) + 64) // and the slice itself
}

// KeepAll adds the elements of an array. What is none has none.
func (r *BlockReader) KeepAll(b *Block, array []byte) {
	jsonparser.ArrayEach(array, func(raw []byte, _ jsonparser.ValueType, _ int, _ error) { r.Keep(b, raw) })
}

// Close ends a block: it passes on what was held back of its text, and its extra data.
func (r *BlockReader) Close(b *Block) {
	r.open = slices.DeleteFunc(r.open, func(other *Block) bool { return other == b })
	r.Say(b, b.text.Rest())
	switch {
	case b.Kind == adapter.PartText && b.Passed:
		r.place = [2]int{b.start, r.Length}
	case b.Kind == adapter.PartReasoning && len(b.Signature) > 0:
		r.Beside(b.Kind, 0, append(append([]byte(`{"signature":"`), b.Signature...), `"}`...))
		return
	case b.Kind == adapter.PartReasoning && b.Passed: // the next one is another one
		r.Beside(b.Kind, 0, []byte("{}"))
		return
	}
	r.closed(b)
}

// Beside passes on the extra data of a part, which ends with that.
func (r *BlockReader) Beside(kind string, call int, data json.RawMessage) {
	r.plain = false
	r.Answer.Beside(kind, call, data)
}

// Cite passes on a source of the last text.
func (r *BlockReader) Cite(c adapter.Citation) {
	c.Start, c.End = r.place[0], r.place[1]
	r.Pass(adapter.Chunk{Citation: &c})
}

// WithInput is what a block began with, with the arguments that came as the member at a path.
func (b *Block) WithInput(path ...string) []byte {
	input, _ := Unescape(b.Input) // what is no JSON either becomes one
	raw, _ := jsonparser.Set(b.Raw, Arguments(input), path...)
	return raw
}

// end closes the blocks that the server has not ended.
func (r *BlockReader) end() {
	for len(r.open) > 0 {
		r.Close(r.open[0])
	}
	r.SetFinish(r.calls)
}

// FinishReason reads the reasons of OpenAI's, Anthropic's and Amazon's APIs, and those that servers with these APIs add. pause_turn is a
// length: the answer is not whole, and the next request continues it. https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
func FinishReason(reason string) string {
	switch reason {
	case "length", "max_tokens", "model_length", "model_context_window_exceeded", "pause_turn":
		return adapter.FinishLength
	case "tool_calls", "tool_use", "function_call":
		return adapter.FinishToolCalls
	case "refusal":
		return adapter.FinishRefusal
	case "content_filter", "content_filtered", "guardrail_intervened", "sensitive", "safety", "SAFETY":
		return adapter.FinishContentFilter
	}
	return adapter.FinishStop
}

// counts are numbers of tokens. Those of the cache are not among those of the input.
type counts struct{ In, Read, Written, Out, Thought int }

// Count takes the counts of an object, each under its name, which may be a path. They are cumulative: one that is missing, or 0, does not replace an
// earlier one.
func (r *BlockReader) Count(usage []byte, in, read, written, out string, thought ...string) {
	c := &r.counts
	for _, count := range []struct {
		at   *int
		path []string
	}{{&c.In, []string{in}}, {&c.Read, []string{read}}, {&c.Written, []string{written}}, {&c.Out, []string{out}}, {&c.Thought, thought}} {
		if n, err := jsonparser.GetInt(usage, count.path...); err == nil && 0 < n && n < 1<<50 {
			*count.at = int(n)
		}
	}
	if *c == (counts{}) {
		return
	}
	all := c.In + c.Read + c.Written
	r.Usage = &adapter.Usage{
		PromptTokens: all, CompletionTokens: c.Out, TotalTokens: all + c.Out,
		CachedTokens: c.Read, CacheWriteTokens: c.Written, ReasoningTokens: c.Thought,
	}
}

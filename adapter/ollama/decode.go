package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

var (
	// errReported says that a line reports an error.
	errReported = errors.New("the line reports an error")
	// errNotLine says that a line cannot be read.
	errNotLine = errors.New("the line is not JSON, or not of the format")
	errCalls   = errors.New("the answer calls too many tools")
)

// maxCalls is how many tools one answer may call.
const maxCalls = 1024

// decoder takes from a line what is needed of it.
type decoder struct {
	// What the last line had.
	text, reasoning string
	calls           []adapter.ToolCall
	done            bool
	reason          string
	usage           *adapter.Usage

	called                 int // tools, in the whole answer
	heldText, heldThinking wire.Text

	// What parsing a line finds, escaped as it came.
	line                            []byte
	rawText, rawThinking, rawReason []byte
	counts                          [2]int // of the prompt's tokens and of the answer's
	counted, failed                 bool

	// The callbacks of the parser, made once.
	onTop, onMessage func(key, value []byte, kind jsonparser.ValueType, offset int) error
	onCalls          func(value []byte, kind jsonparser.ValueType, offset int, err error) error
}

func (d *decoder) init() {
	d.onTop, d.onMessage, d.onCalls = d.top, d.message, d.toolCalls
}

// decode takes a line apart. What it finds is a copy.
func (d *decoder) decode(line []byte) (err error) {
	d.calls, d.done, d.reason, d.usage = d.calls[:0], false, "", nil
	d.line, d.rawText, d.rawThinking, d.rawReason = line, nil, nil, nil
	d.counts, d.counted, d.failed = [2]int{}, false, false
	if err := jsonparser.ObjectEach(line, d.onTop); err != nil {
		if err == errCalls || err == wire.ErrEscape {
			return err
		}
		return errNotLine
	}
	if d.failed {
		return errReported
	}
	if d.done && !json.Valid(line) { // the parser is lenient, and this line says that nothing is missing
		return errNotLine
	}
	if d.text, err = d.heldText.Next(d.rawText); err != nil {
		return err
	}
	if d.reasoning, err = d.heldThinking.Next(d.rawThinking); err != nil {
		return err
	}
	if d.done {
		d.reason = string(d.rawReason)
		if d.counted {
			d.usage = &adapter.Usage{PromptTokens: d.counts[0], CompletionTokens: d.counts[1], TotalTokens: d.counts[0] + d.counts[1]}
		}
	}
	return nil
}

// rest gives what is still held back of characters, which will not be finished any more.
func (d *decoder) rest() {
	d.text, d.reasoning, d.calls = d.heldText.Rest(), d.heldThinking.Rest(), d.calls[:0]
}

func (d *decoder) top(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "message":
		if kind == jsonparser.Object {
			return jsonparser.ObjectEach(value, d.onMessage)
		}
	case "done":
		d.done = kind == jsonparser.Boolean && string(value) == "true"
	case "done_reason":
		if kind == jsonparser.String {
			d.rawReason = value
		}
	case "prompt_eval_count":
		d.count(0, value, kind)
	case "eval_count":
		d.count(1, value, kind)
	case "error":
		d.failed = kind == jsonparser.String && len(value) > 0 || kind == jsonparser.Object && len(value) > len("{}")
	}
	return nil
}

func (d *decoder) count(i int, value []byte, kind jsonparser.ValueType) {
	if n, err := jsonparser.ParseInt(value); err == nil && kind == jsonparser.Number && 0 <= n && n < 1<<50 {
		d.counts[i], d.counted = int(n), true
	}
}

func (d *decoder) message(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "content":
		if kind == jsonparser.String {
			d.rawText = value
		}
	case "thinking":
		if kind == jsonparser.String {
			d.rawThinking = value
		}
	case "tool_calls":
		if kind == jsonparser.Array {
			_, err := jsonparser.ArrayEachErr(value, d.onCalls)
			return err
		}
	}
	return nil
}

// toolCalls takes one call, which is always whole.
func (d *decoder) toolCalls(value []byte, kind jsonparser.ValueType, _ int, err error) error {
	if err != nil || kind != jsonparser.Object {
		return errNotLine
	}
	if d.called == maxCalls {
		return errCalls
	}
	text := func(path ...string) string {
		v, kind, _, missing := jsonparser.Get(value, path...)
		if missing != nil || kind != jsonparser.String {
			return ""
		}
		s, wrong := wire.Unescape(v)
		err = cmp.Or(err, wrong)
		return s
	}
	c := adapter.ToolCall{Index: d.called, ID: text("id"), Name: text("function", "name")}
	if err != nil {
		return err
	}
	if c.Arguments, err = argumentsOf(value); err != nil {
		return err
	}
	if c.ID == "" {
		c.ID = d.id()
	}
	d.called++
	d.calls = append(d.calls, c)
	return nil
}

// argumentsOf returns the text of a call's arguments, numbers as they came.
func argumentsOf(call []byte) (string, error) {
	value, kind, _, _ := jsonparser.Get(call, "function", "arguments")
	switch kind {
	case jsonparser.Object, jsonparser.Array:
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return "", errNotLine
		}
		return string(bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))), nil
	case jsonparser.String: // of servers that are only like Ollama
		return wire.Unescape(value)
	case jsonparser.NotExist, jsonparser.Null:
		return "{}", nil
	default:
		return "", errNotLine
	}
}

// id makes an id for a call that has none, as those of older versions. It depends on the line and the call's place in it, so the
// same line gives the same, and the calls of two answers differ: the line says when it was written, to the nanosecond.
func (d *decoder) id() string {
	h := fnv.New64a()
	h.Write(d.line)
	return "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + strconv.Itoa(d.called)
}

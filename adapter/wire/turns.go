package wire

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Turn is what one side says until the other one does.
type Turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// Blocks are how an API writes what a turn has. What is nil is left out.
type Blocks interface {
	Text(text string, beside json.RawMessage) any
	File(p *adapter.Part) (any, error)
	Thinking(p *adapter.MadePart) any
	Call(id, name string, input, beside json.RawMessage) any
	Other(data json.RawMessage) (block any, thought bool)
	Result(id string, content []any, failed bool) any
}

// Turns are a history as Anthropic, Amazon and Google want it: turns of user and assistant, in which results of tools are the user's. Blank texts
// are left out, each call has a result, and each id is the only one: otherwise they refuse it.
type Turns struct {
	System []any
	List   []Turn
	Called []string // names of the tools that were called, each once
	// Unthought says that the turn with which the assistant goes on did not begin with thinking. Claude refuses it with a budget.
	Unthought bool

	blocks Blocks
	apart  bool
	open   bool      // the assistant goes on
	waits  []waiting // calls of the last message that have no result yet
	used   map[string]bool
	result any // the last block, where it is a result
}

// waiting is a call without a result: its id in the history, and on the wire.
type waiting struct{ id, wire string }

// NewTurns writes a history. apart keeps what a user says apart from results of tools, for models that refuse them in one turn.
func NewTurns(b Blocks, messages []adapter.Message, apart bool) (*Turns, error) {
	t := &Turns{blocks: b, apart: apart, List: make([]Turn, 0, len(messages)), used: map[string]bool{}}
	for i := range messages {
		msg := &messages[i]
		if msg.Role == adapter.Assistant {
			t.missing()
			t.assistant(msg)
			continue
		}
		content, err := t.content(msg)
		if err != nil {
			return nil, err
		}
		switch msg.Role {
		case adapter.System:
			t.System = append(t.System, content...)
		case adapter.ToolRole:
			if at := slices.IndexFunc(t.waits, func(w waiting) bool { return w.id == msg.ToolCallID }); at >= 0 {
				t.give(t.waits[at].wire, content, false)
				t.waits = slices.Delete(t.waits, at, at+1)
				continue
			}
			t.missing()
			t.add(adapter.User, content...)
		default:
			t.missing()
			if len(content) == 0 {
				content = t.textBlocks("(nothing)")
			}
			if t.apart && t.result != nil {
				t.add(adapter.Assistant, t.textBlocks("(continued)")...)
			}
			t.add(adapter.User, content...)
		}
	}
	t.missing()
	if len(t.List) == 0 || t.List[0].Role != adapter.User {
		t.List = slices.Insert(t.List, 0, Turn{adapter.User, t.textBlocks("(nothing)")})
	}
	t.Unthought = t.Unthought && t.open
	return t, nil
}

func (t *Turns) textBlocks(text string) []any { return []any{t.blocks.Text(text, nil)} }

// add appends blocks to the turn of a side. What a user says in a turn without results begins something new.
func (t *Turns) add(role string, blocks ...any) {
	if len(blocks) == 0 {
		return
	}
	t.result = nil
	if n := len(t.List); n > 0 && t.List[n-1].Role == role {
		t.List[n-1].Content = append(t.List[n-1].Content, blocks...)
		return
	}
	t.open = role == adapter.Assistant
	t.List = append(t.List, Turn{role, slices.Clone(blocks)})
}

// give adds a result, after which the assistant goes on.
func (t *Turns) give(id string, content []any, failed bool) {
	result := t.blocks.Result(id, content, failed)
	t.add(adapter.User, result)
	t.open, t.result = true, result
}

// missing adds results for the calls that have none.
func (t *Turns) missing() {
	for _, w := range t.waits {
		t.give(w.wire, t.textBlocks("There is no result: the call was not finished."), true)
	}
	t.waits = nil
}

// content writes the texts and files of a message.
func (t *Turns) content(msg *adapter.Message) (content []any, err error) {
	parts := msg.Parts
	if len(parts) == 0 {
		parts = []adapter.Part{{Text: msg.Content}}
	}
	for i := range parts {
		switch p := &parts[i]; {
		case p.Image != "" || p.File != "":
			block, err := t.blocks.File(p)
			if err != nil {
				return nil, err
			}
			content = append(content, block)
		case strings.TrimSpace(p.Text) != "":
			content = append(content, t.blocks.Text(p.Text, nil))
		}
	}
	return content, nil
}

// assistant writes what a model has made, or else its text and its calls. Thinking at its end, which nothing came of, is left out: it is refused.
func (t *Turns) assistant(msg *adapter.Message) {
	var blocks []any
	open, thought, thinking := t.open, false, 0
	for p, c := range Parts(msg) {
		var block any
		thinks := false
		switch {
		case c != nil:
			block = t.call(c, p.Data)
		case p.Type == adapter.PartText && strings.TrimSpace(p.Text) != "":
			block = t.blocks.Text(p.Text, p.Data)
		case p.Type == adapter.PartReasoning:
			block, thinks = t.blocks.Thinking(p), true
		case p.Type == adapter.PartOther:
			block, thinks = t.blocks.Other(p.Data)
		}
		if block == nil {
			continue
		}
		thought = thought || thinks && len(blocks) == 0
		blocks = append(blocks, block)
		if thinking++; p.Type != adapter.PartReasoning {
			thinking = 0
		}
	}
	t.add(adapter.Assistant, blocks[:len(blocks)-thinking]...)
	if !open {
		t.Unthought = !thought
	}
}

// call writes a call, which waits for its result.
func (t *Turns) call(c *adapter.ToolCall, beside json.RawMessage) any {
	w, name := waiting{c.ID, t.id(c.ID)}, SchemaName(c.Name)
	if !slices.Contains(t.Called, name) {
		t.Called = append(t.Called, name)
	}
	t.waits = append(t.waits, w)
	return t.blocks.Call(w.wire, name, Arguments(c.Arguments), beside)
}

// id makes an id that is taken: up to 64 letters, digits, _ and -, and the only one. What providers give is mostly such, and stays as it is.
func (t *Turns) id(id string) string {
	if id = SchemaName(id); len(id) > 60 {
		id = id[:60]
	}
	own := id
	for n := 2; t.used[own]; n++ {
		own = id + "_" + strconv.Itoa(n)
	}
	t.used[own] = true
	return own
}

// CallID makes an id for the n-th call of an answer that has none. It depends on the event and the number: the same event gives the same, and the
// calls of two answers differ where their events do, as by a time.
func CallID(event []byte, n int) string {
	h := fnv.New64a()
	h.Write(event)
	return "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + strconv.Itoa(n)
}

// ArgumentsText is the text of a call's arguments, numbers as they came: of JSON, or of a string that has it.
func ArgumentsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil { // of null, text is ""
		text = string(raw)
	}
	return strings.ToValidUTF8(cmp.Or(text, "{}"), "\uFFFD")
}

// Arguments are those of a call as an object, which they must be.
func Arguments(s string) json.RawMessage {
	s = strings.TrimSpace(s)
	switch {
	case strings.HasPrefix(s, "{") && json.Valid([]byte(s)):
		return json.RawMessage(s)
	case s == "" || s == "null":
		return json.RawMessage("{}")
	}
	quoted, _ := rawjson.Marshal(map[string]string{"arguments": s}) // a string: cannot fail
	return quoted
}

package tape

import (
	"context"
	"encoding/json"
	"iter"
)

// View is the context window of a model call.
type View struct {
	Messages    []Message
	First, Last int64 // ids of the first and last entry that the selector took; 0 when there were none
}

// Message is one chat message in the OpenAI shape, a model's with a member "made" where its provider wants something back. JSON is not to be
// changed: it may be a part of an entry.
type Message struct {
	Role string
	JSON json.RawMessage
}

// Starts says whether a message is that of the anchor every tape begins with, which tells a model nothing.
func (m Message) Starts() bool { return string(m.JSON) == starts }

const starts = `{"role":"assistant","content":"[Anchor created: ` + AnchorStart + `]: {\"owner\":\"human\"}"}`

// Selector makes chat messages of entries. It gets the entries from where it starts, without those that are hidden
// ("context":false); the same entries give the same messages. What it returns is repaired to be a conversation that
// providers accept, see Repair.
//
// What a model has refused stands as a note, see NewRefusal.
//
// A selector that does not start at the last anchor is a Starter too.
type Selector interface {
	Select(ctx context.Context, entries iter.Seq2[Entry, error]) ([]Message, error)
}

// Starter says where a view starts.
type Starter interface{ Start() Start }

// Start is where a view starts. The zero value is the last anchor, that one included, or the whole tape where there is
// none.
type Start struct {
	Anchor string // at the latest anchor of this name, that one included
	Whole  bool   // at the first entry
}

func (s Start) query() Query {
	return Query{FromAnchor: s.Anchor, FromLast: !s.Whole && s.Anchor == ""}
}

// Default is the selector of a session where nothing else is said.
var Default Selector = Selection{}

// Selection is the default mapping of entries to messages, from a start of choice.
//
//	anchor       an assistant message "[Anchor created: <name>]: <state>"
//	message      itself
//	tool_call    an assistant message with tool_calls
//	tool_result  a tool message for each result
//
// Other kinds are in no view. A result with an id answers the open call of that id; the others answer, by position, the
// calls that are still open. A call is open until it is answered, or up to the next tool_call or message. An anchor that
// comes between a call and its results follows them.
type Selection struct{ From Start }

// Start implements Starter.
func (s Selection) Start() Start { return s.From }

// Select implements Selector.
func (s Selection) Select(_ context.Context, entries iter.Seq2[Entry, error]) ([]Message, error) {
	var w window
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		w.add(e)
	}
	w.close()
	return w.out, nil
}

// Without returns a selector that does not see the entries that skip reports. A nil sel is Default.
func Without(sel Selector, skip func(Entry) bool) Selector {
	if sel == nil {
		sel = Default
	}
	return without{sel, skip}
}

type without struct {
	Selector
	skip func(Entry) bool
}

// Start implements Starter.
func (s without) Start() Start {
	if starts, ok := s.Selector.(Starter); ok {
		return starts.Start()
	}
	return Start{}
}

// Select implements Selector.
func (s without) Select(ctx context.Context, entries iter.Seq2[Entry, error]) ([]Message, error) {
	return s.Selector.Select(ctx, func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if err == nil && s.skip(e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	})
}

// View derives the context window of a model call, with sel, or with Default where sel is nil.
func (t *Tape) View(ctx context.Context, sel Selector) (View, error) {
	if sel == nil {
		sel = Default
	}
	var start Start
	if s, ok := sel.(Starter); ok {
		start = s.Start()
	}
	var v View
	messages, err := sel.Select(ctx, withoutRefused(func(yield func(Entry, error) bool) {
		for e, err := range t.Read(ctx, start.query()) {
			if err == nil {
				if hidden(e) {
					continue
				}
				if v.First == 0 {
					v.First = e.ID
				}
				v.Last = e.ID
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}))
	if err != nil {
		return View{}, err
	}
	if v.Messages, err = t.putBack(ctx, Repair(messages)); err != nil {
		return View{}, err
	}
	return v, nil
}

// hidden says whether an entry is in no view.
func hidden(e Entry) bool {
	return !emptyObject(e.Meta) && string(member(e.Meta, "context")) == "false"
}

// window makes messages of entries, one after another.
type window struct {
	out   []Message
	calls []openCall // of the last tool_call, that wait for a result
	after []Message  // of anchors that came since, for when the calls are closed
}

// openCall waits for its result.
type openCall struct {
	id   string          // as the entry has it
	sent string          // as the view has it
	name json.RawMessage // of the function, quoted; nil when there is none
}

func (w *window) add(e Entry) {
	if !json.Valid(e.Payload) {
		return // no store gives such a one
	}
	switch e.Kind {
	case KindAnchor:
		w.anchor(e)
	case KindMessage:
		w.message(e)
	case KindToolCall:
		w.toolCall(e)
	case KindToolResult:
		w.toolResult(e)
	}
}

func (w *window) close() {
	w.calls = nil
	w.out = append(w.out, w.after...)
	w.after = nil
}

func (w *window) anchor(e Entry) {
	name, _ := text(member(e.Payload, "name"))
	state := member(e.Payload, "state")
	if state == nil {
		state = json.RawMessage("null")
	}
	m := Message{Role: "assistant", JSON: encode(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{"assistant", "[Anchor created: " + name + "]: " + string(state)})}
	if len(w.calls) > 0 {
		w.after = append(w.after, m)
		return
	}
	w.out = append(w.out, m)
}

func (w *window) message(e Entry) {
	w.close()
	if role, ok := text(member(e.Payload, "role")); ok {
		w.out = append(w.out, Message{Role: role, JSON: e.Payload})
	}
}

func (w *window) toolCall(e Entry) {
	w.close()
	content := member(e.Payload, "content")
	if content == nil || content[0] != '"' {
		content = json.RawMessage(`""`)
	}
	items := elements(member(e.Payload, "calls"))
	items, w.calls, _ = fixCalls(items)
	if len(items) == 0 {
		return
	}
	w.out = append(w.out, Message{Role: "assistant", JSON: encode(struct {
		Role    string            `json:"role"`
		Content json.RawMessage   `json:"content"`
		Calls   []json.RawMessage `json:"tool_calls"`
		Made    json.RawMessage   `json:"made,omitempty"`
	}{"assistant", content, items, member(e.Payload, madeMember)})})
}

func (w *window) toolResult(e Entry) {
	ids, results := elements(member(e.Payload, "ids")), elements(member(e.Payload, "results"))
	// Those with an id first, so that the others find what is left.
	answers := make([]*openCall, len(results))
	unnamed := make([]bool, len(results))
	for i := range results {
		id := ""
		if i < len(ids) {
			id, _ = text(ids[i])
		}
		if unnamed[i] = id == ""; !unnamed[i] {
			answers[i] = w.answer(func(c openCall) bool { return c.id == id })
		}
	}
	for i, result := range results {
		if unnamed[i] {
			answers[i] = w.answer(func(openCall) bool { return true })
		}
		if answers[i] != nil {
			w.out = append(w.out, toolMessage(*answers[i], result))
		}
	}
}

// answer takes the first open call that is meant.
func (w *window) answer(is func(openCall) bool) *openCall {
	for i, c := range w.calls {
		if is(c) {
			w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
			return &c
		}
	}
	return nil
}

// toolMessage is the result of a call: a string as it is, anything else as its JSON text.
func toolMessage(c openCall, result json.RawMessage) Message {
	if result[0] != '"' {
		result = appendString(nil, string(result))
	}
	return Message{Role: "tool", JSON: encode(struct {
		Role    string          `json:"role"`
		Call    string          `json:"tool_call_id"`
		Name    json.RawMessage `json:"name,omitempty"`
		Content json.RawMessage `json:"content"`
	}{"tool", c.sent, c.name, result})}
}

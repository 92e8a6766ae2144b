package tape

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
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

// Default is the selector of a session without another one.
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
func (s without) Start() Start { return startOf(s.Selector) }

func startOf(sel Selector) Start {
	if s, ok := sel.(Starter); ok {
		return s.Start()
	}
	return Start{}
}

// Select implements Selector.
func (s without) Select(ctx context.Context, entries iter.Seq2[Entry, error]) ([]Message, error) {
	return s.Selector.Select(ctx, func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if (err != nil || !s.skip(e)) && !yield(e, err) {
				return
			}
		}
	})
}

// View derives the context window of a model call, with sel, or with Default where sel is nil. Large media are the URLs of their blobs, see BlobOf.
func (t *Tape) View(ctx context.Context, sel Selector) (v View, err error) {
	if sel == nil {
		sel = Default
	}
	var visible []Entry
	for e, err := range t.Read(ctx, startOf(sel).query()) {
		if err != nil {
			return View{}, err
		}
		if !MetaOf(e).ContextHidden {
			visible = append(visible, e)
		}
	}
	messages, err := sel.Select(ctx, func(yield func(Entry, error) bool) {
		for _, e := range withNotes(visible) {
			v.First, v.Last = cmp.Or(v.First, e.ID), e.ID
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		return View{}, err
	}
	v.Messages = Repair(messages)
	return v, nil
}

// window makes messages of entries, one after another.
type window struct {
	out   []Message
	calls []openCall // of the last tool_call, without a result
	after []Message  // of anchors that follow these calls
}

// openCall is a call without a result.
type openCall struct {
	id   string // in the entry
	sent string // in the view
	name string // of the function
}

func (w *window) add(e Entry) {
	p := PayloadOf(e)
	switch e.Kind {
	case KindAnchor:
		w.anchor(p)
	case KindMessage:
		w.close()
		if p.Role != "" {
			w.out = append(w.out, Message{Role: p.Role, JSON: e.Payload})
		}
	case KindToolCall:
		w.toolCall(p)
	case KindToolResult:
		w.toolResult(p)
	}
}

func (w *window) close() {
	w.out = append(w.out, w.after...)
	w.calls, w.after = nil, nil
}

func (w *window) anchor(p Payload) {
	state := cmp.Or(string(p.State), "null")
	m := Message{"assistant", newObject("role", "assistant", "content", "[Anchor created: "+p.Name+"]: "+state)}
	if len(w.calls) > 0 {
		w.after = append(w.after, m)
		return
	}
	w.out = append(w.out, m)
}

func (w *window) toolCall(p Payload) {
	w.close()
	items, calls, _ := fixCalls(p.Calls)
	if w.calls = calls; len(items) == 0 {
		return
	}
	m := newObject("role", "assistant", "content", text(p.Content), "tool_calls", items)
	if p.Made != nil {
		m = setMember(m, "made", p.Made)
	}
	w.out = append(w.out, Message{"assistant", m})
}

func (w *window) toolResult(p Payload) {
	// Results with an id come first, so that the others answer the calls that remain.
	answers := make([]*openCall, len(p.Results))
	ids := make([]string, len(p.Results))
	for i := range p.Results {
		if i < len(p.IDs) {
			ids[i] = p.IDs[i]
		}
		if ids[i] != "" {
			answers[i] = w.answer(ids[i])
		}
	}
	for i, result := range p.Results {
		if ids[i] == "" {
			answers[i] = w.answer("")
		}
		if answers[i] != nil {
			w.out = append(w.out, toolMessage(*answers[i], result))
		}
	}
}

// answer removes the first open call with an id from the open ones, "" for any, and returns it.
func (w *window) answer(id string) *openCall {
	i := slices.IndexFunc(w.calls, func(c openCall) bool { return id == "" || c.id == id })
	if i < 0 {
		return nil
	}
	c := w.calls[i]
	w.calls = slices.Delete(w.calls, i, i+1)
	return &c
}

// toolMessage returns the result of a call as a message: a string as it is, other values as their JSON text.
func toolMessage(c openCall, result json.RawMessage) Message {
	if result[0] != '"' {
		result = encode(string(result))
	}
	m := newObject("role", "tool", "tool_call_id", c.sent, "content", result)
	if c.name != "" {
		m = newObject("role", "tool", "tool_call_id", c.sent, "name", c.name, "content", result)
	}
	return Message{"tool", m}
}

package run

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// transcript writes what happens in a turn of an agent to the tube of its run: text, calls of tools and their results, sources, images and
// sounds. Its methods are called by the goroutine of the turn, and by the run's when the turn has ended.
type transcript struct {
	manager  *ling.Manager // of the run
	agent    string
	maxBytes int    // of all values
	tooLarge func() // is called once, before more than maxBytes would be written: the turn is to end
	// storeMedia stores data that a model made, and returns their address; "" if they are not stored.
	storeMedia func(ctx context.Context, kind string, data []byte) (url string, err error)

	open      map[string]int // numbers of the calls without a result, by id: a later call may have the id of an earlier one
	calls     int            // so far
	lastCall  int            // number
	citations int            // so far
	images    int            // and sounds, so far
	hasText   bool
	newline   bool // the text ends with a line
	gap       bool // calls have come since the text
	size      int  // bytes that were written
	full      bool // there was more to write than maxBytes
	escaped   []byte
}

// write writes an event. The run itself sends the end and the error of the turn.
func (w *transcript) write(e turn.Event) {
	switch e.Kind {
	case turn.TextEvent:
		w.writeText(e.Delta)
	case turn.RetractEvent:
		w.retract(e.Delta)
	case turn.ReasoningEvent:
		w.append([]byte(reasoningURI), e.Delta)
	case turn.ToolCallEvent:
		for _, c := range e.Calls {
			w.call(c)
		}
	case turn.ToolResultEvent:
		for _, r := range e.Results {
			w.result(r)
		}
	case turn.CitationEvent:
		if e.Citation != nil {
			w.setValue(citationsURI, w.citations, e.Citation)
			w.citations++
		}
	case turn.MediaEvent:
		if e.Media != nil {
			w.media(e.Media)
		}
	case turn.UsageEvent:
		if u := e.Usage; u != nil {
			w.manager.Used(w.agent, u.Model, u.Usage)
		}
	case turn.ErrorEvent:
		w.manager.Report(w.agent, &bot.Failure{Code: e.Err.Code, Message: e.Err.Message})
	case turn.FinalEvent:
	default: // approval_required, approval_resolved, handoff, and what plugins add
		if len(e.Value) > 0 {
			_ = w.manager.SendEvent(string(e.Kind), e.Value) // an invalid name is ignored
		}
	}
}

// writeText writes a piece of the answer. A paragraph ends before calls of tools, if the model did not end it.
func (w *transcript) writeText(delta string) {
	if delta == "" {
		return
	}
	if w.gap && w.hasText && !w.newline && delta[0] != '\n' {
		delta = "\n\n" + delta
	}
	w.hasText, w.gap, w.newline = true, false, strings.HasSuffix(delta, "\n")
	w.append(nil, delta)
}

// retract removes the end of the text.
func (w *transcript) retract(end string) {
	document, _ := w.manager.Tube().Snapshot(true)
	var text string
	_ = json.Unmarshal(document, &text) // no text is none
	text = strings.TrimSuffix(text, end)
	w.send(tube.Event{Kind: tube.Set, Value: null})
	w.append(nil, text)
	w.hasText, w.newline = text != "", strings.HasSuffix(text, "\n")
}

// append appends to the string at a uri.
func (w *transcript) append(uri []byte, text string) {
	w.escaped = jsonuri.AppendEscaped(w.escaped[:0], text)
	w.send(tube.Event{Kind: tube.Append, URI: uri, Value: w.escaped})
}

// set sets the value at a numbered uri. A string that is set is sent as one that is appended to.
func (w *transcript) set(name string, number int, value []byte) {
	w.send(tube.Event{Kind: tube.Set, URI: []byte(numbered(name, number)), Value: value})
}

// send sends an event, unless it makes the result too large: then the turn ends.
func (w *transcript) send(e tube.Event) {
	if w.size += len(e.Value); w.size > w.maxBytes {
		if !w.full {
			w.full = true
			w.tooLarge()
		}
		return
	}
	_, _ = w.manager.Tube().Send(e) // a run that has just been canceled takes no more
}

// call writes a call of a tool.
func (w *transcript) call(c tool.Call) {
	if w.open == nil {
		w.open = map[string]int{}
	}
	number, known := w.open[c.ID]
	if !known {
		number = w.calls
		w.calls++
	}
	w.open[c.ID] = number
	w.lastCall, w.gap = number, true
	w.set(toolsURI, number, valueOfCall(c))
}

// valueOfCall returns a call as readers see it.
func valueOfCall(c tool.Call) json.RawMessage {
	if !json.Valid(c.Arguments) {
		c.Arguments, _ = json.Marshal(string(c.Arguments))
	}
	value, _ := rawjson.Marshal(c) // strings and JSON always have a JSON text
	return value
}

// setValue sets the JSON of a value at a numbered uri.
func (w *transcript) setValue(name string, number int, what any) {
	if value, err := rawjson.Marshal(what); err == nil {
		w.set(name, number, value)
	}
}

// media writes an image or a sound that the model made. Data are stored as a file of the run's caller.
func (w *transcript) media(m *adapter.Media) {
	made, failure := bot.KeepMedia(w.manager.Context(), m, w.storeMedia)
	if failure != nil {
		w.manager.Report(w.agent, failure)
		return
	}
	w.setValue(mediaURI, w.images, made)
	w.images++
}

// result writes the result of a call. Only the model gets the text of an error.
func (w *transcript) result(r tool.Result) {
	number, ok := w.open[r.ID]
	if !ok {
		number = w.lastCall
	}
	delete(w.open, r.ID)
	if r.Err == nil {
		w.set(resultsURI, number, r.Value())
		return
	}
	w.set(resultsURI, number, null)
	f := &bot.Failure{Code: "internal", Message: "the tool " + r.Name + " has failed", Cause: r.Err}
	switch r.Err.Kind {
	case tool.KindUnknown:
		f.Code, f.Message = "output_invalid", "the model called an unknown tool: "+wording.Clip(r.Name)
	case tool.KindArguments:
		f.Code, f.Message = "output_invalid", "the model called the tool "+r.Name+" with invalid arguments"
	case tool.KindDenied:
		f.Code, f.Message = "forbidden", "the tool "+r.Name+" was not allowed to run"
	case tool.KindTimeout:
		f.Message = "the tool " + r.Name + " took too long"
	case tool.KindUnknownOutcome:
		f.Message = "the server stopped while the tool " + r.Name + " ran, so it may have had its effect"
	case tool.KindInterrupted:
		return // with the turn, whose end says so
	}
	if f.Code == "internal" {
		f.ID = bot.NewLogID()
	}
	w.manager.Report(w.agent, f)
}

// Where a turn is written, beside the text at the root. All but the reasoning are numbered from 0.
const (
	reasoningURI = "$reasoning_context"
	toolsURI     = "$tools"
	resultsURI   = "$tool_results"
	citationsURI = "$citations"
	mediaURI     = "$media"
)

var null = []byte("null")

func numbered(name string, number int) string { return name + "/" + strconv.Itoa(number) }

// resume makes a new transcript continue behind what its turn has written.
func (w *transcript) resume(t *agent.Told) {
	w.open = map[string]int{}
	for i, c := range t.Calls {
		if _, there := t.Results[i]; !there {
			w.open[c.ID] = i
		}
		w.size += len(c.Name) + len(c.Arguments) + len(t.Results[i])
	}
	w.calls, w.lastCall, w.citations, w.images = len(t.Calls), len(t.Calls)-1, t.Citations, t.Media
	w.hasText, w.newline = t.Text != "", strings.HasSuffix(t.Text, "\n")
	w.size += len(t.Text) + len(t.Reasoning)
}

// correctDocument makes the document of a tube that of the tape: the process that wrote both may have stopped before a reply got to the tape, or
// between the tape and the tube. It returns the uris at which something will be removed, "" for the root, and a function that sends the events.
func correctDocument(t *tube.Tube, told agent.Told) (parts []string, send func()) {
	document, reserved := t.Snapshot(true)
	var values map[string]json.RawMessage
	_ = json.Unmarshal(reserved, &values)
	var b correction
	b.text("", document, told.Text)
	b.text(reasoningURI, values[reasoningURI], told.Reasoning)
	calls, results := list(values[toolsURI]), list(values[resultsURI])
	for i := range max(len(calls), len(told.Calls)) {
		if i < len(told.Calls) && sameCall(calls[i], told.Calls[i]) {
			continue
		}
		b.remove(toolsURI, i, calls[i])
		b.remove(resultsURI, i, results[i])
		delete(results, i)
		if i < len(told.Calls) {
			b.set(numbered(toolsURI, i), valueOfCall(told.Calls[i]))
		}
	}
	for i := range told.Calls {
		shown, isShown := results[i]
		result, isTold := told.Results[i]
		if !isTold {
			b.remove(resultsURI, i, shown)
		} else if !isShown || string(shown) == "null" && string(result) != "null" {
			b.set(numbered(resultsURI, i), result)
		}
	}
	b.removeFrom(citationsURI, told.Citations, list(values[citationsURI]))
	b.removeFrom(mediaURI, told.Media, list(values[mediaURI]))
	slices.Sort(b.parts)
	return b.parts, func() {
		for _, e := range b.events {
			_, _ = t.Send(e) // a run that has just been canceled takes no more
		}
	}
}

// correction collects events, and where something is gone by them.
type correction struct {
	events []tube.Event
	parts  []string
}

func (b *correction) set(uri string, value []byte) {
	b.events = append(b.events, tube.Event{Kind: tube.Set, URI: []byte(uri), Value: value})
}

func (b *correction) remove(uri string, number int, value json.RawMessage) {
	if value == nil || string(value) == "null" {
		return
	}
	b.parts = append(b.parts, numbered(uri, number))
	b.set(numbered(uri, number), null)
}

// removeFrom removes the values from a number on.
func (b *correction) removeFrom(uri string, number int, values map[int]json.RawMessage) {
	for _, i := range slices.Sorted(maps.Keys(values)) {
		if i >= number {
			b.remove(uri, i, values[i])
		}
	}
}

// text makes a value that is shown the text that was told.
func (b *correction) text(uri string, shown json.RawMessage, told string) {
	var text string
	_ = json.Unmarshal(shown, &text) // no text is none
	rest, longer := strings.CutPrefix(told, text)
	if !longer {
		b.parts = append(b.parts, uri)
		b.set(uri, null)
		rest = told
	}
	if rest != "" {
		b.events = append(b.events, tube.Event{Kind: tube.Append, URI: []byte(uri), Value: jsonuri.AppendEscaped(nil, rest)})
	} else if uri == "" && !longer {
		b.set(uri, []byte("{}")) // as in the beginning
	}
}

// list returns the numbered values at a uri.
func list(value json.RawMessage) map[int]json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(value, &members)
	values := map[int]json.RawMessage{}
	for name, value := range members {
		if i, err := strconv.Atoi(name); err == nil {
			values[i] = value
		}
	}
	return values
}

// sameCall reports whether a value that is shown is of this call.
func sameCall(shown json.RawMessage, c tool.Call) bool {
	var one tool.Call
	return json.Unmarshal(shown, &one) == nil && one.ID == c.ID && one.Name == c.Name
}

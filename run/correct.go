package run

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

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
	for uri, count := range map[string]int{citationsURI: told.Citations, mediaURI: told.Media} {
		for i, value := range list(values[uri]) {
			if i >= count {
				b.remove(uri, i, value)
			}
		}
	}
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

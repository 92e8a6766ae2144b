package workflow

import (
	"bytes"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// tell tells what comes on the tube, from its event numbered from on, until the work is over and all of it was told. It returns false
// when the reader has left. It reads what clients may see: the stream goes to such.
func (r *run) tell(m *ling.Manager, from uint64, over <-chan struct{}) bool {
	reader := m.Tube().NewReader(from)
	defer reader.Leave()
	// Without a reader of the deltas, the events are read once, at the end, for the usage and errors of the turn.
	seen := r.turn.Streaming() && r.answer.Manager == nil
	for ended := false; !ended; {
		if seen {
			select {
			case <-reader.More():
			case <-over:
				ended = true
			}
		} else {
			<-over
			ended = true
		}
		for e := range reader.Waiting() {
			if e.Kind != tube.Named && !seen {
				continue
			}
			if e, ok := r.event(e); ok && !r.emit(e) {
				return false
			}
		}
	}
	return true
}

// event returns the turn's event for an event of the tube; false if it has none.
func (r *run) event(e tube.Event) (turn.Event, bool) {
	switch e.Kind {
	case tube.Append, tube.Set:
		return turn.Event{Kind: turn.DeltaEvent, URI: string(e.URI), Value: valueOf(e)}, true
	case tube.Named:
		return r.named(turn.EventKind(e.Name), e.Value)
	}
	return turn.Event{}, false // nothing has changed
}

// valueOf is the delta of an event as the wire has it: a string is appended, anything else is set. It is a copy, since the tube's other
// readers share what the event has.
func valueOf(e tube.Event) json.RawMessage {
	if e.Kind == tube.Set {
		return bytes.Clone(e.Value)
	}
	value := make(json.RawMessage, 0, len(e.Value)+2)
	value = append(append(append(value, '"'), e.Value...), '"')
	return value
}

// named returns the turn's event for a named event.
func (r *run) named(kind turn.EventKind, data []byte) (turn.Event, bool) {
	switch kind {
	case "started", "bot", "queued", "waiting", "finished", "canceled":
		return turn.Event{}, false // of the run, not of what it makes
	case turn.TextEvent, turn.RetractEvent, turn.ReasoningEvent, turn.ToolCallEvent, turn.ToolResultEvent, turn.DeltaEvent, turn.FinalEvent:
		return turn.Event{}, false // of a workflow that calls its own event so: it would be taken for something else
	case turn.UsageEvent:
		u := new(turn.Usage)
		if json.Unmarshal(data, u) != nil {
			return turn.Event{}, false
		}
		r.told.Add(u.Usage)
		return turn.Event{Kind: kind, Usage: u}, true
	case turn.ErrorEvent:
		var d ling.ErrorData
		if json.Unmarshal(data, &d) != nil {
			return turn.Event{}, false
		}
		e := &turn.EventError{Code: d.Code, Message: d.Message}
		if d.Bot != "" || d.Pointer != "" {
			e.Details = map[string]any{}
			if d.Bot != "" {
				e.Details["bot"] = d.Bot
			}
			if d.Pointer != "" {
				e.Details["pointer"] = d.Pointer
			}
		}
		return turn.Event{Kind: kind, Err: e}, true
	}
	return turn.Event{Kind: kind, Value: bytes.Clone(data)}, true
}

// rest tells what bots have used whose events no client sees: the turn has to count them, too.
func (r *run) rest(used map[string]adapter.Usage) {
	for _, u := range used {
		r.usage.Add(u)
	}
	rest := r.usage
	rest.Sub(r.told)
	if rest != (adapter.Usage{}) {
		r.emit(turn.Event{Kind: turn.UsageEvent, Usage: &turn.Usage{Usage: rest}})
	}
}

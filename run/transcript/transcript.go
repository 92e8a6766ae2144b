// Package transcript writes what happens in a turn of an agent to the tube of its run: text, calls of tools and their results, sources,
// images and sounds.
package transcript

import (
	"context"
	"encoding/json"
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

// Options say where to write. All but Told are needed.
type Options struct {
	Manager  *ling.Manager // of the run
	Name     string        // of the agent
	MaxBytes int           // of all values
	TooLarge func()        // is called once, before more than MaxBytes would be written: the turn is to end
	// Keep stores data that a model made, and returns their address; "" if they are not stored.
	Keep func(ctx context.Context, kind string, data []byte) (url string, err error)
	// Told is what the tube has of the turn already, if another process has begun it: the writer goes on behind that.
	Told *agent.Told
}

// Writer writes a turn. Its methods are called by the goroutine of the turn, and by the run's when the turn has ended.
type Writer struct {
	o       Options
	calls   map[string]int // numbers of the calls that are not answered, by id: a later call may have the id of an earlier one
	told    int            // calls so far
	last    int            // the last call
	cited   int            // sources so far
	made    int            // images and sounds so far
	wrote   bool           // text
	line    bool           // the text ends with a line
	gap     bool           // calls have come since
	size    int            // bytes that were written
	large   bool           // it was too much
	pending []byte
}

// New returns a writer.
func New(o Options) *Writer {
	w := &Writer{o: o}
	if o.Told != nil {
		w.resume(o.Told)
	}
	return w
}

// TooLarge reports whether there was more to write than MaxBytes.
func (w *Writer) TooLarge() bool { return w.large }

// Wrote reports whether the turn has written text.
func (w *Writer) Wrote() bool { return w.wrote }

// Done writes that the values are complete.
func (w *Writer) Done() { w.send(tube.Event{Kind: tube.Done}) }

// Take writes an event. Its end, and its error, are the run's to tell.
func (w *Writer) Take(e turn.Event) {
	switch e.Kind {
	case turn.TextEvent:
		w.Text(e.Delta)
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
			w.beside(citationsURI, w.cited, e.Citation)
			w.cited++
		}
	case turn.MediaEvent:
		if e.Media != nil {
			w.media(e.Media)
		}
	case turn.UsageEvent:
		if u := e.Usage; u != nil {
			w.o.Manager.Used(w.o.Name, u.Model, u.Usage)
		}
	case turn.ErrorEvent:
		if e.Err != nil {
			w.o.Manager.Report(w.o.Name, &bot.Failure{Code: e.Err.Code, Message: e.Err.Message})
		}
	case turn.FinalEvent:
	default: // approval_required, approval_resolved, handoff, and what plugins add
		if len(e.Value) > 0 {
			_ = w.o.Manager.SendEvent(string(e.Kind), e.Value) // an invalid name is ignored
		}
	}
}

// Text writes a piece of the answer. What stands before calls and after them are two paragraphs, where it does not see to that itself.
func (w *Writer) Text(delta string) {
	if delta == "" {
		return
	}
	if w.gap && w.wrote && !w.line && delta[0] != '\n' {
		delta = "\n\n" + delta
	}
	w.wrote, w.gap, w.line = true, false, strings.HasSuffix(delta, "\n")
	w.append(nil, delta)
}

// retract takes back what the text ends with.
func (w *Writer) retract(end string) {
	document, _ := w.o.Manager.Tube().Snapshot(true)
	var text string
	_ = json.Unmarshal(document, &text) // no text is none
	text = strings.TrimSuffix(text, end)
	w.send(tube.Event{Kind: tube.Set, Value: null})
	w.append(nil, text)
	w.wrote, w.line = text != "", strings.HasSuffix(text, "\n")
}

// append appends to the string at a uri.
func (w *Writer) append(uri []byte, text string) {
	w.pending = jsonuri.AppendEscaped(w.pending[:0], text)
	w.send(tube.Event{Kind: tube.Append, URI: uri, Value: w.pending})
}

// set sets the value at a numbered uri. A string that is set is sent as one that is appended to.
func (w *Writer) set(name string, number int, value []byte) {
	w.send(tube.Event{Kind: tube.Set, URI: []byte(numbered(name, number)), Value: value})
}

// send sends an event, unless it makes the result too large: then the turn ends.
func (w *Writer) send(e tube.Event) {
	if w.size += len(e.Value); w.size > w.o.MaxBytes {
		if !w.large {
			w.large = true
			w.o.TooLarge()
		}
		return
	}
	_, _ = w.o.Manager.Tube().Send(e) // a run that has just been canceled takes no more
}

// call tells a call of a tool.
func (w *Writer) call(c tool.Call) {
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	number, known := w.calls[c.ID]
	if !known {
		number = w.told
		w.told++
	}
	w.calls[c.ID] = number
	w.last, w.gap = number, true
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

// beside tells a source, or an image or a sound.
func (w *Writer) beside(name string, number int, what any) {
	if value, err := rawjson.Marshal(what); err == nil {
		w.set(name, number, value)
	}
}

// media tells an image or a sound that the model made. Data are kept as a file of the run's caller.
func (w *Writer) media(m *adapter.Media) {
	made := struct {
		Type  string `json:"type"`
		URL   string `json:"url"`
		Bytes int    `json:"bytes,omitempty"`
	}{m.Type, m.URL, 0}
	if strings.HasPrefix(m.URL, "data:") {
		kind, data, ok := adapter.OpenDataURL(m.URL)
		url, err := "", bot.ErrMediaBroken
		if ok {
			url, err = w.o.Keep(w.o.Manager.Context(), kind, data)
		}
		if url == "" {
			w.o.Manager.Report(w.o.Name, bot.MediaFailure(err))
			return
		}
		made.URL, made.Bytes = url, len(data)
	}
	w.beside(mediaURI, w.made, made)
	w.made++
}

// result tells what came of a call. What a tool says of its failure is for the model.
func (w *Writer) result(r tool.Result) {
	number, ok := w.calls[r.ID]
	if !ok {
		number = w.last
	}
	delete(w.calls, r.ID)
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
	w.o.Manager.Report(w.o.Name, f)
}

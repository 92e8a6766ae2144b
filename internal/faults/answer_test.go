//go:build nightly

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
)

// event is one of a run, the same whatever framing it came in. A snapshot's events but the last have no id.
type event struct {
	id    string
	name  string // "" for a delta
	data  string // of a named event
	uri   string
	delta string // JSON text
}

// failure is what an "error" event and the errors of a document say.
type failure struct {
	Code, Message, Bot, Pointer string
	Retryable, Fatal            bool
}

// answer is what a client makes of an answer: the same for each framing.
type answer struct {
	status int
	header http.Header
	body   []byte
	broken error // the answer was broken off

	events  []event // of a stream
	run     string
	state   string // how the run has ended; "" where that was not told
	doc     string // the result
	errors  []failure
	problem *problem
}

// problem is a problem document.
type problem struct {
	Title, Detail, Code, Run string
	Status                   int
	Errors                   []struct{ Pointer, Parameter, Header, Detail string }
}

// code is that of the first error that is told, in whatever form.
func (a *answer) code() string {
	switch {
	case a.problem != nil:
		return a.problem.Code
	case len(a.errors) > 0:
		return a.errors[0].Code
	}
	return ""
}

// says is the sentence of the first error that is told.
func (a *answer) says() string {
	switch {
	case a.problem != nil:
		return a.problem.Detail
	case len(a.errors) > 0:
		return a.errors[0].Message
	}
	return ""
}

func (a *answer) String() string {
	return fmt.Sprintf("%d %s %s: %s (broken: %v)", a.status, a.header.Get("Content-Type"), a.state, clip(string(a.body)), a.broken)
}

func clip(text string) string {
	if len(text) > 1500 {
		return text[:1000] + " … " + text[len(text)-500:]
	}
	return text
}

// readAnswer reads an answer of any kind. It panics where the server has sent what it must not.
func readAnswer(resp *http.Response) *answer {
	a := &answer{status: resp.StatusCode, header: resp.Header, run: resp.Header.Get("X-Run-Id")}
	a.body, a.broken = io.ReadAll(resp.Body)
	switch media := resp.Header.Get("Content-Type"); media {
	case "text/event-stream", "application/x-ndjson":
		var f fold
		for e := range eventsOf(media, a.body) {
			a.events = append(a.events, e)
			f.take(e)
		}
		a.state, a.errors, a.doc = f.state, f.errors, f.json()
	case "application/json":
		var d struct {
			Run, Status string
			Result      json.RawMessage
			Errors      []failure
		}
		if err := json.Unmarshal(a.body, &d); err != nil && a.broken == nil {
			panic(fmt.Sprintf("%v in %s", err, a.body))
		}
		a.state, a.doc, a.errors = d.Status, string(d.Result), d.Errors
	case "application/problem+json":
		a.problem = new(problem)
		if err := json.Unmarshal(a.body, a.problem); err != nil {
			panic(fmt.Sprintf("%v in %s", err, a.body))
		}
	}
	return a
}

// eventsOf yields the events of a stream that have come to their end. Each line must be one of those that the protocol has.
func eventsOf(media string, body []byte) func(func(event) bool) {
	r := newEventReader(media, bytes.NewReader(body))
	return func(yield func(event) bool) {
		for {
			e, err := r.next()
			if err != nil || !yield(e) {
				return
			}
		}
	}
}

// eventReader reads the events of a stream as they come.
type eventReader struct {
	r     *bufio.Reader
	lines bool
}

func newEventReader(media string, r io.Reader) *eventReader {
	return &eventReader{bufio.NewReaderSize(r, 64<<10), media == "application/x-ndjson"}
}

// next returns the next whole event.
func (r *eventReader) next() (event, error) {
	var e event
	some := false
	for {
		line, err := r.r.ReadString('\n')
		if err != nil {
			return event{}, err // what was cut off does not count
		}
		line = line[:len(line)-1]
		if r.lines {
			if line == "" {
				continue
			}
			var m struct {
				ID    string
				Event string
			}
			decode(line, &m)
			e.id, e.name = m.ID, m.Event
			e.parse([]byte(line))
			return e, nil
		}
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && some:
			e.parse([]byte(e.data))
			return e, nil
		case line == ":", field == "retry":
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data" && !some:
			e.data, some = value, true
		default:
			panic(fmt.Sprintf("a line that the protocol does not have: %q", line))
		}
	}
}

// parse reads the members of an event.
func (e *event) parse(text []byte) {
	var m struct {
		URI   string
		Delta json.RawMessage
		Data  json.RawMessage
	}
	if e.name == "" {
		decode(string(text), &m)
		e.uri, e.delta, e.data = m.URI, string(m.Delta), ""
		return
	}
	if e.data == "" {
		decode(string(text), &m)
		e.data = string(m.Data)
	}
}

func decode(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%v in %q", err, text))
	}
}

// fold is what a client keeps of a run, over any number of connections.
type fold struct {
	doc     jsonuri.Document
	last    string // id
	run     string
	n       int
	state   string
	errors  []failure
	pending []event
	ids     []string
	wrong   []string // what must not be
}

// take applies an event; those of a snapshot are applied when its last has come.
func (f *fold) take(e event) {
	f.pending = append(f.pending, e)
	if e.id == "" {
		return
	}
	run, number, _ := strings.Cut(e.id, ":")
	n, err := strconv.Atoi(number)
	if err != nil || f.last != "" && (run != f.run || n <= f.n) {
		f.wrong = append(f.wrong, fmt.Sprintf("the id %q after %q", e.id, f.last))
	}
	if f.state != "" {
		f.wrong = append(f.wrong, fmt.Sprintf("%+v after the end", e))
	}
	f.last, f.run, f.n = e.id, run, n
	f.ids = append(f.ids, e.id)
	for _, e := range f.pending {
		f.apply(e)
	}
	f.pending = nil
}

// cut forgets what came without its end, as a client does when its connection has gone.
func (f *fold) cut() { f.pending = nil }

func (f *fold) apply(e event) {
	switch e.name {
	case "":
		var err error
		if e.delta[0] == '"' {
			err = f.doc.Append([]byte(e.uri), []byte(e.delta[1:len(e.delta)-1]))
		} else {
			err = f.doc.Set([]byte(e.uri), []byte(e.delta))
		}
		if err != nil {
			f.wrong = append(f.wrong, fmt.Sprintf("%v in %+v", err, e))
		}
	case "error":
		var one failure
		decode(e.data, &one)
		f.errors = append(f.errors, one)
	case "finished":
		var d struct{ Status string }
		decode(e.data, &d)
		f.state = d.Status
	case "canceled":
		f.state = "canceled"
	}
}

func (f *fold) json() string { return string(f.doc.AppendJSON(nil)) }

// check fails the test for what must not be.
func (f *fold) check(t testing.TB) {
	t.Helper()
	for _, w := range f.wrong {
		t.Error(w)
	}
}

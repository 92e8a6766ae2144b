//go:build nightly && unix

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

// Media types of the streams of a run.
const (
	sse   = "text/event-stream"
	jsonl = "application/x-ndjson"
)

var streams = []string{sse, jsonl}

// failure is an error that an answer reports.
type failure struct{ Code, Message string }

// answer is what a client gets, whatever its media type.
type answer struct {
	status int
	header http.Header
	body   []byte
	broken error // the connection broke during the body

	run    string
	state  string // how the run ended; "" if the answer does not say it
	doc    string // the result
	last   string // the id of the last event of a stream
	errors []failure
}

// code returns the code of the first error.
func (a *answer) code() string {
	if len(a.errors) == 0 {
		return ""
	}
	return a.errors[0].Code
}

// message returns the message of the first error.
func (a *answer) message() string {
	if len(a.errors) == 0 {
		return ""
	}
	return a.errors[0].Message
}

func (a *answer) String() string {
	return fmt.Sprintf("%d %s: %s (broken: %v)", a.status, a.state, clip(string(a.body)), a.broken)
}

// overloaded reports whether the server had no capacity for the request and said when to come back.
func (a *answer) overloaded() bool { return a.status == 503 && a.header.Get("Retry-After") != "" }

func clip(text string) string {
	if len(text) > 1500 {
		return text[:1000] + " … " + text[len(text)-500:]
	}
	return text
}

// readAnswer reads an answer. It panics if the server has sent what it must not send.
func readAnswer(resp *http.Response) *answer {
	a := &answer{status: resp.StatusCode, header: resp.Header, run: resp.Header.Get("X-Run-Id")}
	a.body, a.broken = io.ReadAll(resp.Body)
	switch media := resp.Header.Get("Content-Type"); media {
	case sse, jsonl:
		f := new(fold)
		f.read(media, bytes.NewReader(a.body))
		a.state, a.errors, a.doc, a.last = f.state, f.errors, f.json(), f.last
	case "application/json":
		var d struct {
			Status string
			Result json.RawMessage
			Errors []failure
		}
		if a.broken == nil {
			decode(string(a.body), &d)
		}
		a.state, a.doc, a.errors = d.Status, string(d.Result), d.Errors
	case "application/problem+json":
		var p struct{ Detail, Code string }
		decode(string(a.body), &p)
		a.errors = []failure{{p.Code, p.Detail}}
	}
	return a
}

func decode(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%v in %q", err, text))
	}
}

// event is an event of a run, whatever its framing. Of the events of a snapshot only the last has an id.
type event struct {
	id, name   string
	data       string // of a named event, as JSON
	uri, delta string // of a delta, as JSON
}

// readEvent reads the next complete event. What was cut off does not count.
func readEvent(media string, r *bufio.Reader) (e event, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return event{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case media == jsonl && line != "":
			e.parse(line)
			return e, nil
		case line == "" && e.data != "":
			e.parse(e.data)
			return e, nil
		case line == ":", line == "", field == "retry":
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data" && e.data == "":
			e.data = value
		default:
			panic(fmt.Sprintf("a line that the protocol does not have: %q", line))
		}
	}
}

// parse reads the members of an event: the whole object of JSON Lines, or the data of Server-Sent Events.
func (e *event) parse(text string) {
	var m struct {
		ID, Event, URI string
		Delta, Data    json.RawMessage
	}
	if e.name != "" { // the data of a named event are its own
		return
	}
	decode(text, &m)
	if m.ID != "" {
		e.id = m.ID
	}
	e.name, e.uri, e.delta, e.data = m.Event, m.URI, string(m.Delta), string(m.Data)
}

// fold is what a client keeps of a run over any number of connections.
type fold struct {
	doc     jsonuri.Document
	last    string // id
	run     string
	n       int // events with an id
	state   string
	errors  []failure
	wrong   []string // violations of the protocol
	onEvent func()
}

// read folds the events of one connection until it ends or breaks. A snapshot counts only if it is complete.
func (f *fold) read(media string, body io.Reader) {
	var pending []event
	for r := bufio.NewReaderSize(body, 64<<10); ; {
		e, err := readEvent(media, r)
		if err != nil {
			return
		}
		if f.onEvent != nil {
			f.onEvent()
		}
		if pending = append(pending, e); e.id == "" {
			continue
		}
		run, number, _ := strings.Cut(e.id, ":")
		n, err := strconv.Atoi(number)
		_, was, _ := strings.Cut(f.last, ":")
		if before, _ := strconv.Atoi(was); err != nil || f.last != "" && (run != f.run || n <= before) {
			f.wrong = append(f.wrong, fmt.Sprintf("the id %q after %q", e.id, f.last))
		}
		if f.state != "" {
			f.wrong = append(f.wrong, fmt.Sprintf("%+v after the end", e))
		}
		f.last, f.run = e.id, run
		f.n++
		for _, e := range pending {
			f.apply(e)
		}
		pending = pending[:0]
	}
}

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

// check fails the test unless the run was completed with this document.
func (f *fold) check(t testing.TB, want string) {
	t.Helper()
	if f.state != "completed" || f.json() != want || len(f.wrong) > 0 {
		t.Errorf("the run is %q with %s; violations: %q", f.state, clip(f.json()), f.wrong)
	}
}

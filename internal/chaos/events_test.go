//go:build nightly && unix

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
)

// event is one of a run, the same whatever framing it came in.
type event struct {
	ID    string          `json:"id"`
	Event string          `json:"event"`
	URI   string          `json:"uri"`
	Delta json.RawMessage `json:"delta"`
	Data  json.RawMessage `json:"data"`
}

// failure is what an "error" event says.
type failure struct{ Code, Message string }

// stream reads the events of an answer.
type stream struct {
	r     *bufio.Reader
	lines bool // JSON Lines
}

func newStream(r io.Reader, media string) *stream {
	return &stream{bufio.NewReaderSize(r, 16<<10), strings.HasPrefix(media, "application/x-ndjson")}
}

// next is the next event that has come to its end.
func (s *stream) next() (e event, err error) {
	var data string
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return event{}, err // what was cut off does not count
		}
		line = line[:len(line)-1]
		if s.lines {
			if line == "" {
				continue
			}
			return e, json.Unmarshal([]byte(line), &e)
		}
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Event = value
		case "data":
			data = value
		case "":
			if data == "" {
				continue
			}
			if e.Event != "" {
				e.Data = json.RawMessage(data)
				return e, nil
			}
			return e, json.Unmarshal([]byte(data), &e)
		}
	}
}

// leap is how far the numbers of events go on after a replica has died: to a multiple of it.
const leap = 1 << 32

// view is what a client has of a run, over any number of connections.
type view struct {
	doc    jsonuri.Document
	run    string
	n      int64 // of the last event
	some   bool  // there was one
	state  string
	errors []failure
	ask    string   // the question that waits for an answer
	next   string   // the run that answers a message which came too late for this one
	gone   bool     // the server says that it does not know the run
	leaps  int      // how often the numbers have leapt
	events int      // how many there were
	wrong  []string // what must not be

	pending []event // of a snapshot that is not complete
}

func (v *view) fault(format string, args ...any) {
	if len(v.wrong) < 5 {
		v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
	}
}

// last is the id to go on from.
func (v *view) last() string {
	if !v.some {
		return ""
	}
	return v.run + ":" + strconv.FormatInt(v.n, 10)
}

// take applies an event; those of a snapshot have no id but the last, with which they are applied.
func (v *view) take(e event) {
	v.pending = append(v.pending, e)
	if e.ID == "" {
		return
	}
	v.events++
	snapshot := false
	for _, p := range v.pending {
		var whole map[string]json.RawMessage
		snapshot = snapshot || p.Event == "" && p.URI == "" && json.Unmarshal(p.Delta, &whole) == nil || len(v.pending) > 1
	}
	if e.Event == "error" && v.code() == "" {
		var f failure
		if json.Unmarshal(e.Data, &f) == nil && f.Code == "gone" {
			v.gone = true
		}
	}
	run, number, _ := strings.Cut(e.ID, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		v.fault("the id %q", e.ID)
	case !v.some && n != 0 && !snapshot && n%leap != 0:
		v.fault("the first id is %q", e.ID)
	case v.some && run != v.run:
		v.fault("the id %q of another run after %s", e.ID, v.last())
	case v.some && n <= v.n:
		v.fault("the id %q after %s", e.ID, v.last())
	case v.gone: // whose events have the highest numbers that there are, since nobody knows where the run was
	case v.some && n != v.n+1:
		// A snapshot stands for the events that it goes over.
		if n/leap == v.n/leap && !snapshot {
			v.fault("the id %q after %s, and nothing between", e.ID, v.last())
		} else if n/leap > v.n/leap {
			v.leaps++
			if n%leap != 0 && !snapshot {
				v.fault("the id %q after %s: a leap to the middle", e.ID, v.last())
			}
		}
	}
	if v.state != "" {
		v.fault("%s after the end", e.ID)
	}
	v.run, v.n, v.some = run, n, true
	for _, p := range v.pending {
		v.apply(p)
	}
	v.pending = nil
}

// cut forgets what came without its end, as a client does when its connection has gone.
func (v *view) cut() { v.pending = nil }

func (v *view) apply(e event) {
	switch e.Event {
	case "":
		var err error
		if len(e.Delta) > 0 && e.Delta[0] == '"' {
			err = v.doc.Append([]byte(e.URI), e.Delta[1:len(e.Delta)-1])
		} else if len(e.Delta) > 0 {
			err = v.doc.Set([]byte(e.URI), e.Delta)
		}
		if err != nil {
			v.fault("%v in %+v", err, e)
		}
	case "error":
		var f failure
		v.decode(e.Data, &f)
		v.errors = append(v.errors, f)
	case "approval_required":
		var d struct{ ID string }
		v.decode(e.Data, &d)
		v.ask = d.ID
	case "approval_resolved":
		v.ask = ""
	case "follow_up":
		var d struct{ Run string }
		v.decode(e.Data, &d)
		v.next = d.Run
	case "finished":
		var d struct{ Status string }
		v.decode(e.Data, &d)
		v.state = d.Status
	case "canceled":
		v.state = "canceled"
	}
}

func (v *view) decode(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		v.fault("%v in %s", err, text)
	}
}

func (v *view) document() string { return string(v.doc.AppendJSON(nil)) }

// code is that of the last error, which is the one that has ended the run.
func (v *view) code() string {
	if len(v.errors) == 0 {
		return ""
	}
	return v.errors[len(v.errors)-1].Code
}

package native

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
	"github.com/lingserve/lingserve/web/wire/request"
)

// start is a request for a run: what should run, and how to answer.
type start struct {
	run.Request
	view
	properties map[string]string // input.NAME=… of a query
}

// view is how a client wants to see a run.
type view struct {
	wire.View
	reserved bool           // include=reserved: the document has the reserved values, too
	snapshot bool           // snapshot=1: begin with the document so far
	async    bool           // Prefer: respond-async
	wait     *time.Duration // Prefer: wait=N: who starts a run and wants JSON is answered after this time at the latest; nil is no limit

	resume    *eventID // continue after this event
	fromQuery bool     // the id is in the query: a page that was reloaded, not a connection that broke
	after     *uint64  // ?after=N: the same without the run's id
}

// maxSession bounds the id of a session.
const maxSession = 512

// policies are what a message to an agent does whose session is busy.
var policies = []string{"queue", "reject", "interrupt", "steer"}

// readPost reads the request of POST /v1/runs.
func (h Handlers) readPost(w http.ResponseWriter, r *http.Request) (*start, *wire.Problem) {
	st := new(start)
	body, p := h.ReadJSON(w, r)
	if p != nil {
		return st, p
	}
	d := new(request.Decoder)
	st.query(d, r, postParameters...)
	st.headers(d, r)
	// A client that resumes need not repeat its request.
	if st.resume == nil || len(bytes.TrimSpace(body)) > 0 {
		if p := wire.CheckAndRead(body, func() { st.body(d, body) }); p != nil {
			return st, p
		}
	}
	return st, st.finish(d)
}

// readGet reads the request of GET /v1/runs.
func readGet(r *http.Request) (*start, *wire.Problem) {
	st, d := new(start), new(request.Decoder)
	st.queryOfStart(d, r)
	st.headers(d, r)
	return st, st.finish(d)
}

// finish checks how the members go together.
func (st *start) finish(d *request.Decoder) *wire.Problem {
	if p := wire.Faults(d); p != nil {
		return p
	}
	if st.async && st.CancelOnDisconnect {
		return wire.Invalid(run.Field{
			Parameter: "on_disconnect",
			Detail:    "cancel does not go with Prefer: respond-async, because it needs an open connection",
		})
	}
	return nil
}

// body reads the members of a request's body. text is known to be JSON.
func (st *start) body(d *request.Decoder, text []byte) {
	q := &st.Request
	d.Object("", text, request.Fields{
		"workflow": func(at string, raw json.RawMessage) {
			if raw[0] == '{' {
				q.Inline = raw
				return
			}
			q.Workflow = d.Text(at, raw, request.MaxName)
		},
		"agent":   func(at string, raw json.RawMessage) { q.Agent = d.Text(at, raw, request.MaxName) },
		"session": func(at string, raw json.RawMessage) { q.Session = d.Text(at, raw, maxSession) },
		"on_busy": func(at string, raw json.RawMessage) { q.OnBusy = d.OneOf(at, raw, policies...) },
		"model":   func(at string, raw json.RawMessage) { q.Model = d.Model(at, raw) },
		"input":   func(at string, raw json.RawMessage) { d.Input(q, at, raw) },
		"files": func(at string, raw json.RawMessage) {
			if text := d.Parts(q, at, raw); text != "" {
				d.Fail(at, "expected only images and files; put text into the input")
			}
		},
		"params":  func(at string, raw json.RawMessage) { d.Params(q, at, raw) },
		"options": func(at string, raw json.RawMessage) { d.Options(q, at, raw) },
		"filter":  func(at string, raw json.RawMessage) { d.Filter(q, at, raw) },
		"done":    func(at string, raw json.RawMessage) { q.Done = d.Bool(at, raw) },
		"html":    func(at string, raw json.RawMessage) { q.HTML = d.Bool(at, raw) },
		"strict":  func(at string, raw json.RawMessage) { q.Strict = d.Bool(at, raw) },
		"include": func(at string, raw json.RawMessage) {
			for i, word := range d.Strings(at, raw, 8, request.MaxName) {
				if word != "" && d.Word(request.Item(at, i), word, "reserved") != "" {
					st.reserved = true
				}
			}
		},
		"on_disconnect": func(at string, raw json.RawMessage) {
			st.CancelOnDisconnect = d.OneOf(at, raw, "continue", "cancel") == "cancel"
		},
		"format": func(at string, raw json.RawMessage) {
			format := frame.Format(d.OneOf(at, raw, "sse", "jsonl", "json"))
			if st.Format == "" { // the query wins, because it is nearer to the connection
				st.Format = format
			}
		},
	})
}

// Parameters of queries.
var (
	streamParameters = []string{"include", "format", "keepalive", "on_disconnect", "snapshot", "last_event_id", "lastEventId"}
	postParameters   = append(slices.Clone(streamParameters), "done", "html")
	eventsParameters = append(slices.Clone(streamParameters), "after")
)

// query reads the parameters of a query that starts no run. Only those with these names are allowed.
func (st *start) query(d *request.Decoder, r *http.Request, names ...string) {
	if r.URL.RawQuery == "" {
		return
	}
	known := st.parameters(d)
	maps.DeleteFunc(known, func(name string, _ func(string)) bool { return !slices.Contains(names, name) })
	d.Query(r, known, nil)
}

// queryOfStart reads the query of a GET that starts a run.
func (st *start) queryOfStart(d *request.Decoder, r *http.Request) {
	known := st.parameters(d)
	delete(known, "after")
	d.Query(r, known, func(name string) func(value string) {
		property, ok := strings.CutPrefix(name, "input.")
		if !ok || property == "" {
			return nil
		}
		return func(value string) {
			if st.properties == nil {
				st.properties = map[string]string{}
			}
			st.properties[property] = value
		}
	})
}

// parameters returns the readers of all parameters.
func (st *start) parameters(d *request.Decoder) request.Parameters {
	q := &st.Request
	object := func(read func(q *run.Request, at string, raw json.RawMessage)) func(value string) {
		return func(value string) {
			if f := request.Check([]byte(value)); f != nil {
				d.Fail(f.Pointer, "%s", f.Detail)
				return
			}
			read(q, "", json.RawMessage(strings.TrimSpace(value)))
		}
	}
	model := d.Name(&q.Model, request.MaxName)
	resume := func(value string) {
		id, err := parseEventID(value)
		if err != nil {
			d.Fail("", "%s", err)
			return
		}
		st.resume, st.fromQuery = &id, true
	}
	return request.Parameters{
		"include": func(value string) {
			for word := range strings.SplitSeq(value, ",") {
				if d.Word("", strings.TrimSpace(word), "reserved") != "" {
					st.reserved = true
				}
			}
		},
		"format":        func(value string) { st.Format = frame.Format(d.Word("", value, "sse", "jsonl", "json")) },
		"keepalive":     func(value string) { st.KeepAlive = d.Flag(value) },
		"on_disconnect": d.OnDisconnect(&st.CancelOnDisconnect),
		"snapshot":      func(value string) { st.snapshot = d.Flag(value) },
		"last_event_id": resume,
		"lastEventId":   resume,
		"after": func(value string) {
			id, err := parseEventID("r:" + value)
			if err != nil {
				d.Fail("", "expected the number of an event, found %q", wording.Clip(value))
				return
			}
			st.after = &id.n
		},
		"done":     func(value string) { st.Done = d.Flag(value) },
		"html":     func(value string) { st.HTML = d.Flag(value) },
		"workflow": d.Name(&q.Workflow, request.MaxName),
		"agent":    d.Name(&q.Agent, request.MaxName),
		"session":  d.Name(&q.Session, maxSession),
		"model":    func(value string) { model(request.Chain(value)) },
		"strict":   func(value string) { q.Strict = d.Flag(value) },
		"on_busy":  func(value string) { q.OnBusy = d.Word("", value, policies...) },
		"params":   object(d.Params),
		"options":  object(d.Options),
		"filter":   object(d.Filter),
		"key":      func(value string) { d.Key(q, value) },
		"input":    func(value string) { q.Input = inputText(value) },
	}
}

// inputText makes JSON of the input of a query: an object or a quoted string is JSON text, anything else is a string.
func inputText(value string) json.RawMessage {
	if text := strings.TrimSpace(value); text != "" && (text[0] == '{' || text[0] == '"') && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	text, _ := json.Marshal(value)
	return text
}

// toQuery moves the faults of a request to the parameters of the query that it was read from. An input that is too long is blamed on its
// longest property.
func (st *start) toQuery(p *wire.Problem) *wire.Problem {
	return p.Move(func(f *run.Field) {
		switch {
		case f.Pointer != "/input" || len(st.properties) == 0:
		case p.Code == wire.CodeTooLarge:
			byLength := func(a, b string) int { return cmp.Compare(len(st.properties[a]), len(st.properties[b])) }
			f.Pointer += schema.Pointer([]string{slices.MaxFunc(slices.Collect(maps.Keys(st.properties)), byLength)})
		case st.Agent != "" && string(st.Input) == "{}":
			f.Detail = "an agent's input is text without properties"
		}
		toParameter(f)
	})
}

// toParameter names the parameter of a query in place of the member of a body: workflow for /workflow, input.question for /input/question,
// and params with the pointer /a/b for /params/a/b.
func toParameter(f *run.Field) {
	name, ok := strings.CutPrefix(f.Pointer, "/")
	first, rest, deep := strings.Cut(name, "/")
	switch {
	case !ok || f.Parameter != "":
		return // it leads into a parameter already
	case deep && first == "input" && !strings.Contains(rest, "/"):
		name = "input." + strings.NewReplacer("~1", "/", "~0", "~").Replace(rest)
		f.Pointer = ""
	case deep:
		name, f.Pointer = first, "/"+rest
	default:
		f.Pointer = ""
	}
	f.Parameter = name
}

// typeProperties puts the properties of a query over those of its object. Each is read as the schema of the workflow wants it.
func (st *start) typeProperties(of json.RawMessage) *wire.Problem {
	object := map[string]json.RawMessage{}
	if st.Input != nil && json.Unmarshal(st.Input, &object) != nil {
		return wire.Invalid(run.Field{Parameter: "input", Detail: "expected an object together with input.NAME, found " + rawjson.Kind(st.Input)})
	}
	read := schema.PropertyReader(of)
	for name, text := range st.properties {
		object[name] = read(name, text)
	}
	st.Input, _ = json.Marshal(object) // of JSON
	return nil
}

// headers reads the headers Idempotency-Key, Last-Event-ID and Prefer.
func (st *start) headers(d *request.Decoder, r *http.Request) {
	d.IdempotencyKey(r, &st.Request)
	st.lastEventID(d, r)
	st.async, st.wait = preferences(r.Header)
}

// lastEventID reads the header by which a client resumes. It is newer than an id in the query, which a browser repeats each
// time it reconnects.
func (st *start) lastEventID(d *request.Decoder, r *http.Request) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return
	}
	id, err := parseEventID(text)
	if err != nil {
		d.Faults = append(d.Faults, request.Clip(run.Field{Header: "Last-Event-ID", Detail: err.Error()}))
		return
	}
	st.resume, st.fromQuery = &id, false
}

// maxWait bounds what a client may prefer to wait: no run takes longer.
const maxWait = 24 * time.Hour

// preferences reads the header Prefer (RFC 7240). With respond-async, the client does not want to wait. With wait=N, it waits for N seconds at
// most; wait is nil without one. With both, the caller decides what comes first. A preference that makes no sense does not count.
func preferences(h http.Header) (async bool, wait *time.Duration) {
	for _, line := range h["Prefer"] {
		for part := range strings.SplitSeq(line, ",") {
			preference, _, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(preference, "=")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "respond-async"):
				async = true
			case strings.EqualFold(name, "wait") && wait == nil: // the first one counts
				if n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32); err == nil {
					wait = new(min(time.Duration(n)*time.Second, maxWait))
				}
			}
		}
	}
	return async, wait
}

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
}

// shown says how a client wants to see a run, in a body or a query.
type shown struct {
	Include []string `field:"include" words:"reserved" items:"8"`
	Format  string   `field:"format" words:"sse jsonl json"`
	request.Disconnect
}

// members are what the body of a POST and the query of a GET have in common.
type members struct {
	Agent   string          `field:"agent" max:"256"`
	Session string          `field:"session" max:"512"`
	OnBusy  string          `field:"on_busy" words:"queue reject interrupt steer"` // what a message does whose session is busy
	Params  json.RawMessage `field:"params"`
	Options json.RawMessage `field:"options"`
	Filter  json.RawMessage `field:"filter"`
	Done    bool            `field:"done"`
	HTML    bool            `field:"html"`
	Strict  bool            `field:"strict"`
	shown
}

// body is the body of POST /v1/runs.
type body struct {
	members
	Workflow json.RawMessage `field:"workflow"` // a name or a workflow
	Model    json.RawMessage `field:"model"`    // a name or a list of names
	Input    json.RawMessage `field:"input"`
	Files    json.RawMessage `field:"files"`
}

// followQuery are the parameters of all queries that follow a run. Libraries in place of EventSource have either name of the id.
type followQuery struct {
	KeepAlive   bool   `field:"keepalive"`
	Snapshot    bool   `field:"snapshot"`
	LastEventID string `field:"last_event_id"`
	SameID      string `field:"lastEventId"`
}

// startQuery is the query of GET /v1/runs.
type startQuery struct {
	members
	followQuery
	Workflow   string            `field:"workflow" max:"256"`
	Model      string            `field:"model" max:"256"` // names with commas between them
	Key        string            `field:"key" max:"255" chars:"visible"`
	Input      *string           `field:"input"`
	Properties map[string]string `field:"input.*"`
}

// readPost reads the request of POST /v1/runs.
func (h Handlers) readPost(w http.ResponseWriter, r *http.Request) (*start, *wire.Problem) {
	st := new(start)
	text, p := h.ReadJSON(w, r)
	if p != nil {
		return st, p
	}
	d := new(request.Decoder)
	var query struct {
		shown
		followQuery
		Done bool `field:"done"`
		HTML bool `field:"html"`
	}
	d.Query(r, &query)
	st.readShown(&query.shown)
	st.readFollow(d, &query.followQuery)
	st.headers(d, r)
	// A client that resumes need not repeat its request.
	if st.resume == nil || len(bytes.TrimSpace(text)) > 0 {
		if p := wire.CheckBody(text); p != nil {
			return st, p
		}
		st.body(d, text)
	}
	st.Done, st.HTML = st.Done || query.Done, st.HTML || query.HTML
	return st, st.finish(d)
}

// readGet reads the request of GET /v1/runs.
func readGet(r *http.Request) (*start, *wire.Problem) {
	st, d := new(start), new(request.Decoder)
	var query startQuery
	d.Query(r, &query)
	st.members(d, &query.members)
	st.readFollow(d, &query.followQuery)
	st.Workflow, st.Model, st.Key, st.properties = query.Workflow, request.Chain(query.Model), query.Key, query.Properties
	if query.Input != nil {
		st.Input = inputText(*query.Input)
	}
	for i := range d.Faults {
		toParameter(&d.Faults[i])
	}
	st.headers(d, r)
	return st, st.finish(d)
}

// finish checks how the members go together.
func (st *start) finish(d *request.Decoder) *wire.Problem {
	if p := wire.Invalid(d.Faults...); p != nil {
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

// body reads the body of a request. text is known to be JSON.
func (st *start) body(d *request.Decoder, text []byte) {
	var b body
	d.Read("", text, &b)
	if b.Workflow != nil && b.Workflow[0] == '{' {
		st.Inline = b.Workflow
	} else if b.Workflow != nil {
		st.Workflow = d.Name("/workflow", b.Workflow)
	}
	if b.Model != nil {
		st.Model = d.Model("/model", b.Model)
	}
	if b.Input != nil {
		d.Input(&st.Request, "/input", b.Input)
	}
	if b.Files != nil && d.Parts(&st.Request, "/files", b.Files) != "" {
		d.Fail("/files", "expected only images and files; put text into the input")
	}
	st.members(d, &b.members)
}

// members takes over the members that bodies and queries have in common.
func (st *start) members(d *request.Decoder, m *members) {
	q := &st.Request
	q.Agent, q.Session, q.OnBusy, q.Done, q.HTML, q.Strict = m.Agent, m.Session, m.OnBusy, m.Done, m.HTML, m.Strict
	if m.Params != nil {
		d.Params(q, "/params", m.Params)
	}
	if m.Options != nil {
		d.Options(q, "/options", m.Options)
	}
	if m.Filter != nil {
		d.Filter(q, "/filter", m.Filter)
	}
	st.readShown(&m.shown)
}

// readShown takes over how a client wants to see a run. The query of a POST is read before its body and wins, because it is nearer to the
// connection.
func (v *view) readShown(q *shown) {
	v.reserved = v.reserved || len(q.Include) > 0
	v.CancelOnDisconnect = v.CancelOnDisconnect || q.Cancels()
	v.Format = cmp.Or(v.Format, frame.Format(q.Format))
}

// readFollow takes over the parameters of a query that follows a run.
func (v *view) readFollow(d *request.Decoder, q *followQuery) {
	v.KeepAlive, v.snapshot = q.KeepAlive, q.Snapshot
	v.resumeAfter(d, cmp.Or(q.LastEventID, q.SameID), true)
}

// resumeAfter reads the id of the event that a client has seen last; "" is none. That of a header is read last: it is newer than one in the
// query, which a browser repeats each time it reconnects.
func (v *view) resumeAfter(d *request.Decoder, text string, fromQuery bool) {
	if text == "" {
		return
	}
	id, err := parseEventID(text)
	v.resume, v.fromQuery = &id, fromQuery
	if err != nil {
		d.Faults = append(d.Faults, request.Clip(lastEvent(v, err.Error())))
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
	st.resumeAfter(d, r.Header.Get("Last-Event-ID"), false)
	st.async, st.wait = preferences(r.Header)
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

package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/frame"
)

// start is a request for a run: what is to run, and how to answer.
type start struct {
	run.Request
	view
}

// view is how a client wants to see a run.
type view struct {
	format    frame.Format // "" until Accept has been looked at
	reserved  bool         // include=reserved: the aggregate has what stands beside the document
	leave     bool         // on_disconnect=cancel: the run is not wanted any more when this connection goes away
	keepAlive bool         // keepalive=1: JSON Lines gets empty lines, too
	snapshot  bool         // snapshot=1: begin with the document so far
	async     bool         // Prefer: respond-async

	encode func(*run.Run) frame.Encoder // for clients of other servers; nil is our own way
	media  string                       // of what is encoded; "" is the format's

	resume    *eventID // go on after this event
	fromQuery bool     // the id stands in the query: a page that was loaded anew, not a connection that was cut
	after     *uint64  // ?after=N: the same without the run's name
}

// Sizes of what a request may name. They only have to be larger than anything sensible.
const (
	maxName     = 256
	maxSession  = 512
	maxKey      = 255
	maxPatterns = 64
	maxPattern  = 1 << 10
)

// policies say what a message to an agent does whose session is busy.
var policies = []string{"queue", "reject", "interrupt", "steer"}

// abandon gives up on what has not come of a body. Otherwise the connection would stay for as long as the client likes, since net/http
// waits for the rest of a body that nobody has read.
func abandon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(abandonTime)) // not every writer of a test can
}

// linger sends the answer and takes in what is on its way of a body that was refused. A connection that is closed with bytes unread is
// reset, and the client may lose the answer. Of many clients at once only some get this, so that a flood costs little: the others have half a
// second to read the answer, as net/http gives it.
func (s *Server) linger(w http.ResponseWriter, r *http.Request) {
	abandon(w)
	if s.lingering.Add(1) <= mostLingering && r.ProtoMajor == 1 && r.Header.Get("Expect") == "" && http.NewResponseController(w).Flush() == nil {
		for n := int64(0); n < lingerBytes; n += lingerStep {
			if _, err := io.CopyN(io.Discard, r.Body, lingerStep); err != nil {
				break
			}
			runtime.Gosched() // a client that sends fast would have a processor for 10 ms
		}
	}
	s.lingering.Add(-1)
}

const (
	// lingerBytes is more than a client has sent before it sees the answer, on most networks.
	lingerBytes = 16 << 20
	lingerStep  = 128 << 10 // is read at a time
	// mostLingering connections at once leave processors to others.
	mostLingering = 8
)

// abandonTime is long enough for what is on its way, so that the client is not cut off before it has read the answer.
const abandonTime = time.Second

// bodyTimeout is how long a client may take to send its body.
const bodyTimeout = 30 * time.Second

// readBody reads the body to its end: only then does net/http notice that a client goes away.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	return s.readUpTo(w, r, s.o.MaxBody, bodyTimeout)
}

func (s *Server) readUpTo(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, *problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(timeout)) // not every writer of a test can
	held := s.budget(r, s.countedFor(r, who(r)), s.shed.o.Bodies/2)
	defer held.free()
	body, err := held.readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		return body, nil
	}
	abandon(w)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLargeBody(w, limit)
	}
	if p, ok := errors.AsType[*problem](err); ok {
		p.header = http.Header{"Connection": {"close"}}
		return nil, p
	}
	p := invalid(misfit{Detail: "the request's body is incomplete; send it again"})
	p.header = http.Header{"Connection": {"close"}}
	return nil, p
}

// tooLargeBody is the refusal of a body beyond the limit. The rest is not read, so the connection cannot be used again.
func tooLargeBody(w http.ResponseWriter, limit int64) *problem {
	abandon(w)
	p := newProblem(codeTooLarge, "the request's body is larger than "+wording.Plural(limit, "byte"))
	p.reason, p.header = limitBody, http.Header{"Connection": {"close"}}
	return p
}

// sized refuses a body that is too large by its Content-Length, before anything is read or waited for. A channel has a limit of its own, and so
// have files.
func (s *Server) sized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > s.o.MaxBody && !strings.HasPrefix(r.URL.Path, "/v1/channels/") && r.URL.Path != filesPath {
			tooLargeBody(w, s.o.MaxBody).at(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readJSON reads a body that is to be JSON by what its headers say. Whether it is, checkBody knows.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, _, err := mime.ParseMediaType(ct)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			detail := "expected application/json, found " + wording.Clip(ct)
			if media == "application/x-www-form-urlencoded" {
				detail += "; with curl, use --json"
			}
			p := invalid(misfit{Header: "Content-Type", Detail: detail})
			p.Status = http.StatusUnsupportedMediaType
			p.header = http.Header{"Accept": {"application/json"}, "Connection": {"close"}}
			return nil, p
		}
	}
	if ce := r.Header.Get("Content-Encoding"); ce != "" && !strings.EqualFold(ce, "identity") {
		p := invalid(misfit{Header: "Content-Encoding", Detail: "expected a body that is not compressed, found " + wording.Clip(ce)})
		p.Status = http.StatusUnsupportedMediaType
		p.header = http.Header{"Accept-Encoding": {"identity"}, "Connection": {"close"}}
		return nil, p
	}
	return s.readBody(w, r)
}

// checkBody says what keeps a body from being JSON that every reader understands alike.
func checkBody(body []byte) *problem {
	var m *misfit
	heavy.Do(len(body), func() { m = checkJSON(body) })
	if m == nil {
		return nil
	}
	if m.Pointer == "" {
		m.Detail = "the body is " + m.Detail
	}
	return invalid(*m)
}

// parsePost reads the request of POST /v1/runs.
func (s *Server) parsePost(w http.ResponseWriter, r *http.Request) (*start, *problem) {
	st := new(start)
	body, p := s.readJSON(w, r)
	if p != nil {
		return st, p
	}
	d := &decoder{}
	s.query(d, r, st, queryView|queryResume|queryDone)
	st.headers(d, r)
	// A client that resumes need not say again what it once asked for.
	if st.resume == nil || len(bytes.TrimSpace(body)) > 0 {
		if p := checkBody(body); p != nil {
			return st, p
		}
		heavy.Do(len(body), func() { st.body(d, body) })
	}
	return st, st.finish(d)
}

// parseGet reads the request of GET /v1/runs.
func (s *Server) parseGet(r *http.Request) (*start, *problem) {
	st := new(start)
	d := &decoder{}
	s.query(d, r, st, queryView|queryResume|queryAsk|queryDone)
	st.headers(d, r)
	return st, st.finish(d)
}

// finish looks at how the members go together.
func (st *start) finish(d *decoder) *problem {
	if len(d.misfits) > 0 {
		return invalid(d.misfits...)
	}
	if st.async && st.leave {
		return invalid(misfit{
			Parameter: "on_disconnect",
			Detail:    "cancel does not go with Prefer: respond-async, because it needs an open connection",
		})
	}
	return nil
}

// maxModels is how many models a chain may have.
const maxModels = 8

// model takes the name of a model, or a list of names: a chain, in which the next is asked when one fails.
func (d *decoder) model(pointer string, raw json.RawMessage) string {
	if raw[0] != '[' {
		return chain(d.text(pointer, raw, maxName))
	}
	names := d.strings(pointer, raw, maxModels, maxName)
	if names != nil && len(names) == 0 {
		d.fail(pointer, "expected at least one model")
	}
	return chain(strings.Join(names, ","))
}

// chain writes names of models that are separated by commas in one way.
func chain(names string) string {
	parts := strings.Split(names, ",")
	for i, name := range parts {
		parts[i] = strings.TrimSpace(name)
	}
	return strings.Join(parts, ",")
}

// body reads the members of a request's body. text is known to be JSON.
func (st *start) body(d *decoder, text []byte) {
	d.object("", text, fields{
		"workflow": func(at string, raw json.RawMessage) {
			if raw[0] == '{' {
				st.Inline = raw
				return
			}
			st.Workflow = d.text(at, raw, maxName)
		},
		"agent":   func(at string, raw json.RawMessage) { st.Agent = d.text(at, raw, maxName) },
		"session": func(at string, raw json.RawMessage) { st.Session = d.text(at, raw, maxSession) },
		"on_busy": func(at string, raw json.RawMessage) { st.OnBusy = d.oneOf(at, raw, policies...) },
		"model":   func(at string, raw json.RawMessage) { st.Model = d.model(at, raw) },
		"input":   func(at string, raw json.RawMessage) { d.inputParts(&st.Request, at, raw) },
		"files": func(at string, raw json.RawMessage) {
			if text := d.parts(&st.Request, at, raw); text != "" {
				d.fail(at, "expected only images and files; put text into the input")
			}
		},
		"params":  func(at string, raw json.RawMessage) { d.params(&st.Request, at, raw) },
		"options": func(at string, raw json.RawMessage) { d.options(&st.Request, at, raw) },
		"filter":  func(at string, raw json.RawMessage) { d.filter(&st.Request, at, raw) },
		"done":    func(at string, raw json.RawMessage) { st.Done = d.boolean(at, raw) },
		"html":    func(at string, raw json.RawMessage) { st.HTML = d.boolean(at, raw) },
		"strict":  func(at string, raw json.RawMessage) { st.Strict = d.boolean(at, raw) },
		"include": func(at string, raw json.RawMessage) {
			for i, word := range d.strings(at, raw, 8, maxName) {
				if word != "" && d.word(at+"/"+itoa(i), word, "reserved") != "" {
					st.reserved = true
				}
			}
		},
		"on_disconnect": func(at string, raw json.RawMessage) {
			st.leave = d.oneOf(at, raw, "continue", "cancel") == "cancel"
		},
		"format": func(at string, raw json.RawMessage) {
			format := frame.Format(d.oneOf(at, raw, "sse", "jsonl", "json"))
			if st.format == "" { // the query wins, being nearer to the connection
				st.format = format
			}
		},
	})
}

// inputParts takes the input. A list of parts is the text that they say, with images and files beside it.
func (d *decoder) inputParts(a *run.Request, at string, raw json.RawMessage) {
	if a.Input = raw; raw[0] == '[' {
		a.Input, _ = json.Marshal(cmp.Or(d.parts(a, at, raw), aboutFiles))
	}
}

// aboutFiles is what is asked where somebody sends files and says nothing.
const aboutFiles = "What is this?"

// parts takes images and files out of a list of parts, and returns the text.
func (d *decoder) parts(a *run.Request, at string, raw json.RawMessage) string {
	var list []json.RawMessage
	if !d.as(at, raw, '[', "an array of parts", &list) {
		return ""
	}
	text, media, i, inside, detail := mediapart.ReadAll(list)
	if detail != "" {
		d.fail(at+"/"+itoa(i)+inside, "%s", detail)
	}
	a.Files = append(a.Files, media...)
	return text
}

func (d *decoder) params(a *run.Request, at string, raw json.RawMessage) {
	d.as(at, raw, '{', "an object", &a.Params)
	// Numbers as templates and providers know them, not as text.
	for name, value := range a.Params {
		a.Params[name] = plain(value)
	}
}

// plain replaces the numbers in a decoded value by float64, or int64 where they are whole.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for name, item := range v {
			v[name] = plain(item)
		}
	case []any:
		for i, item := range v {
			v[i] = plain(item)
		}
	}
	return value
}

func (d *decoder) options(a *run.Request, at string, raw json.RawMessage) {
	o, misfits := adapter.ReadOptions(raw, false)
	for _, m := range misfits {
		pointer := at
		for _, name := range m.At {
			pointer += "/" + wording.PointerToken(name)
		}
		d.fail(pointer, "%s", m.Detail)
	}
	a.Options = o
}

func (d *decoder) filter(a *run.Request, at string, raw json.RawMessage) {
	patterns := func(at string, raw json.RawMessage) []string {
		list := d.strings(at, raw, maxPatterns, maxPattern)
		for i, text := range list {
			if _, err := jsonuri.CompilePattern(text); err != nil && text != "" {
				d.fail(at+"/"+itoa(i), "%s", strings.TrimPrefix(err.Error(), "jsonuri: "))
			}
		}
		return list
	}
	d.object(at, raw, fields{
		"exclude": func(at string, raw json.RawMessage) { a.Exclude = patterns(at, raw) },
		"include": func(at string, raw json.RawMessage) { a.Include = patterns(at, raw) },
	})
}

// What a query may hold.
const (
	queryView     = 1 << iota // how the answer looks
	queryResume               // where it begins
	queryAsk                  // what is to run
	queryAfter                // where it begins, in a run that the path names
	queryDocument             // how a document looks, and nothing of streams
	queryDone                 // whether completed values, and the tags of HTML, are told
)

// query reads the parameters of the query; those that are unknown or come twice are refused by name.
func (s *Server) query(d *decoder, r *http.Request, st *start, what int) {
	if r.URL.RawQuery == "" {
		return
	}
	values, ok := d.values(r)
	if !ok {
		return
	}
	known := map[string]func(value string){}
	if what&(queryView|queryDocument) != 0 {
		known["include"] = func(value string) {
			for word := range strings.SplitSeq(value, ",") {
				if d.word("", strings.TrimSpace(word), "reserved") != "" {
					st.reserved = true
				}
			}
		}
	}
	if what&queryView != 0 {
		known["format"] = func(value string) { st.format = frame.Format(d.word("", value, "sse", "jsonl", "json")) }
		known["keepalive"] = func(value string) { st.keepAlive = d.flag(value) }
		known["on_disconnect"] = func(value string) { st.leave = d.word("", value, "continue", "cancel") == "cancel" }
	}
	if what&queryResume != 0 {
		known["snapshot"] = func(value string) { st.snapshot = d.flag(value) }
		resume := func(value string) {
			id, err := parseEventID(value)
			if err != nil {
				d.fail("", "%s", err)
				return
			}
			st.resume, st.fromQuery = &id, true
		}
		known["last_event_id"], known["lastEventId"] = resume, resume
	}
	if what&queryAfter != 0 {
		known["after"] = func(value string) {
			id, err := parseEventID("r:" + value)
			if err != nil {
				d.fail("", "expected the number of an event, found %q", wording.Clip(value))
				return
			}
			st.after = &id.n
		}
	}
	if what&queryAsk != 0 {
		object := func(value string, take func(a *run.Request, at string, raw json.RawMessage)) {
			if m := checkJSON([]byte(value)); m != nil {
				d.fail(m.Pointer, "%s", m.Detail)
				return
			}
			take(&st.Request, "", json.RawMessage(strings.TrimSpace(value)))
		}
		name := func(dst *string) func(string) {
			return func(value string) {
				if value == "" || len(value) > maxName {
					d.fail("", "expected 1 to %d bytes, found %d", maxName, len(value))
					return
				}
				*dst = value
			}
		}
		known["workflow"], known["agent"], known["model"] = name(&st.Workflow), name(&st.Agent), name(&st.Model)
		known["session"] = func(value string) {
			if value == "" || len(value) > maxSession {
				d.fail("", "expected 1 to %d bytes, found %d", maxSession, len(value))
				return
			}
			st.Session = value
		}
		known["strict"] = func(value string) { st.Strict = d.flag(value) }
		known["on_busy"] = func(value string) { st.OnBusy = d.word("", value, policies...) }
		model := known["model"]
		known["model"] = func(value string) { model(chain(value)) }
		known["params"] = func(value string) { object(value, d.params) }
		known["options"] = func(value string) { object(value, d.options) }
		known["filter"] = func(value string) { object(value, d.filter) }
		known["key"] = func(value string) { st.setKey(d, value) }
		known["input"] = func(value string) { st.Input = inputText(value) }
	}
	if what&queryDone != 0 {
		known["done"] = func(value string) { st.Done = d.flag(value) }
		known["html"] = func(value string) { st.HTML = d.flag(value) }
	}
	d.parameters(values, known, func(name string) func(value string) {
		property, is := strings.CutPrefix(name, "input.")
		if !is || what&queryAsk == 0 || property == "" {
			return nil
		}
		return func(value string) {
			if st.Properties == nil {
				st.Properties = map[string]string{}
			}
			st.Properties[property] = value
		}
	})
}

// values reads the query.
func (d *decoder) values(r *http.Request) (values url.Values, ok bool) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		d.fail("", "the query is invalid; check its percent signs and semicolons")
	}
	return values, err == nil
}

// parameters hands the parameters of a query to those who know them. other, where it is not nil, is asked for the others; it
// returns nil for what it does not know.
func (d *decoder) parameters(values url.Values, known map[string]func(value string), other func(name string) func(value string)) {
	for _, name := range slices.Sorted(maps.Keys(values)) { // the order of what is complained about
		d.parameter = wording.Clip(name)
		take, ok := known[name]
		if !ok && other != nil {
			take = other(name)
			ok = take != nil
		}
		switch {
		case !ok && len(known) == 0:
			d.fail("", "unknown parameter; this resource has none")
		case !ok:
			d.fail("", "unknown; %s", wording.Expected(name, slices.Sorted(maps.Keys(known))))
		case len(values[name]) > 1:
			d.fail("", "occurs twice; send it once")
		case strings.ContainsRune(values[name][0], 0):
			d.fail("", "contains a NUL character; remove it")
		default:
			take(values[name][0])
		}
	}
	d.parameter = ""
}

// inputText makes JSON of the input of a query: an object or a quoted string is JSON text, anything else is a string.
func inputText(value string) json.RawMessage {
	if text := strings.TrimSpace(value); text != "" && (text[0] == '{' || text[0] == '"') && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	text, _ := json.Marshal(value)
	return text
}

// flag reads a switch of a query.
func (d *decoder) flag(value string) bool {
	switch value {
	case "1", "true", "":
		return true
	case "0", "false":
		return false
	}
	d.fail("", "expected 1 or 0, found %q", wording.Clip(value))
	return false
}

// headers reads what stands in headers: Idempotency-Key, Last-Event-ID, Prefer.
func (st *start) headers(d *decoder, r *http.Request) {
	st.idempotencyKey(d, r)
	st.lastEventID(d, r)
	st.async = prefersAsync(r.Header)
}

// idempotencyKey reads the header that clients of other servers know, too.
func (st *start) idempotencyKey(d *decoder, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return
	}
	if st.Key != "" && st.Key != key {
		d.misfits = append(d.misfits, misfit{Header: "Idempotency-Key", Detail: "differs from the query's key"})
	}
	before := len(d.misfits)
	st.setKey(d, key)
	for i := before; i < len(d.misfits); i++ {
		d.misfits[i].Header = "Idempotency-Key"
	}
}

// lastEventID reads the header by which a client resumes. It is newer than an id in the query, which a browser repeats each
// time it connects again.
func (st *start) lastEventID(d *decoder, r *http.Request) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return
	}
	id, err := parseEventID(text)
	if err != nil {
		d.misfits = append(d.misfits, misfit{Header: "Last-Event-ID", Detail: err.Error()})
		return
	}
	st.resume, st.fromQuery = &id, false
}

// setKey takes an Idempotency-Key: 1 to 255 visible ASCII characters.
func (st *start) setKey(d *decoder, key string) {
	if len(key) == 0 || len(key) > maxKey {
		d.fail("", "expected 1 to %d characters, found %d", maxKey, len(key))
		return
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			d.fail("", "expected visible ASCII characters only")
			return
		}
	}
	st.Key = key
}

// Package fakeslack is a Slack for tests: it speaks the shapes of the Web API on any listener, or in this process through
// [Server.Transport], sends signed events to a webhook as the Events API does, or envelopes by Socket Mode ([Server.Client]), and remembers every call.
//
// It does what an app can notice: conversations that the app is in or not, threads, the limits of texts, edits and deletions, files
// that need the token, names, repetitions of events that were not taken within 3 s, a message and a mention for the same words, the
// echo of what the app itself writes, and the failures that [Server.Fail] asks for. It shares no code with the channel that it tests.
// In three things it is stricter than the real one: a text is at most 4 000 characters, a streamed message at most 12 000, and whatever stands in angle
// brackets has to be something that the platform knows. A streamed message ends by itself after five minutes, as apps have measured it.
package fakeslack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what a workspace and its app are like. The zero value is one.
type Options struct {
	Token  string // "" is xoxb-1-fake
	Secret string // for signatures; "" is shhh
	// AppToken turns Socket Mode on: events go to the connections of the app, not to the Request URL.
	AppToken string
	Hook     string       // the Request URL
	Deliver  *http.Client // of events; nil is http.DefaultClient
	Scopes   string       // of the token; "" has all that are needed
	Echo     bool         // the app is told of what it writes itself
}

// The ids of the workspace and of the app's bot.
const (
	Team   = "T0FAKE"
	Bot    = "U0BOT"
	BotID  = "B0BOT"
	App    = "A0FAKE"
	Handle = "ling"
)

// The kinds of conversations.
const (
	IM      = "im"
	MPIM    = "mpim"
	Channel = "channel"
	Private = "group"
)

// Conversation is one that the platform knows.
type Conversation struct {
	ID, Kind string
	Archived bool
	Absent   bool // the app is not in it
	// Assistant says that its threads are those of an assistant.
	Assistant bool
}

// Message is one that stands in a conversation.
type Message struct {
	Channel, TS, Thread string
	User, BotID         string
	Text                string
	Blocks              string   // JSON; "" is none
	Reactions           []string // of the app
	Edits               int
	Deleted             bool
	Streamed            bool           // its Text is Markdown
	More                map[string]any // members of the event: files, attachments, subtype
}

// Call is one request and what was answered.
type Call struct {
	At     time.Time
	Method string            // "file" is a download, "upload" one of a file
	Params map[string]string // JSON values as they were written
	Status int
	Error  string
	Cut    bool
}

// Delivery is one attempt to tell the app of an event.
type Delivery struct {
	ID, Type string // of the event; of the inner event, or of the request
	Retry    int    // 0 is the first attempt
	Reason   string // of the repetition
	Status   int    // 0 is none within 3 s
	Took     time.Duration
	Body     []byte // of the answer
}

// Server is a workspace with one app. It is safe for concurrent use.
type Server struct {
	opts Options

	mu            sync.Mutex
	changed       chan struct{}
	closed        bool
	calls         []Call
	deliveries    []Delivery
	faults        []*Fault
	conversations map[string]*Conversation
	messages      []*Message
	whispers      []Whisper
	streaming     map[*Message]time.Time // since when messages are being streamed
	statuses      map[string]string      // of threads of an assistant, by channel and thread
	people        map[string][2]string   // name and display name
	files         map[string]*stored
	sockets       sockets
	clock         int64 // of message ids
	events        int
	running       sync.WaitGroup
	ctx           context.Context
	stop          context.CancelFunc
}

type stored struct {
	kind string
	data []byte
}

// signIn is the kind of an answer that sends to a page to log in.
const signIn = "sign in"

// New returns a server. Close ends what it has started.
func New(opts *Options) *Server {
	s := &Server{
		changed: make(chan struct{}), conversations: map[string]*Conversation{}, people: map[string][2]string{}, files: map[string]*stored{},
		streaming: map[*Message]time.Time{}, statuses: map[string]string{}, clock: 1_700_000_000_000_000,
		sockets: sockets{tickets: map[string]time.Time{}, acks: map[string]func(){}},
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Token == "" {
		s.opts.Token = "xoxb-1-fake"
	}
	if s.opts.Secret == "" {
		s.opts.Secret = "shhh-0123456789ab"
	}
	if s.opts.Deliver == nil {
		s.opts.Deliver = http.DefaultClient
	}
	if s.opts.Scopes == "" {
		s.opts.Scopes = "app_mentions:read,channels:history,chat:write,files:read,files:write,im:history,reactions:write,users:read"
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Token is the app's token, Secret what it checks signatures with.
func (s *Server) Token() string  { return s.opts.Token }
func (s *Server) Secret() string { return s.opts.Secret }

// Close ends what is being delivered, and waits for it.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.change()
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	return nil
}

// change tells everybody who waits. The lock is held.
func (s *Server) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Await returns when ok is true, which is asked after each change, or when ctx ends.
func (s *Server) Await(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Calls are all calls so far, or those of the methods.
func (s *Server) Calls(methods ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []Call
	for _, c := range s.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			c.Params = maps.Clone(c.Params)
			calls = append(calls, c)
		}
	}
	return calls
}

// Writes are the calls that somebody could notice.
func (s *Server) Writes() []Call {
	return slices.DeleteFunc(s.Calls(), func(c Call) bool {
		return !strings.HasPrefix(c.Method, "chat.") && !strings.HasPrefix(c.Method, "reactions.") && !strings.HasPrefix(c.Method, "assistant.") && c.Method != "files.completeUploadExternal"
	})
}

// Deliveries are the attempts so far to tell the app of something.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// AddConversation makes a conversation known, AddPerson a name.
func (s *Server) AddConversation(c Conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conversations[c.ID] = &c
}

// AddPerson makes the names of somebody known.
func (s *Server) AddPerson(id, handle, display string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[id] = [2]string{handle, display}
}

// AddFile stores a file, and returns it as a message has it. base is the address of the server. The app may not read a file without a content type.
func (s *Server) AddFile(base, id, name, contentType string, data []byte) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := "/files-pri/" + Team + "-" + id + "/" + name
	s.files[path] = &stored{contentType, data}
	return map[string]any{
		"id": id, "name": name, "title": name, "mimetype": contentType, "filetype": "x", "mode": "hosted", "is_external": false,
		"size": len(data), "url_private": base + path, "url_private_download": base + path, "user": "U1",
	}
}

// Shown are the messages of the app that stand in a conversation now, in all for "".
func (s *Server) Shown(conversation string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.messages {
		if m.BotID == BotID && !m.Deleted && (conversation == "" || m.Channel == conversation) {
			list = append(list, *m)
		}
	}
	return list
}

// next is the ts of a new message. The lock is held.
func (s *Server) next() string {
	s.clock += 1_000_100
	return fmt.Sprintf("%d.%06d", s.clock/1_000_000, s.clock%1_000_000)
}

// A Cut says where a connection breaks.
type Cut uint8

// The places.
const (
	Whole     Cut = iota // it does not
	Refused              // before the request: only through [Server.Transport]
	CutBefore            // after the request, which was not accepted
	CutAfter             // after the request was accepted, before the answer
)

// Fault is how calls fail. The first that fits a call is used.
type Fault struct {
	Method     string // "" is any
	Times      int    // 0 is once, less than 0 always
	Skip       int    // calls that pass first
	Error      string // of an answer with status 200
	Needed     string // the scope, of missing_scope
	Status     int    // 429 has RetryAfter; another has Body
	RetryAfter int    // seconds
	Body       string // such as a gateway's page
	Cut        Cut
	Delay      time.Duration // before the call is looked at
}

// Fail adds faults.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		if f.Times == 0 {
			f.Times = 1
		}
		s.faults = append(s.faults, &f)
	}
}

// Mend takes all faults away.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault finds the one for a call: of the refused connections, or of the others. The lock is held.
func (s *Server) fault(method string, refused bool) *Fault {
	for i, f := range s.faults {
		if (f.Cut == Refused) != refused || f.Method != "" && f.Method != method {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

// ServeHTTP answers /api/<method>, and downloads below /files-pri/.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := methodOf(r.URL)
	if method == "/link/" {
		s.link(w, r)
		return
	}
	params, err := readParams(w, r)
	if err != nil {
		s.answer(w, http.StatusOK, map[string]any{"ok": false, "error": "invalid_form_data"})
		return
	}
	call := Call{At: time.Now(), Method: method, Params: params, Status: http.StatusOK}
	s.mu.Lock()
	f := s.fault(method, false)
	s.mu.Unlock()
	if f != nil && f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-s.ctx.Done():
		}
		timer.Stop()
	}
	var body map[string]any
	var file *stored
	switch {
	case f != nil && (f.Cut == CutBefore || f.Status != 0):
	case f != nil && f.Error != "":
		body = map[string]any{"ok": false, "error": f.Error}
		if f.Needed != "" {
			body["needed"], body["provided"] = f.Needed, "none"
		}
	default:
		body, file = s.do(r, method, params)
	}
	if f != nil && f.Cut != Whole {
		call.Cut = true
	}
	if f != nil && f.Status != 0 {
		call.Status = f.Status
	}
	if e, ok := body["error"].(string); ok {
		call.Error = e
	}
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.change()
	s.mu.Unlock()
	switch {
	case call.Cut:
		panic(http.ErrAbortHandler) // breaks the connection
	case f != nil && f.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		s.answer(w, f.Status, map[string]any{"ok": false, "error": "ratelimited"})
	case f != nil && f.Status != 0:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.Status)
		io.WriteString(w, f.Body)
	case file != nil && file.kind == signIn:
		http.Redirect(w, r, string(file.data), http.StatusFound)
	case file != nil:
		w.Header().Set("Content-Type", file.kind)
		w.Write(file.data)
	default:
		w.Header().Set("X-Oauth-Scopes", s.opts.Scopes)
		s.answer(w, http.StatusOK, body)
	}
}

func methodOf(u *url.URL) string {
	if strings.HasPrefix(u.Path, "/files-pri/") {
		return "file"
	}
	if strings.HasPrefix(u.Path, "/upload/v1/") {
		return "upload"
	}
	return strings.TrimPrefix(u.Path, "/api/")
}

func (s *Server) answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// readParams takes the parameters from a body of either kind.
func readParams(w http.ResponseWriter, r *http.Request) (map[string]string, error) {
	params := map[string]string{}
	r.Body = http.MaxBytesReader(w, r.Body, 16<<20)
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case "application/json":
		var members map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&members); err != nil && err != io.EOF {
			return nil, err
		}
		for name, raw := range members {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			params[name] = text
		}
	case "application/octet-stream":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		params["body"] = string(body)
	case "multipart/form-data":
		parts, err := r.MultipartReader()
		if err != nil {
			return nil, err
		}
		for {
			part, err := parts.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(part)
			if err != nil {
				return nil, err
			}
			if name := part.FormName(); part.FileName() == "" {
				params[name] = string(body)
			} else {
				params["body"] = string(body)
			}
		}
	default:
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		for name, v := range r.Form {
			params[name] = v[0]
		}
	}
	return params, nil
}

// Transport reaches the server in this process, without a network: for tests whose time is not the clock's. The host of addresses
// does not matter.
func (s *Server) Transport() http.RoundTripper {
	return local{s, func(method string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.closed || s.fault(method, true) != nil
	}}
}

// Local reaches a handler in this process.
func Local(h http.Handler) http.RoundTripper { return local{h, func(string) bool { return false }} }

type local struct {
	h      http.Handler
	refuse func(method string) bool
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// RoundTrip runs the handler beside the caller, who may go away; then it waits for the handler to see that.
func (t local) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if t.refuse(methodOf(r.URL)) {
		return nil, errRefused
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{header: http.Header{}}
	done := make(chan bool, 1)
	go func() {
		defer func() { done <- recover() == nil }()
		t.h.ServeHTTP(rec, inner)
	}()
	if whole := <-done; r.Context().Err() != nil {
		return nil, r.Context().Err()
	} else if !whole {
		return nil, io.ErrUnexpectedEOF
	}
	status := max(rec.status, http.StatusOK)
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rec.header, Body: io.NopCloser(&rec.body), ContentLength: int64(rec.body.Len()), Request: r,
	}, nil
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// Package fakefeishu is a Feishu for tests: it speaks the shapes of the real one's server API and event subscriptions on any listener,
// or in this process through [Server.Transport], and remembers every call.
//
// It does what an app can notice: it gives out access tokens that end, keeps the messages of chats and their topics, takes a uuid for
// what it is, looks at cards and at sizes, holds files, posts events that are encrypted and signed and posts them again where they
// were not answered in time, and fails as it is told to by [Server.Fail]. It shares no code with the client that it tests.
package fakefeishu

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what a platform is like. The zero value is one with an app whose events are encrypted.
type Options struct {
	AppID     string // "" is cli_fake
	AppSecret string // "" is shh-app-secret
	Token     string // of verification; "" is verify-me-fake-token
	Key       string // the Encrypt Key; "" is kudryavka-fake-key
	Name      string // of the bot; "" is Ling
	Life      time.Duration
	Limited   bool // changes of one card: five a second

	URL     string       // where events go
	Deliver *http.Client // of events
	Door    http.Handler // takes events in this process, instead of URL
}

// BotID is the open_id of the bot.
const BotID = "ou_bot"

// Server is the platform with one app. It is safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	changed  chan struct{} // closed when anything changes, and made anew
	closed   bool
	calls    []Call
	faults   []*Fault
	chats    map[string]*chat
	messages map[string]*Message
	uuids    map[string]used // what was sent with which
	files    map[string][]byte
	tokens   map[string]time.Time // until when each is good
	patches  map[string][]time.Time
	next     int
	posts    []Post
	running  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
}

type used struct {
	message string
	at      time.Time
}

// Call is one request and what was answered.
type Call struct {
	At      time.Time
	Name    string // such as "send", see [Server.ServeHTTP]
	Path    string // below /open-apis/
	Body    map[string]any
	Status  int
	Code    int
	Cut     bool   // the connection was cut
	Message string // the id of the message that it made or changed
}

type chat struct {
	kind     string
	messages []*Message
	closed   int // the code with which a send is refused
}

// Message is one that stands in a chat, or was recalled.
type Message struct {
	ID, Chat, Root, Parent, Thread string
	From                           string // an open_id, or the app's id
	Type, Content                  string
	Text                           string // as people see it
	Recalled                       bool
	Mentions                       []string // who is told that he was mentioned
	Reactions                      []Reaction
	At                             time.Time
}

// New returns a platform. Close ends what it has started.
func New(o *Options) *Server {
	s := &Server{
		changed: make(chan struct{}), chats: map[string]*chat{}, messages: map[string]*Message{}, uuids: map[string]used{},
		files: map[string][]byte{}, tokens: map[string]time.Time{}, patches: map[string][]time.Time{},
	}
	if o != nil {
		s.o = *o
	}
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&s.o.AppID, "cli_fake")
	set(&s.o.AppSecret, "shh-app-secret")
	set(&s.o.Token, "verify-me-fake-token")
	set(&s.o.Key, "kudryavka-fake-key")
	set(&s.o.Name, "Ling")
	if s.o.Life == 0 {
		s.o.Life = 2 * time.Hour
	}
	if s.o.Deliver == nil {
		s.o.Deliver = http.DefaultClient
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Options are those of the platform, with their defaults.
func (s *Server) Options() Options { return s.o }

// SetDoor changes where events go.
func (s *Server) SetDoor(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Door = h
}

// SetURL changes the address that events go to.
func (s *Server) SetURL(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.URL = url
}

// Close ends deliveries and waits for what runs.
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

// AddChat makes a chat: p2p or group.
func (s *Server) AddChat(id, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chats[id] == nil {
		s.chats[id] = &chat{kind: kind}
	}
}

// CloseChat refuses everything that is sent to a chat with a code, such as 230002; 0 opens it again.
func (s *Server) CloseChat(id string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[id].closed = code
}

// Expire ends all access tokens, as the platform sometimes does before their time.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Recall takes a message away.
func (s *Server) Recall(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[id].Recalled = true
}

// AddFile gives a message a file that can be loaded.
func (s *Server) AddFile(message, key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[message+"/"+key] = data
}

// Ours are the app's messages in a chat that stand there now, the oldest first; "" is all chats.
func (s *Server) Ours(in string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for id, c := range s.chats {
		for _, m := range c.messages {
			if (in == "" || in == id) && m.From == s.o.AppID && !m.Recalled {
				list = append(list, *m)
			}
		}
	}
	slices.SortFunc(list, func(a, b Message) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Texts are what the app's messages in a chat say now.
func (s *Server) Texts(chat string) []string {
	var texts []string
	for _, m := range s.Ours(chat) {
		texts = append(texts, m.Text)
	}
	return texts
}

// Calls are all calls so far, or those of the names.
func (s *Server) Calls(names ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []Call
	for _, c := range s.calls {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			calls = append(calls, c)
		}
	}
	return calls
}

// Writes are the calls that somebody in a chat could notice.
func (s *Server) Writes() []Call {
	return s.Calls("send", "reply", "patch", "recall", "react", "unreact")
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

// Fault is how calls fail. The first fault that fits a call is used.
type Fault struct {
	Name   string // "" is any
	Times  int    // 0 is once, less than 0 always
	Skip   int    // calls that pass first
	Code   int    // of the answer; 0 with Status 0 answers as usual, after Delay
	Status int    // of HTTP; 0 is 400, of rate limits 429
	Reset  int    // seconds until a rate limit ends
	Body   string // instead of the JSON, such as a gateway's page
	Cut    Cut
	Delay  time.Duration
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

// fault finds the one for a call. The lock is held.
func (s *Server) fault(name string, refused bool) *Fault {
	for i, f := range s.faults {
		if (f.Cut == Refused) != refused || f.Name != "" && f.Name != name {
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

// reply is what a call is answered with.
type reply struct {
	status int
	code   int
	msg    string
	data   any            // in "data"
	top    map[string]any // beside code and msg
	raw    []byte         // instead of JSON
	reset  int
}

func no(code int, format string, args ...any) reply {
	return reply{status: http.StatusBadRequest, code: code, msg: fmt.Sprintf(format, args...)}
}

// route finds the name of a call, and the ids in its path.
func route(method, path string) (name string, ids []string) {
	parts := strings.Split(path, "/")
	for _, r := range []struct{ name, method, path string }{
		{"token", "POST", "auth/v3/tenant_access_token/internal"},
		{"info", "GET", "bot/v3/info"},
		{"send", "POST", "im/v1/messages"},
		{"reply", "POST", "im/v1/messages/*/reply"},
		{"patch", "PATCH", "im/v1/messages/*"},
		{"recall", "DELETE", "im/v1/messages/*"},
		{"get", "GET", "im/v1/messages/*"},
		{"resource", "GET", "im/v1/messages/*/resources/*"},
		{"react", "POST", "im/v1/messages/*/reactions"},
		{"reactions", "GET", "im/v1/messages/*/reactions"},
		{"unreact", "DELETE", "im/v1/messages/*/reactions/*"},
		{"image", "POST", "im/v1/images"},
		{"file", "POST", "im/v1/files"},
	} {
		want := strings.Split(r.path, "/")
		if r.method != method || len(want) != len(parts) {
			continue
		}
		ids = nil
		for i, w := range want {
			if w == "*" {
				ids = append(ids, parts[i])
			} else if w != parts[i] {
				ids = append(ids[:0:0], "\x00")
				break
			}
		}
		if !slices.Contains(ids, "\x00") {
			return r.name, ids
		}
	}
	return "", nil
}

// ServeHTTP answers the calls token, info, send, reply, patch, recall, get, resource, react, reactions, unreact, image and file.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/open-apis/")
	name, ids := route(r.Method, path)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if !ok || name == "" || err != nil {
		http.NotFound(w, r)
		return
	}
	call := Call{At: time.Now(), Name: name, Path: path, Status: http.StatusOK}
	if q := r.URL.RawQuery; q != "" {
		call.Path += "?" + q
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.Unmarshal(raw, &call.Body) // what is no object has no members
	}
	s.mu.Lock()
	f := s.fault(name, false)
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
	var a reply
	switch {
	case f != nil && f.Cut == CutBefore:
		call.Cut = true
	case f != nil && (f.Code != 0 || f.Status != 0):
		a = f.reply()
	default:
		a = s.do(&call, r, ids, raw)
		call.Cut = f != nil && f.Cut == CutAfter
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	call.Status, call.Code = a.status, a.code
	if name == "token" {
		delete(call.Body, "app_secret")
	}
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.change()
	s.mu.Unlock()
	if call.Cut {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	if f != nil && f.Body != "" {
		w.WriteHeader(a.status)
		io.WriteString(w, f.Body)
		return
	}
	a.write(w)
}

func (f *Fault) reply() reply {
	a := reply{status: f.Status, code: f.Code, msg: "as the test says", reset: f.Reset}
	if a.status == 0 {
		a.status = http.StatusBadRequest
		if a.code == 99991400 {
			a.status = http.StatusTooManyRequests
		}
	}
	return a
}

func (a *reply) write(w http.ResponseWriter) {
	if a.raw != nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		if json.Valid(a.raw) {
			w.Header().Set("Content-Type", "application/json")
		}
		w.Write(a.raw)
		return
	}
	if a.reset != 0 {
		w.Header().Set("x-ogw-ratelimit-limit", "100")
		w.Header().Set("x-ogw-ratelimit-reset", strconv.Itoa(a.reset))
	}
	body := map[string]any{"code": a.code, "msg": a.msg}
	if a.code == 0 {
		body["msg"] = "success"
	}
	if a.data != nil {
		body["data"] = a.data
	}
	for k, v := range a.top {
		body[k] = v
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	json.NewEncoder(w).Encode(body)
}

// Transport reaches the server in this process, without a network: for tests whose time is not the clock's. The host of addresses
// does not matter.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ s *Server }

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// RoundTrip runs the handler beside the caller, who may go away.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.s
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
	name, _ := route(r.Method, strings.TrimPrefix(r.URL.Path, "/open-apis/"))
	s.mu.Lock()
	if s.closed || s.fault(name, true) != nil {
		s.mu.Unlock()
		return nil, errRefused
	}
	s.running.Add(1)
	s.mu.Unlock()

	ctx, cancel := context.WithCancel(r.Context())
	inner := r.Clone(ctx)
	inner.Body = io.NopCloser(bytes.NewReader(body))
	rec := newRecorder()
	done := make(chan bool, 1)
	go func() {
		defer s.running.Done()
		defer cancel()
		defer func() { done <- recover() == nil }()
		s.ServeHTTP(rec, inner)
	}()
	select {
	case ok := <-done:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		return &http.Response{
			StatusCode: rec.status, Status: strconv.Itoa(rec.status) + " " + http.StatusText(rec.status), Proto: "HTTP/1.1",
			ProtoMajor: 1, ProtoMinor: 1, Header: rec.header, Body: io.NopCloser(&rec.body),
			ContentLength: int64(rec.body.Len()), Request: r,
		}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: http.StatusOK} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

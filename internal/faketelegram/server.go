// Package faketelegram is a Bot API server for tests: it speaks the shapes of the real one on any listener, or in this process
// through [Server.Transport], and remembers every call.
//
// It does what a bot can notice: it hands out updates by long polling and by webhook, keeps the messages of chats, parses HTML
// and MarkdownV2 and refuses what the platform refuses, in its words, knows topics, replies, files and drafts, and fails as it
// is told to by [Server.Fail]. It shares no code with the client that it tests. The legacy parse mode Markdown is not there.
package faketelegram

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

// Options say what a server is like. The zero value is a public server with one bot.
type Options struct {
	Token    string       // "" is 42:fake
	Name     string       // "" is Ling
	Username string       // "" is ling_bot
	ReadsAll bool         // privacy mode is off
	MaxFile  int64        // what getFile gives; 0 is 20 MiB
	Deliver  *http.Client // of webhooks
}

// Server is the server of one bot. It is safe for concurrent use.
type Server struct {
	opts Options
	me   User

	mu       sync.Mutex
	changed  chan struct{} // closed when anything changes, and made anew
	closed   bool
	calls    []Call
	faults   []*Fault
	chats    map[int64]*chat
	files    map[string]*file
	updates  []Update // not confirmed
	nextID   int64
	messages int // the last message id
	allowed  []string
	poll     chan struct{} // closed to end the getUpdates that waits
	hook     WebhookInfo
	hooked   context.CancelFunc
	commands map[string]json.RawMessage // by scope
	presses  map[string]*press
	running  sync.WaitGroup // the webhook's loop, and calls in this process
	ctx      context.Context
	stop     context.CancelFunc
}

// Call is one request and what was answered.
type Call struct {
	At          time.Time
	Method      string
	Params      map[string]string // JSON values as they were written
	Status      int
	Description string // of a refusal
	Cut         bool   // the connection was cut
	Message     int    // the id of the message that it made or changed
}

// Int reads a parameter that is a number.
func (c Call) Int(name string) int64 {
	n, _ := strconv.ParseInt(c.Params[name], 10, 64)
	return n
}

// chat is what is known of a conversation.
type chat struct {
	Chat
	messages []*Message
	topics   map[int]string
	closed   string // why nothing can be sent to it
	migrated int64
	drafts   []string
}

type file struct {
	File
	data []byte
}

// New returns a server. Close ends what it has started.
func New(opts *Options) *Server {
	s := &Server{
		changed: make(chan struct{}), chats: map[int64]*chat{}, files: map[string]*file{}, nextID: 1000,
		commands: map[string]json.RawMessage{}, presses: map[string]*press{},
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Token == "" {
		s.opts.Token = "42:fake"
	}
	if s.opts.Name == "" {
		s.opts.Name = "Ling"
	}
	if s.opts.Username == "" {
		s.opts.Username = "ling_bot"
	}
	if s.opts.MaxFile == 0 {
		s.opts.MaxFile = 20 << 20
	}
	if s.opts.Deliver == nil {
		s.opts.Deliver = http.DefaultClient
	}
	id, _ := strconv.ParseInt(strings.SplitN(s.opts.Token, ":", 2)[0], 10, 64)
	s.me = User{
		ID: id, IsBot: true, FirstName: s.opts.Name, Username: s.opts.Username,
		CanJoinGroups: new(true), CanReadAll: new(s.opts.ReadsAll), SupportsInline: new(false),
		CanConnect: new(false), HasMainWebApp: new(false), HasTopics: new(false), AllowsTopicsNew: new(false),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Token is the token of the bot, Me the bot.
func (s *Server) Token() string { return s.opts.Token }

// Me is the bot, as a sender of messages.
func (s *Server) Me() User {
	return User{ID: s.me.ID, IsBot: true, FirstName: s.me.FirstName, Username: s.me.Username}
}

// Close ends polls that wait and the webhook's deliveries, and waits for them.
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

// Writes are the calls that somebody in a chat could notice.
func (s *Server) Writes() []Call {
	return slices.DeleteFunc(s.Calls(), func(c Call) bool {
		return !strings.HasPrefix(c.Method, "send") && !strings.HasPrefix(c.Method, "edit") &&
			!strings.HasPrefix(c.Method, "delete") && c.Method != "setMessageReaction" || c.Method == "deleteWebhook"
	})
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
	Method      string // "" is any
	Chat        int64  // 0 is any
	Times       int    // 0 is once, less than 0 always
	Skip        int    // calls that pass first
	Code        int    // of the answer; 0 answers as usual, after Delay
	Description string // "" is the usual one of the code
	RetryAfter  int    // seconds, of a 429
	MigrateTo   int64
	Body        string // instead of the JSON, such as a gateway's page
	Cut         Cut
	Delay       time.Duration
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
func (s *Server) fault(method string, chat int64) *Fault {
	for i, f := range s.faults {
		if f.Cut == Refused || f.Method != "" && f.Method != method || f.Chat != 0 && f.Chat != chat {
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

// refusal is an answer that is no success.
type refusal struct {
	code        int
	description string
	retryAfter  int
	migrateTo   int64
}

func (r *refusal) Error() string { return r.description }

func bad(format string, args ...any) *refusal {
	return &refusal{code: http.StatusBadRequest, description: "Bad Request: " + fmt.Sprintf(format, args...)}
}

// reply is the envelope of every answer.
type reply struct {
	OK          bool        `json:"ok"`
	Result      any         `json:"result,omitempty"`
	Code        int         `json:"error_code,omitempty"`
	Description string      `json:"description,omitempty"`
	Parameters  *parameters `json:"parameters,omitempty"`
}

type parameters struct {
	MigrateTo  int64 `json:"migrate_to_chat_id,omitempty"`
	RetryAfter int   `json:"retry_after,omitempty"`
}

// ServeHTTP answers /bot<token>/<method> and /file/bot<token>/<path>.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+s.opts.Token+"/"); ok {
		s.download(w, path)
		return
	}
	token, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	if !strings.HasPrefix(r.URL.Path, "/bot") || method == "" {
		s.answer(w, nil, &refusal{code: http.StatusNotFound, description: "Not Found"})
		return
	}
	if token != s.opts.Token {
		s.answer(w, nil, &refusal{code: http.StatusUnauthorized, description: "Unauthorized"})
		return
	}
	params, uploads, err := readParams(w, r)
	if err != nil {
		s.answer(w, nil, bad("%v", err))
		return
	}
	known := ""
	for name := range methods {
		if strings.EqualFold(name, method) {
			known = name
		}
	}
	call := Call{At: time.Now(), Method: known, Params: params, Status: http.StatusOK}
	if known == "" {
		call.Method = method
	}
	s.mu.Lock()
	f := s.fault(call.Method, number(params["chat_id"]))
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
	var result any
	var refused *refusal
	switch {
	case f != nil && f.Cut == CutBefore:
		call.Cut = true
	case f != nil && f.Code != 0:
		refused = f.refusal()
	case known == "":
		refused = &refusal{code: http.StatusNotFound, description: "Not Found: method not found"}
	default:
		result, refused = methods[known](s, &request{ctx: r.Context(), params: params, uploads: uploads, call: &call})
		call.Cut = f != nil && f.Cut == CutAfter
	}
	if refused != nil {
		call.Status, call.Description = refused.code, refused.description
	}
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.change()
	s.mu.Unlock()
	if call.Cut {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	if f != nil && f.Body != "" {
		w.WriteHeader(call.Status)
		io.WriteString(w, f.Body)
		return
	}
	s.answer(w, result, refused)
}

func (f *Fault) refusal() *refusal {
	r := &refusal{code: f.Code, description: f.Description, retryAfter: f.RetryAfter, migrateTo: f.MigrateTo}
	if r.description != "" {
		return r
	}
	switch {
	case r.code == http.StatusTooManyRequests:
		r.description = fmt.Sprintf("Too Many Requests: retry after %d", r.retryAfter)
	case r.code == http.StatusForbidden:
		r.description = "Forbidden: bot was blocked by the user"
	case r.code == http.StatusConflict:
		r.description = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	case r.migrateTo != 0:
		r.description = "Bad Request: group chat was upgraded to a supergroup chat"
	default:
		r.description = http.StatusText(r.code)
	}
	return r
}

func (s *Server) answer(w http.ResponseWriter, result any, refused *refusal) {
	body := reply{OK: true, Result: result}
	status := http.StatusOK
	if refused != nil {
		status = refused.code
		body = reply{Code: refused.code, Description: refused.description}
		if refused.retryAfter != 0 || refused.migrateTo != 0 {
			body.Parameters = &parameters{MigrateTo: refused.migrateTo, RetryAfter: refused.retryAfter}
			if refused.retryAfter != 0 {
				w.Header().Set("Retry-After", strconv.Itoa(refused.retryAfter))
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// readParams takes the parameters from the address and from a body of any of the three kinds.
func readParams(w http.ResponseWriter, r *http.Request) (map[string]string, map[string][]byte, error) {
	params, uploads := map[string]string{}, map[string][]byte{}
	take := func(values url.Values) {
		for name, v := range values {
			params[name] = v[0]
		}
	}
	take(r.URL.Query())
	r.Body = http.MaxBytesReader(w, r.Body, 64<<20)
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case "application/json":
		var members map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&members); err != nil || members == nil {
			return nil, nil, fmt.Errorf("can't parse request JSON object")
		}
		for name, raw := range members {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			if text != "null" {
				params[name] = text
			}
		}
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return nil, nil, fmt.Errorf("can't parse the form")
		}
		take(r.PostForm)
	case "multipart/form-data":
		if err := r.ParseMultipartForm(32 << 20); err != nil {
			if err == io.ErrUnexpectedEOF || strings.Contains(err.Error(), "EOF") {
				return params, uploads, nil // some clients send an empty one
			}
			return nil, nil, fmt.Errorf("can't parse the form")
		}
		defer r.MultipartForm.RemoveAll()
		take(r.MultipartForm.Value)
		for name, parts := range r.MultipartForm.File {
			f, err := parts[0].Open()
			if err != nil {
				return nil, nil, err
			}
			data, err := io.ReadAll(f)
			f.Close()
			if err != nil {
				return nil, nil, err
			}
			uploads[name] = data
			params[name] = "attach://" + parts[0].Filename
		}
	}
	return params, uploads, nil
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Transport reaches the server in this process, without a network: for tests whose time is not the clock's. The host of
// addresses does not matter.
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
	_, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	s.mu.Lock()
	if s.closed || s.refuse(method) {
		s.mu.Unlock()
		return nil, errRefused
	}
	s.running.Add(1)
	s.mu.Unlock()

	ctx, cancel := context.WithCancel(r.Context())
	inner := r.Clone(ctx)
	inner.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
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

// refuse says whether a connection is to be refused. The lock is held.
func (s *Server) refuse(method string) bool {
	for i, f := range s.faults {
		if f.Cut != Refused || f.Method != "" && f.Method != method {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return true
	}
	return false
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

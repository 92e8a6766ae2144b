// Package fakeproviders is a scripted stand-in for the servers of models, for tests and benchmarks. It speaks the wire formats of OpenAI
// (chat completions and Responses), Anthropic, Bedrock, Coze, Ollama and Gemini. No part of the program may import it.
//
// A [Server] is an http.Handler: serve it from a socket, or reach it in this process through [Server.Transport], which works
// inside a synctest bubble. All waiting goes by the clock of package time, so a bubble's fake time paces it.
package fakeproviders

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// format is a provider's wire format, for one request. One that also is a wholeFormat can answer in one piece.
type format interface {
	// read takes from a request what a script may want to know.
	read(r *http.Request, body []byte) (Request, error)
	// kind is the Content-Type of a stream.
	kind() string
	// open, text, reasoning and close append frames of a stream.
	open(a *writer)
	text(a *writer, token string)
	reasoning(a *writer, token string)
	close(a *writer)
	// call sends a tool call as the provider does, in one frame or in many; false when the client is gone.
	call(a *writer, i int, c ToolCall) bool
	// refuse answers with an error.
	refuse(w http.ResponseWriter, status int, body string)
}

// wholeFormat appends an answer in one piece.
type wholeFormat interface{ whole(a *writer) }

// Server answers requests as its Script says: OpenAI's POST …/chat/completions and …/responses, Anthropic's …/v1/messages, Bedrock's
// …/converse-stream, Coze's …/v3/chat and what belongs to it, Ollama's …/api/chat, and Gemini's …:streamGenerateContent. It lists its
// Models at each provider's GET …/models or …/api/tags. OpenAI's, Ollama's and Coze's answers can also come in one piece. It is an
// http.Handler. Its zero value, with a Script, is ready; it must not be copied. If you call Transport, call Close.
type Server struct {
	// Script decides the answer to a request. It is called from many goroutines.
	Script func(Request) Answer
	// Models are listed by GET …/models and GET …/api/tags.
	Models []string

	open, canceled, requests, cancels, uploads atomic.Int64
	process                                    process

	mu      sync.Mutex
	changed chan struct{} // closed when a count changes; nil while nobody waits
}

// Request is what was asked.
type Request struct {
	Model    string
	Messages []Message
	Stream   bool            // an answer in pieces was asked for
	Usage    bool            // a usage chunk was asked for
	JSON     bool            // a JSON answer was asked for
	Schema   json.RawMessage // the JSON Schema asked for, if any
	Tools    []string
	// Coze's custom variables, and the path, which tells a chat from what goes on with one.
	Variables map[string]string
	Path      string
	Header    http.Header
	Body      []byte
	Attempt   int // how often the server has been asked, from 1
}

// Message is one message of a request; parts are joined as text.
type Message struct{ Role, Content string }

// Answer is what the server does.
type Answer struct {
	Text      string   // cut into tokens of about four characters
	Tokens    []string // instead of Text
	Reasoning string
	ToolCalls []ToolCall
	// ToolResults are those of the first ToolCalls, where the provider makes calls itself, as Coze does. The calls that have no
	// result are the client's to make.
	ToolResults []string
	Finish      string        // default "stop", "tool_calls" with ToolCalls; "-" sends none and no [DONE]
	Pace        float64       // tokens per second; 0: as fast as it can
	Delay       time.Duration // before the first byte
	Raw         []Raw         // instead of all above: bytes as they are; the header goes with the first of them
	Status      int           // other than 0 and 200: an error answer with Body
	Header      http.Header   // goes over the header that the server would send
	Body        string        // of an error; default the provider's error object for the Status
}

// ToolCall is a call that the answer asks for.
type ToolCall struct{ ID, Name, Arguments string }

// Raw is a step of a byte-level script.
type Raw struct {
	Wait  time.Duration
	Bytes string
	Cut   bool // break the connection here
	Hang  bool // wait until the client goes away
}

// Open returns how many answers are being written now, Canceled how many ended because the client went away,
// Requests how many there were.
func (s *Server) Open() int     { return int(s.open.Load()) }
func (s *Server) Canceled() int { return int(s.canceled.Load()) }
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Cancels returns how many chats were canceled by Coze's request for that; such are not counted as requests.
func (s *Server) Cancels() int { return int(s.cancels.Load()) }

// Until waits until cond holds, looking at it whenever one of the counts has changed. It fails with the cause of ctx.
func (s *Server) Until(ctx context.Context, cond func() bool) error {
	for {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Server) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// formats are the wire formats, by the ends of the paths of POST requests.
var formats = map[string]func() format{
	"/chat/completions":            func() format { return new(openai) },
	"/responses":                   func() format { return new(responses) },
	"/v1/messages":                 func() format { return new(anthropic) },
	"/v3/chat":                     func() format { return new(coze) },
	"/v3/chat/submit_tool_outputs": func() format { return &coze{outputs: true} },
	":streamGenerateContent":       func() format { return new(gemini) },
	"/api/chat":                    func() format { return new(ollama) },
	"/converse-stream":             func() format { return new(bedrock) },
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for suffix, f := range formats {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, suffix) {
			s.chat(w, r, f())
			return
		}
	}
	is := func(method, suffix string) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, suffix) }
	switch {
	case is(http.MethodPost, "/v3/chat/cancel"):
		s.cancel(w, r)
	case is(http.MethodPost, "/v1/files/upload"):
		s.upload(w, r)
	case is(http.MethodGet, "/v1beta/models"):
		s.list(w, nil, "models", func(name string) any { return geminiModel("models/" + name) })
	case is(http.MethodGet, "/publishers/google/models"):
		s.list(w, nil, "publisherModels", func(name string) any { return geminiModel("publishers/google/models/" + name) })
	case is(http.MethodGet, "/api/tags"):
		s.list(w, nil, "models", ollamaModel)
	case is(http.MethodGet, "/foundation-models"):
		s.list(w, nil, "modelSummaries", bedrockModel)
	case is(http.MethodGet, "/inference-profiles"):
		writeJSON(w, map[string]any{"inferenceProfileSummaries": []any{}})
	case is(http.MethodGet, "/models"):
		s.list(w, map[string]any{"object": "list"}, "data", func(name string) any {
			return map[string]any{"id": name, "object": "model", "created": 0, "owned_by": "script"}
		})
	default:
		new(openai).refuse(w, http.StatusNotFound, "")
	}
}

// list answers with the models in a member of an object.
func (s *Server) list(w http.ResponseWriter, object map[string]any, member string, model func(name string) any) {
	models := []any{}
	for _, name := range s.Models {
		models = append(models, model(name))
	}
	all := map[string]any{member: models}
	maps.Copy(all, object)
	writeJSON(w, all)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(v) // a client that has gone away does not need it
}

// writeError answers with an error. A body that is not JSON becomes the message of the provider's error object, unless the
// Content-Type says that it is something else.
func writeError(w http.ResponseWriter, status int, body string, object func(message string) any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	isJSON := strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")
	if body == "" || isJSON && !json.Valid([]byte(body)) {
		text, _ := json.Marshal(object(cmp.Or(body, http.StatusText(status)))) // of strings: cannot fail
		body = string(text)
	}
	w.WriteHeader(status)
	io.WriteString(w, body) // a client that has gone away does not need it
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request, f format) {
	attempt := s.requests.Add(1)
	s.open.Add(1)
	s.change()
	finished := false
	defer func() {
		if !finished {
			s.canceled.Add(1)
		}
		s.open.Add(-1)
		s.change()
	}()
	// The body is read to its end first: only then does net/http notice that the client goes away.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, err := f.read(r, body)
	if err != nil {
		said := "the body is not a chat request: " + err.Error()
		if r, ok := err.(refusal); ok {
			said = string(r)
		}
		f.refuse(w, http.StatusBadRequest, said)
		finished = true
		return
	}
	req.Header, req.Body, req.Attempt = r.Header, body, int(attempt)
	a := writer{w: w, flush: http.NewResponseController(w), done: r.Context().Done(), req: req, answer: s.Script(req), format: f}
	for _, m := range req.Messages {
		a.prompt += count(m.Content)
	}
	a.req.Messages, a.req.Body = nil, nil // they may be large, and an answer may take long
	defer a.stop()
	defer func() {
		// A script that breaks the connection ends by a panic; that is not the client's going away.
		if p := recover(); p != nil {
			finished = true
			panic(p)
		}
	}()
	finished = a.run()
}

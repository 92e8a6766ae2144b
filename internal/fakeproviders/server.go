// Package fakeproviders is a scripted stand-in for the servers of models, for tests and benchmarks. It speaks the wire formats of OpenAI
// (chat completions and Responses), Anthropic, Bedrock, Coze, Ollama and Gemini. No part of the program may import it.
//
// A [Server] is an http.Handler: serve it from a socket, or reach it in this process through [Server.Transport], which works
// inside a synctest bubble. All waiting goes by the clock of package time, so a bubble's fake time paces it.
package fakeproviders

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// format is a provider's wire format, for one request.
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
	// whole appends an answer in one piece.
	whole(a *writer)
	// refuse answers with an error.
	refuse(w http.ResponseWriter, status int, body string)
}

// Server answers POST …/chat/completions, POST …/responses and POST …/v1/messages (streaming and not), Bedrock's POST …/converse-stream, Coze's POST …/v3/chat and what belongs to it, Ollama's
// POST …/api/chat and GET …/api/tags, Gemini's POST …:generateContent and …:streamGenerateContent, and GET …/models as its Script
// says. It is an http.Handler.
// Its zero value, with a Script, is ready; it must not be copied. Whoever asked for its Transport closes it.
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

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.chat(w, r, new(openai))
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses"):
		s.chat(w, r, new(responses))
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v1/messages"):
		s.chat(w, r, new(anthropic))
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v3/chat"):
		s.chat(w, r, new(coze))
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v3/chat/submit_tool_outputs"):
		s.chat(w, r, &coze{outputs: true})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v3/chat/cancel"):
		s.cancel(w, r)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v1/files/upload"):
		s.upload(w, r)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "enerateContent"):
		s.chat(w, r, new(gemini))
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/v1beta/models"):
		s.geminiModels(w, "models")
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/publishers/google/models"):
		s.geminiModels(w, "publisherModels")
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/api/chat"):
		s.chat(w, r, new(ollama))
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/tags"):
		s.tags(w)
	case r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/converse-stream") || strings.HasSuffix(r.URL.Path, "/converse")):
		s.chat(w, r, new(bedrock))
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/foundation-models"):
		s.foundationModels(w)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/inference-profiles"):
		s.inferenceProfiles(w)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		s.models(w)
	default:
		new(openai).refuse(w, http.StatusNotFound, "")
	}
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

func (s *Server) models(w http.ResponseWriter) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, name := range s.Models {
		list.Data = append(list.Data, model{ID: name, Object: "model", OwnedBy: "script"})
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(list) // a client that has gone away does not need it
}

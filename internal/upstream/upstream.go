// Package upstream is a scripted stand-in for a model's server. It speaks the OpenAI chat completions wire format, so that
// tests, benchmarks and the demo model go through everything that a real model would.
package upstream

import (
	"encoding/json"
	"net/http"
	"time"
)

// Server answers POST …/chat/completions (streaming and not) and GET …/models as its Script says. It is an http.Handler.
type Server struct {
	// Script decides the answer to a request.
	Script func(Request) Answer
}

// Request is what was asked.
type Request struct {
	Model    string
	Messages []Message
	JSON     bool            // a JSON answer was asked for
	Schema   json.RawMessage // the JSON Schema asked for, if any
	Tools    []string
	Header   http.Header
	Body     []byte
	Attempt  int // how often the server has been asked, from 1
}

// Message is one message of a request; parts are joined as text.
type Message struct{ Role, Content string }

// Answer is what the server does.
type Answer struct {
	Text      string   // cut into tokens of about four characters
	Tokens    []string // instead of Text
	Reasoning string
	ToolCalls []ToolCall
	Finish    string        // default "stop"; "-" sends none and no [DONE]
	Pace      float64       // tokens per second; 0: as fast as it can
	Delay     time.Duration // before the first byte
	Raw       []Raw         // instead of all above: bytes as they are
	Status    int           // other than 0 and 200: an error answer with Body
	Header    http.Header
	Body      string
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
func (s *Server) Open() int     { panic("upstream: not built yet") }
func (s *Server) Canceled() int { panic("upstream: not built yet") }
func (s *Server) Requests() int { panic("upstream: not built yet") }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("upstream: not built yet") }

// Transport returns an http.RoundTripper that reaches the server in this process, without a network, over real HTTP.
func (s *Server) Transport() http.RoundTripper { panic("upstream: not built yet") }

// Package fakecallback is a backend that gets the replies of a webhook channel: it verifies their signatures, knows a message again by
// its webhook-id, and fails as it is told to. It speaks real HTTP on loopback, and runs without a socket as an http.RoundTripper.
package fakecallback

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Step is what becomes of one request. The zero value takes it.
type Step struct {
	Status     int    // 0 is 204
	RetryAfter string // header
	Location   string // header
	Body       string
	Cut        bool // the connection ends without an answer, after the message was taken where Status is 0
}

// Message is one that was taken.
type Message struct {
	ID   string // webhook-id
	Body []byte
	Text string // its member text
}

// Server is the backend. It is safe for concurrent use.
type Server struct {
	secret *standardwebhooks.Webhook

	mu       sync.Mutex
	steps    []Step
	taken    []Message
	requests []Request
}

// Request is one that came, whatever became of it.
type Request struct {
	ID     string
	Body   []byte
	Header http.Header
	Signed bool // as it should be
}

// New returns a backend that shares a secret (whsec_…). It panics if the secret is none.
func New(secret string) *Server {
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		panic("fakecallback: " + err.Error())
	}
	return &Server{secret: w}
}

// Then says what becomes of the next requests, one each; those after them are taken.
func (s *Server) Then(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// Taken are the messages so far, each once, in the order in which they came first.
func (s *Server) Taken() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken)
}

// Requests are all that came, also those that were refused.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	step, signed := s.take(r, body)
	switch {
	case !signed:
		w.WriteHeader(http.StatusUnauthorized)
	case step.Cut:
		panic(http.ErrAbortHandler)
	default:
		for name, value := range map[string]string{"Retry-After": step.RetryAfter, "Location": step.Location} {
			if value != "" {
				w.Header().Set(name, value)
			}
		}
		if step.Status == 0 {
			step.Status = http.StatusNoContent
		}
		w.WriteHeader(step.Status)
		_, _ = io.WriteString(w, step.Body)
	}
}

// take notes a request, and its message where it is taken.
func (s *Server) take(r *http.Request, body []byte) (Step, bool) {
	id := r.Header.Get(standardwebhooks.HeaderWebhookID)
	signed := r.Method == http.MethodPost && s.secret.Verify(body, r.Header) == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{id, body, r.Header.Clone(), signed})
	if !signed {
		return Step{}, false
	}
	var step Step
	if len(s.steps) > 0 {
		step, s.steps = s.steps[0], s.steps[1:]
	}
	known := slices.ContainsFunc(s.taken, func(m Message) bool { return m.ID == id })
	if (step.Status == 0 || step.Status/100 == 2) && !known {
		var m struct{ Text string }
		_ = json.Unmarshal(body, &m)
		s.taken = append(s.taken, Message{id, body, m.Text})
	}
	return step, true
}

// Transport is the backend without a socket, for tests whose time is not the clock's.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ s *Server }

func (t transport) RoundTrip(r *http.Request) (res *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // it was cut
			res, err = nil, io.ErrUnexpectedEOF
		}
	}()
	rec := httptest.NewRecorder()
	t.s.ServeHTTP(rec, r)
	res = rec.Result()
	res.Request = r
	return res, nil
}

// Package wire is what adapters that speak HTTP share: putting a request, reading a stream's lines, and saying in our own words
// what a provider's refusal means.
package wire

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// maxRefusal is how much of an error answer is read, in bytes.
const maxRefusal = 64 << 10

// Server is a provider's server: how it is reached, and how errors name it. It is safe for concurrent use.
type Server struct {
	Prefix   string        // as the provider is known in model names
	KeyName  string        // where the key comes from, named in errors
	Key      func() string // a function, so that printing a server does not print it
	Client   *http.Client
	Header   http.Header // of every request, over what the adapter sends; nil is nothing
	URLHint  string      // said behind "the base URL", as " (most end in /v1)"
	Listed   []string    // models that the settings name
	MaxEvent int         // bytes of one event
	Accept   string      // media type of answers, default that of server-sent events
	Absent   string      // said where nothing answers at the address; default a sentence about the base URL
	// Authorize puts the key, and what else each request needs, into its header. The settings' header goes over it.
	Authorize func(http.Header)
	// Sign adds to a request that is complete what says that it may be made; nil is nothing.
	Sign func(*http.Request) error
	// Renew makes Sign add something else, after an answer with the status 401; nil is nothing.
	Renew func()
	// Explain improves the error of a refusal; nil is nothing.
	Explain func(*adapter.Error, *Refusal)
}

// Name is what users read: "the model's server (openai)".
func (s *Server) Name() string { return "the model's server (" + s.Prefix + ")" }

// Accept is the header of a request for an answer of a media type.
func Accept(kind string) http.Header { return http.Header{"Accept": {kind}} }

// Redact makes what the server has said fit for a log. Of the headers, only a value that is long enough for a secret is taken out.
func (s *Server) Redact(said []byte) string {
	secrets := []string{s.Key()}
	for _, values := range s.Header {
		for _, v := range values {
			if len(v) >= 8 {
				secrets = append(secrets, v)
			}
		}
	}
	return adapter.Redact(string(said), secrets...)
}

// Refusal is an answer with another status than 200.
type Refusal struct {
	Status int
	Header http.Header
	Body   []byte // its start, where it is long
}

// Post sends a JSON body. It returns the answer where that has the status 200, and a refusal where it has another; the caller
// closes the answer's body. Errors are the context's cause, or an [*adapter.Error] for a server that cannot be reached.
func (s *Server) Post(ctx context.Context, url string, header http.Header, body []byte) (*http.Response, *Refusal, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body)) // sets GetBody
	if err != nil {
		return nil, nil, s.Unreachable(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, refusal, err := s.Do(req, header)
	if refusal != nil && refusal.Status == http.StatusUnauthorized && s.Renew != nil {
		s.Renew()
		req.Body, _ = req.GetBody() // of bytes: cannot fail
		return s.Do(req, header)
	}
	return res, refusal, err
}

// Do is Post for any request; the header goes over the request's own.
func (s *Server) Do(req *http.Request, header http.Header) (*http.Response, *Refusal, error) {
	req.Header.Set("User-Agent", "lingserve")
	maps.Copy(req.Header, header)
	s.Authorize(req.Header)
	maps.Copy(req.Header, s.Header)
	if s.Sign != nil {
		if err := s.Sign(req); err != nil {
			return nil, nil, err
		}
	}
	// The entry, which is not sent, lets net/http repeat a POST that met a connection which the server was just closing:
	// golang/go#19943.
	req.Header["X-Idempotency-Key"] = nil
	res, err := s.Client.Do(req)
	ctx := req.Context()
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, s.Unreachable(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil, nil
	}
	defer res.Body.Close()
	said := Said(res.Body)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return nil, &Refusal{Status: res.StatusCode, Header: res.Header, Body: said}, nil
}

// Said reads what a body says that is no answer, as far as it is of use.
func Said(body io.Reader) []byte {
	said, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) // half an explanation is better than none
	return said
}

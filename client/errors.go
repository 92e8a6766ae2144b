package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Refusal is an answer of the server that is not what was asked for: a problem (RFC 9457), or only a status.
type Refusal struct {
	Status int
	Title  string
	Detail string
	Code   string
	Errors []struct{ Pointer, Parameter, Header, Detail string } // what is wrong, and where in the request
}

func (r *Refusal) Error() string {
	text := cmp.Or(r.Detail, r.Title)
	switch {
	case text == "":
		return fmt.Sprintf("the server answered %d %s", r.Status, http.StatusText(r.Status))
	case r.Code != "":
		text += " (" + r.Code + ")"
	}
	return text
}

// SchemeError says that the server at Host uses the other scheme, which is Scheme.
type SchemeError struct{ Host, Scheme string }

func (e *SchemeError) Error() string {
	if e.Scheme == "https" {
		return e.Host + " uses TLS"
	}
	return e.Host + " uses plain HTTP, without TLS"
}

// refusalOf reads the body of an answer that is not what was asked for.
func refusalOf(res *http.Response) error {
	r := Refusal{}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if u := res.Request.URL; res.StatusCode == http.StatusBadRequest && u.Scheme == "http" && wantsTLS(text) {
		return &SchemeError{Host: u.Host, Scheme: "https"}
	}
	if json.Unmarshal(text, &r) != nil {
		r = Refusal{}
	}
	r.Status = res.StatusCode
	return &r
}

// wantsTLS says whether a server that speaks TLS has answered to plain HTTP with this: Go's, and with it this one, nginx and Apache in
// their own words.
func wantsTLS(text []byte) bool {
	for _, words := range []string{
		"Client sent an HTTP request to an HTTPS server", "plain HTTP request was sent to HTTPS port", "speaking plain HTTP to an SSL-enabled server port",
	} {
		if bytes.Contains(text, []byte(words)) {
			return true
		}
	}
	return false
}

// unreachable says why the server gave no answer.
func unreachable(err error) error {
	ue, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	host := "the server"
	if u, perr := url.Parse(ue.URL); perr == nil {
		host = u.Host
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return &SchemeError{Host: host, Scheme: "http"}
	}
	if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op == "dial" {
		return fmt.Errorf("cannot connect to %s: %w", host, oe.Err)
	}
	return fmt.Errorf("cannot talk to %s: %w", host, ue.Err)
}

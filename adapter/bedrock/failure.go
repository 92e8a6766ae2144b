package bedrock

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// refused makes the error of an answer with another status than 200. Its kind is in a header, or in the body's __type.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	r.Body = p.auth.hide(r.Body)
	e := p.failure(r.Status, r.Header.Get("X-Amzn-Errortype"), r.Body)
	e.Status, e.RetryAfter = r.Status, wire.RetryAfter(r.Header, time.Now())
	e.Cause = fmt.Errorf("status %d %s: %s", r.Status, p.Redact([]byte(r.Header.Get("X-Amzn-Errortype"))), p.Redact(r.Body))
	return e
}

// failed makes the error of a message in the stream that reports one.
func (p *provider) failed(kind string, payload []byte) *adapter.Error {
	e := p.failure(0, kind, payload)
	e.Status = 0
	e.Cause = fmt.Errorf("reported %s: %s", p.Redact([]byte(kind)), p.Redact(payload))
	return e
}

// exceptions are the statuses that kinds of exceptions stand for, by how their names begin.
var exceptions = []struct {
	kind   string
	status int
}{
	{"throttling", http.StatusTooManyRequests},
	{"toomanyrequests", http.StatusTooManyRequests},
	{"servicequotaexceeded", http.StatusTooManyRequests},
	{"modelnotready", http.StatusServiceUnavailable},
	{"serviceunavailable", http.StatusServiceUnavailable},
	{"modeltimeout", http.StatusRequestTimeout},
	{"modelerror", http.StatusBadGateway},
	{"modelstreamerror", http.StatusBadGateway},
	{"internal", http.StatusInternalServerError},
	{"validation", http.StatusBadRequest},
	{"resourcenotfound", http.StatusNotFound},
	{"accessdenied", http.StatusForbidden},
	{"unrecognizedclient", http.StatusForbidden},
	{"expiredtoken", http.StatusForbidden},
	{"invalidsignature", http.StatusForbidden},
	{"missingauthentication", http.StatusForbidden},
}

// failure says what an error means. The sentences are ours.
func (p *provider) failure(status int, kind string, body []byte) *adapter.Error {
	r := wire.ReadReport(body)
	if r.Message == "" {
		r.Message = string(body) // "Message", in some
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ":")
	kind = kind[strings.LastIndexByte(kind, '#')+1:]
	for _, row := range exceptions {
		if strings.HasPrefix(kind, row.kind) {
			status = row.status
		}
	}
	says := strings.ToLower(r.Message)
	if strings.Contains(says, "input tokens exceed") || strings.Contains(says, "number of input tokens exceeds") {
		r.Kind += " context_length_exceeded"
	}
	e := p.Failure(status, r)
	switch {
	case status == http.StatusForbidden && strings.HasPrefix(kind, "accessdenied"):
		e.Message = p.Name() + " does not give access to this model: check that the account may use it, the policy of " + p.KeyName + " or of the AWS credentials, and the region"
	case e.Code == adapter.CodeAuth && p.auth.key() == "":
		e.Message = p.Name() + " refused the AWS credentials: check that they are valid, or set " + p.KeyName
	case status == http.StatusBadRequest && strings.Contains(says, "on-demand throughput"):
		e.Message = p.Name() + " has this model by an inference profile only: put the profile's prefix before its name, such as us. or global."
	}
	return e
}

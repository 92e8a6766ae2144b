package wire

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// Report is what a provider says about a failure, in any of the forms that are in use.
type Report struct {
	Message string
	Kind    string // type and code, in small letters
	Param   string // the member of the request that is to blame, if it is one that we know
	Status  int    // where the code is an HTTP status
}

// ReadReport reads {"error":{…}}, {"error":"…"}, {"object":"error",…}, {"message":…}, {"detail":…} and lists of those.
func ReadReport(data []byte) Report {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		data = list[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return Report{Message: string(data)}
	}
	members := top
	if inner := top["error"]; len(inner) > 0 && string(inner) != "null" {
		members = nil
		if json.Unmarshal(inner, &members) != nil {
			members = map[string]json.RawMessage{"message": inner, "code": top["code"], "type": top["type"], "status": top["status"]}
		}
	}
	var r Report
	for _, name := range []string{"message", "msg", "detail"} {
		if r.Message = word(members[name]); r.Message != "" {
			break
		}
	}
	if param := word(members["param"]); slices.Contains(params, param) {
		r.Param = param
	}
	for _, name := range []string{"code", "status", "status_code", "type"} {
		w := word(members[name])
		if n, err := strconv.Atoi(w); err == nil && r.Status == 0 && 400 <= n && n <= 599 {
			r.Status = n
		}
		r.Kind += " " + strings.ToLower(w)
	}
	return r
}

// params are the members of a request that an error may name; anything else would be the provider's own words.
var params = []string{
	"max_completion_tokens", "max_tokens", "messages", "model", "response_format", "seed", "stop", "stream", "stream_options",
	"temperature", "tools", "top_p",
}

// word returns a string's value, or the text of anything else.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// Refused makes the error of an answer with another status than 200.
func (s *Server) Refused(r *Refusal) *adapter.Error {
	e := s.Failure(r.Status, ReadReport(r.Body))
	e.RetryAfter = RetryAfter(r.Header, time.Now())
	e.Cause = fmt.Errorf("status %d: %s", r.Status, s.Redact(r.Body))
	return e
}

// Failed makes the error of an event that reports one.
func (s *Server) Failed(data []byte) *adapter.Error {
	r := ReadReport(data)
	e := s.Failure(r.Status, r)
	e.Status = r.Status
	e.Cause = fmt.Errorf("reported: %s", s.Redact(data))
	return e
}

// Failure says what a status (0 where there is none) and a report mean. The sentences are ours.
func (s *Server) Failure(status int, r Report) *adapter.Error {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(r.Kind, w) })
	}
	server := s.Name()
	e := &adapter.Error{Code: adapter.CodeProtocol, Status: status}
	switch {
	case says("content_filter", "content_policy", "data_inspection_failed", "datainspectionfailed"):
		e.Message = ContentFilter
	case tooLong(r) && (status == 0 || status == 400 || status == 413 || status == 422):
		e.Code, e.ContextLength = adapter.CodeInvalid, true
		e.Message = "the request is too long for the model: shorten the prompt or the history, or use a model with a larger context"
	case says("insufficient_quota", "billing", "insufficient_balance", "exceeded_current_quota", "arrearage", "freetieronly") || status == http.StatusPaymentRequired:
		e.Code = adapter.CodeRateLimited
		e.Message = server + " says that the account has no credit left"
	case status == 401 || status == 403 || says("invalid_api_key", "authentication", "permission"):
		e.Code = adapter.CodeAuth
		e.Message = server + " refused the key: check " + s.KeyName
		if s.Key() == "" {
			e.Message = server + " asks for a key: set " + s.KeyName
		}
	case status == 429 || says("rate_limit", "too_many_requests"):
		e.Code, e.Retryable = adapter.CodeRateLimited, true
		e.Message = server + " limits the rate of requests: try again later"
	case status == 408 || status == 504 || says("timeout"):
		e.Code, e.Retryable = adapter.CodeTimeout, true
		e.Message = server + " did not answer in time"
	case status == 409:
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = server + " is busy with a conflicting request: try again"
	case status >= 500 || says("server_error", "overloaded", "unavailable", "internal"):
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = server + " failed or is overloaded: try again later"
	case status == 404 || says("model_not_found"):
		e.Message = server + " does not know this model or address: check the model's name, and the base URL (most end in /v1)"
	case 300 <= status && status < 400:
		e.Message = server + " answered with a redirect, which is not followed: check the base URL"
	case r.Param != "" && (status == 0 || status == 400 || status == 422):
		e.Message = server + " refused the request: the model does not take " + r.Param + " as it was given"
	case status == 400 || status == 413 || status == 415 || status == 422 || says("invalid_request"):
		e.Message = server + " refused the request: the model may not support something that was asked of it"
	case status != 0:
		e.Message = fmt.Sprintf("%s answered with the unexpected status %d", server, status)
	default:
		e.Message = server + " reported an error"
	}
	return e
}

// ContentFilter is what is said of an answer that the provider's filter has stopped.
const ContentFilter = "the provider's content filter stopped the answer"

// tooLong recognises the ways in which servers say that a request does not fit the model's context.
func tooLong(r Report) bool {
	if strings.Contains(r.Kind, "context_length") || strings.Contains(r.Kind, "string_above_max_length") {
		return true
	}
	said := strings.ToLower(r.Message)
	for _, words := range []string{
		"context length", "context window", "context size", "maximum context", "context_length",
		"prompt is too long", "input is too long", "too many tokens", "max_model_len", "input length", "token length too long", "model token limit",
	} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// RetryAfter reads how long the provider asks to wait: retry-after-ms, or Retry-After in seconds or as a date. More than a day
// is taken for a day.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	bound := func(seconds float64) time.Duration {
		if math.IsNaN(seconds) || seconds <= 0 {
			return 0
		}
		return time.Duration(min(seconds, 24*60*60) * float64(time.Second))
	}
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return bound(ms / 1000)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return bound(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return bound(at.Sub(now).Seconds())
	}
	return 0
}

// Unreachable makes the error of a request that got no answer.
func (s *Server) Unreachable(err error) *adapter.Error {
	server := s.Name()
	e := &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Cause: adapter.RedactError(err, s.Key())}
	switch {
	case isCertificate(err):
		e.Retryable = false
		e.Message = server + " has a certificate that is not trusted"
	case s.Absent != "" && (isA[*net.DNSError](err) || isDial(err)) && !isTimeout(err):
		e.Message = s.Absent
	case isA[*net.DNSError](err):
		e.Message = server + " cannot be found: check the base URL"
	case isTimeout(err):
		e.Code = adapter.CodeTimeout
		e.Message = server + " could not be reached in time"
	case isDial(err):
		e.Message = "nothing answers at the address of " + server + ": check that it runs, and the base URL"
	default:
		e.Message = "the connection to " + server + " broke before it answered"
	}
	return e
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isCertificate(err error) bool { return isA[*tls.CertificateVerificationError](err) }

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Broken makes the error of an answer that ended too early: cut off by the provider, or by the network.
func (s *Server) Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &adapter.Error{
		Code:      adapter.CodeProtocol,
		Message:   "the model's answer was cut off before its end",
		Retryable: true,
		Cause:     errors.New("the stream ended without what marks its end"),
	}
	if err != nil {
		e.Cause = fmt.Errorf("%w; %s", e.Cause, s.Redact([]byte(err.Error())))
	}
	return e
}

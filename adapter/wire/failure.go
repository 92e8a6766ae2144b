package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// Refused makes the error of an answer with another status than 200.
func (s *Server) Refused(r *Refusal) *adapter.Error {
	report := ReadReport(r.Body)
	// AWS says the type of an error in a header, with an address behind a colon.
	kind := r.Header.Get("X-Amzn-Errortype")
	if name, _, _ := strings.Cut(kind, ":"); name != "" {
		report.Kind += " " + strings.ToLower(name)
	}
	e := s.Failure(r.Status, report)
	if after := RetryAfter(r.Header, time.Now()); after > 0 && e.Retryable {
		e.RetryAfter = after // servers send the header with lasting failures too, such as an account without credit
	}
	if s.Explain != nil {
		s.Explain(e, r)
	}
	if e.Cause == nil {
		e.Cause = fmt.Errorf("status %s: %s", strings.TrimSpace(fmt.Sprint(r.Status, " ", s.Redact([]byte(kind)))), s.Redact(r.Body))
	}
	return e
}

// Failed makes the error of an event that reports one. kinds are more types and codes.
func (s *Server) Failed(data []byte, kinds ...string) *adapter.Error {
	r := ReadReport(data)
	said := ""
	for _, kind := range kinds {
		said += " " + kind
	}
	r.Kind += strings.ToLower(said)
	e := s.Failure(r.Status, r)
	e.Status = r.Status
	e.Cause = fmt.Errorf("reported%s: %s", s.Redact([]byte(said)), s.Redact(data))
	return e
}

// BrokeOff makes the error of an event that says that the answer is not complete, and perhaps why.
func (s *Server) BrokeOff(data []byte) *adapter.Error {
	e := s.Failed(data)
	if e.Code == adapter.CodeProtocol { // the report says no more than that
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = s.Name() + " broke off the answer because it failed or is overloaded: retry later"
	}
	return e
}

// Failure makes the error for a status (0 for none) and a report. The sentences are ours.
func (s *Server) Failure(status int, r Report) *adapter.Error {
	means, says := meant(status, &r)
	if means == nil {
		means = statusMeans(status)
	}
	e := &adapter.Error{Message: "% reported an error"}
	if means != nil {
		*e = *means
	}
	e.Code, e.Status = cmp.Or(e.Code, adapter.CodeProtocol), status
	if e.Retryable {
		e.RetryAfter = r.Retry
	}
	switch {
	case means == nil && status != 0:
		e.Message = fmt.Sprintf("%% answered with the unexpected status %d", status)
	case means == unknown:
		e.Message += s.URLHint
	case means == badKey && s.Key() == "":
		e.Message = "% asks for a key: set " + s.KeyName
	case means == badKey && r.page:
		e.Message = "% refused access with a web page: check " + s.KeyName + ", the base URL, and a proxy or firewall in between"
	case means == badKey:
		e.Message += s.KeyName
	case means == refused:
		if r.Param != "" {
			e.Message = "% refused the request: the model does not accept " + r.Param + " as it was given"
		}
		if r.Param == "" || r.Param == "messages" { // else it is a setting that was refused
			e.Refused, e.Notice = true, "The model's server refused this message. Please write it in another way, or without its files."
		}
		if says == saysImages {
			e.Refused, e.Notice = true, "The model cannot read such images or files. Please send the message without them."
		}
	}
	e.Message = strings.Replace(cmp.Or(says, e.Message), "%", s.Name(), 1)
	return e
}

// statusMeans is what a status means by itself; it may be nil.
func statusMeans(status int) *adapter.Error {
	switch means := statusMeanings[status]; {
	case status >= 300 && status < 400:
		return redirect
	case means == nil && status >= 500:
		return failed
	default:
		return means
	}
}

var statusMeanings = map[int]*adapter.Error{
	http.StatusPaymentRequired: noCredit,
	http.StatusUnauthorized:    badKey, http.StatusForbidden: badKey,
	http.StatusNotFound:       unknown,
	http.StatusRequestTimeout: slow, http.StatusGatewayTimeout: slow,
	http.StatusConflict:              busy,
	http.StatusRequestEntityTooLarge: tooLong,
	http.StatusBadRequest:            refused, http.StatusUnsupportedMediaType: refused, http.StatusUnprocessableEntity: refused,
	http.StatusTooManyRequests: limited,
	529:                        overloaded, // Anthropic
}

const (
	contentFilter = "the provider's content filter stopped the answer"
	filterNotice  = "The content filter of the model's provider stopped this answer."
)

// Filtered is the error of an answer that the provider's content filter stopped.
func Filtered(cause error) *adapter.Error {
	return &adapter.Error{Code: adapter.CodeProtocol, Message: contentFilter, Filtered: true, Refused: true, Notice: filterNotice, Cause: cause}
}

// maxRetryAfter replaces a longer time that a provider asks to wait.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads how long the provider asks to wait: retry-after-ms, or Retry-After in seconds or as a date.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	var seconds float64
	after := strings.TrimSpace(h.Get("Retry-After"))
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		seconds = ms / 1000
	} else if s, err := strconv.ParseFloat(after, 64); err == nil {
		seconds = s
	} else if at, err := http.ParseTime(after); err == nil {
		seconds = at.Sub(now).Seconds()
	}
	if !(seconds > 0) { // which NaN is not
		return 0
	}
	return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
}

// Unreachable makes the error of a request that got no answer.
func (s *Server) Unreachable(err error) *adapter.Error {
	server := s.Name()
	e := &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Cause: adapter.RedactError(err, s.Key())}
	switch {
	case isA[*tls.CertificateVerificationError](err):
		e.Retryable = false
		e.Message = server + " has a certificate that is not trusted"
	case s.Absent != "" && (isA[*net.DNSError](err) || isDial(err)) && !isTimeout(err):
		e.Message = s.Absent
	case isA[*net.DNSError](err):
		e.Message = server + " cannot be found: check the base URL"
	case isTimeout(err):
		e.Code = adapter.CodeTimeout
		e.Message = "could not connect to " + server + " in time"
	case isDial(err):
		e.Message = "cannot connect to " + server + ": check that it runs, and the base URL"
	default:
		e.Message = "the connection to " + server + " broke before it answered"
	}
	return e
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

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
		Message:   "the model's answer was cut off",
		Retryable: true,
		Cause:     errors.New("the stream ended without what marks its end"),
	}
	if err != nil {
		e.Cause = fmt.Errorf("%w; %s", e.Cause, s.Redact([]byte(err.Error())))
	}
	return e
}

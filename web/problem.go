package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/run"
)

// Codes of what can go wrong, in problem documents and in "error" events alike. They are stable; texts are not.
const (
	codeInvalid      = "invalid_request"
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeNotFound     = "not_found"
	codeGone         = "gone"
	codeConflict     = "conflict"
	codeTooLarge     = "too_large"
	codeRateLimited  = "rate_limited"
	codeOutput       = "output_invalid"
	codeRefused      = "output_refused"
	codeOverloaded   = "overloaded"
	codeDraining     = "draining"
	codeInternal     = "internal"
)

// statuses are those of answers that have nothing better to say.
var statuses = map[string]int{
	codeInvalid:             http.StatusBadRequest,
	codeUnauthorized:        http.StatusUnauthorized,
	codeForbidden:           http.StatusForbidden,
	codeNotFound:            http.StatusNotFound,
	codeGone:                http.StatusGone,
	codeConflict:            http.StatusConflict,
	codeTooLarge:            http.StatusRequestEntityTooLarge,
	codeRateLimited:         http.StatusTooManyRequests,
	adapter.CodeBudget:      http.StatusPaymentRequired,
	adapter.CodeAuth:        http.StatusBadGateway,
	adapter.CodeRateLimited: http.StatusTooManyRequests,
	adapter.CodeUnavailable: http.StatusBadGateway,
	adapter.CodeTimeout:     http.StatusGatewayTimeout,
	adapter.CodeProtocol:    http.StatusBadGateway,
	bot.CodeLimitReached:    http.StatusUnprocessableEntity,
	codeOutput:              http.StatusBadGateway,
	codeRefused:             http.StatusBadGateway,
	codeOverloaded:          http.StatusServiceUnavailable,
	codeDraining:            http.StatusServiceUnavailable,
	codeInternal:            http.StatusInternalServerError,
}

// statusOf maps a code to its status; one that is not known is a fault of ours.
func statusOf(code string) int { return cmp.Or(statuses[code], http.StatusInternalServerError) }

// titleOf is the short name of a code that a problem document carries: the code in words.
func titleOf(code string) string { return strings.ReplaceAll(code, "_", " ") }

// problem is an answer that says what was wrong (RFC 9457). It is also the error of everything here that ends in one.
type problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Code   string   `json:"code"`
	Run    string   `json:"run,omitempty"`    // where there is a run to look at
	ID     string   `json:"id,omitempty"`     // of an internal error: to look up in the log
	Errors []misfit `json:"errors,omitempty"` // what exactly does not fit

	retryAfter time.Duration // a Retry-After header, where not 0
	header     http.Header   // more headers; nil for none
	reason     string        // a word for the log and for metrics that says more than the code; "" says no more
}

// misfit is one thing that does not fit: a JSON Pointer into the body, or the name of a query parameter or header.
type misfit = run.Field

func (p *problem) Error() string { return p.Detail }

// RetryAfter is when it may be worth another attempt.
func (p *problem) RetryAfter() time.Duration { return p.retryAfter }

// newProblem makes the problem for a code, with the status that belongs to it.
func newProblem(code, detail string) *problem {
	return &problem{
		// The type is a name, not a place: it must be the same on every machine, and about:blank would say nothing.
		Type:   "urn:lingserve:problem:" + code,
		Title:  titleOf(code),
		Status: statusOf(code),
		Detail: detail,
		Code:   code,
	}
}

// invalid makes the problem of a request that does not fit. Its detail names the first misfit, for those who read no further.
func invalid(misfits ...misfit) *problem {
	p := newProblem(codeInvalid, "the request is invalid")
	p.Errors = misfits
	if len(misfits) > 0 {
		m := misfits[0]
		switch {
		case m.Pointer != "":
			p.Detail = m.Pointer + ": " + m.Detail
		case m.Parameter != "":
			p.Detail = "query parameter " + m.Parameter + ": " + m.Detail
		case m.Header != "":
			p.Detail = "header " + m.Header + ": " + m.Detail
		default:
			p.Detail = m.Detail
		}
		if n := len(misfits) - 1; n > 0 {
			p.Detail += " (and " + strconv.Itoa(n) + " more)"
		}
	}
	return p
}

// moved is the problem of a request whose body has other places: to moves what leads into a body of ours.
func (p *problem) moved(to func(m *misfit)) *problem {
	if p.Code != codeInvalid && p.Code != codeTooLarge || len(p.Errors) == 0 || p.Errors[0].Pointer == "" {
		return p
	}
	errors := slices.Clone(p.Errors)
	for i := range errors {
		to(&errors[i])
	}
	as := *p
	as.Detail, as.Errors = invalid(errors...).Detail, errors
	return &as
}

// head writes what goes before the problem, whose text is of this type.
func (p *problem) head(w http.ResponseWriter, media string) {
	refused(w, p.why())
	h := w.Header()
	maps.Copy(h, p.header)
	if p.retryAfter > 0 {
		h.Set("Retry-After", retryAfter(p.retryAfter))
	}
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	w.WriteHeader(p.Status)
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	p.head(w, "application/problem+json")
	text := json.NewEncoder(w)
	text.SetEscapeHTML(false) // people read it, and nobody puts it into a page as it is
	_ = text.Encode(p)        // the client may have gone away
}

// Refuse answers with a refusal, for doors beside this one.
func Refuse(w http.ResponseWriter, r *access.Refusal) { problemOf(r).write(w) }

// retryAfter is the header's text: whole seconds, at least one, spread over half as much again so that those who were
// refused together do not come back together.
func retryAfter(d time.Duration) string {
	s := max(1, int((d+time.Second-1)/time.Second))
	return strconv.Itoa(s + rand.IntN(s/2+2))
}

// problem is the answer to an error of package run. A caller that has gone gets none, and of a run that moved no answer is the end: the
// connection is broken off, and the client comes back.
func (s *Server) problem(ctx context.Context, err error) *problem {
	e, ok := errors.AsType[*run.Error](err)
	switch {
	case ok:
	case ctx.Err() != nil, errors.Is(err, run.ErrMoved):
		panic(http.ErrAbortHandler)
	default:
		p := newProblem(codeInternal, "internal error; find the cause in the server's log under this id")
		p.ID = run.NewID()
		s.log.ErrorContext(ctx, "cannot do what a request asks for", "id", p.ID, "error", err)
		return p
	}
	p := newProblem(e.Code(), e.Detail)
	if e.Kind == run.ErrKeyReused {
		p.Status = http.StatusUnprocessableEntity
	}
	p.Errors, p.Run, p.ID, p.reason, p.retryAfter = e.Fields, e.Run, e.ID, e.Limit, e.Retry
	return p
}

// asError is a problem as an error of package run.
func (p *problem) asError() error {
	return &run.Error{Kind: run.KindOf(p.Code), Detail: p.Detail, Fields: p.Errors, Run: p.Run, ID: p.ID, Limit: p.reason, Retry: p.retryAfter}
}

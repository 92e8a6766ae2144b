package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Codes of what can go wrong, in problem documents and in "error" events alike. They are stable; texts are not.
const (
	CodeInvalid      = "invalid_request"
	CodeUnauthorized = "unauthorized"
	CodeForbidden    = "forbidden"
	CodeNotFound     = "not_found"
	CodeGone         = "gone"
	CodeConflict     = "conflict"
	CodeTooLarge     = "too_large"
	CodeRateLimited  = "rate_limited"
	CodeOutput       = "output_invalid"
	CodeRefused      = "output_refused"
	CodeOverloaded   = "overloaded"
	CodeDraining     = "draining"
	CodeInternal     = "internal"
	CodeCrashed      = "crashed"
)

// Statuses are the HTTP statuses of the codes, for answers that have no better one. Many clients retry 408, 409, 429 and 5xx by
// themselves, so a failure of a model's server or of the database that a retry does not mend has a lasting one; see [OfFailure].
var Statuses = map[string]struct{ Usual, Lasting int }{
	CodeInvalid:        {Usual: http.StatusBadRequest},
	CodeUnauthorized:   {Usual: http.StatusUnauthorized},
	CodeForbidden:      {Usual: http.StatusForbidden},
	CodeNotFound:       {Usual: http.StatusNotFound},
	CodeGone:           {Usual: http.StatusGone},
	CodeConflict:       {Usual: http.StatusConflict},
	CodeTooLarge:       {Usual: http.StatusRequestEntityTooLarge},
	CodeRateLimited:    {Usual: http.StatusTooManyRequests},
	adapter.CodeBudget: {Usual: http.StatusPaymentRequired},
	adapter.CodeAuth:   {Usual: http.StatusFailedDependency},
	// Lasting: the account has no credit, or the request is larger than its limit.
	adapter.CodeRateLimited: {http.StatusTooManyRequests, http.StatusPaymentRequired},
	adapter.CodeUnavailable: {http.StatusBadGateway, http.StatusFailedDependency},
	adapter.CodeTimeout:     {http.StatusGatewayTimeout, http.StatusFailedDependency},
	adapter.CodeProtocol:    {http.StatusBadGateway, http.StatusFailedDependency},
	bot.CodeLimitReached:    {Usual: http.StatusUnprocessableEntity},
	CodeOutput:              {Usual: http.StatusFailedDependency},
	CodeRefused:             {Usual: http.StatusFailedDependency},
	CodeOverloaded:          {http.StatusServiceUnavailable, http.StatusFailedDependency},
	CodeDraining:            {Usual: http.StatusServiceUnavailable},
	CodeInternal:            {Usual: http.StatusInternalServerError},
	CodeCrashed:             {Usual: http.StatusFailedDependency}, // no client may retry it by itself
}

// Problem is an answer that says what was wrong (RFC 9457). Each wire writes it in its own form, after Head.
type Problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	Code   string      `json:"code"`
	Run    string      `json:"run,omitempty"`    // where there is a run to look at
	ID     string      `json:"id,omitempty"`     // of an internal error: to look up in the log
	Errors []run.Field `json:"errors,omitempty"` // what exactly does not fit

	Retry  time.Duration `json:"-"` // a Retry-After header, where not 0
	Header http.Header   `json:"-"` // more headers; nil for none
	Reason string        `json:"-"` // a word for the log and for metrics that says more than the code; "" says no more

	// Replica is the one that has what was asked for: the request is to be forwarded to it. "" is none.
	Replica string `json:"-"`

	abort bool // no answer fits: the connection is closed instead
}

func (p *Problem) Error() string { return p.Detail }

// RetryAfter is when another attempt may succeed.
func (p *Problem) RetryAfter() time.Duration { return p.Retry }

// NewProblem makes the problem for a code, with the status that belongs to it.
func NewProblem(code, detail string) *Problem {
	return &Problem{
		// The type is a name, not a place: it must be the same on every machine, and about:blank would say nothing.
		Type:   "urn:lingserve:problem:" + code,
		Title:  strings.ReplaceAll(code, "_", " "),
		Status: cmp.Or(Statuses[code].Usual, http.StatusInternalServerError), // a code that is not known is a fault of ours
		Detail: detail,
		Code:   code,
	}
}

// Internal makes the problem of an internal error, and logs it with its id.
func Internal(ctx context.Context, log *slog.Logger, message string, args ...any) *Problem {
	p := NewProblem(CodeInternal, "internal error; find the cause in the server's log under this id")
	p.ID = run.NewID()
	log.ErrorContext(ctx, message, append([]any{"id", p.ID}, args...)...)
	return p
}

// Invalid makes the problem of what does not fit in a request; nil if everything does. Its detail names the first fault, for those who read
// no further.
func Invalid(faults ...run.Field) *Problem {
	if len(faults) == 0 {
		return nil
	}
	p := NewProblem(CodeInvalid, "")
	p.setFaults(faults)
	return p
}

// setFaults sets what does not fit, without the ends of long texts, and a detail about the first.
func (p *Problem) setFaults(faults []run.Field) {
	if len(faults) == 0 {
		return
	}
	p.Errors = nil
	for _, f := range faults {
		p.Errors = append(p.Errors, request.Clip(f))
	}
	f := p.Errors[0]
	switch {
	case f.Pointer != "":
		p.Detail = f.Pointer + ": " + f.Detail
	case f.Parameter != "":
		p.Detail = "query parameter " + f.Parameter + ": " + f.Detail
	case f.Header != "":
		p.Detail = "header " + f.Header + ": " + f.Detail
	default:
		p.Detail = f.Detail
	}
	if n := len(faults) - 1; n > 0 {
		p.Detail += " (and " + strconv.Itoa(n) + " more)"
	}
}

// Query reads a query into v, a pointer to a struct; see [request.Decoder].
func Query(r *http.Request, v any) *Problem {
	d := new(request.Decoder)
	d.Query(r, v)
	return Invalid(d.Faults...)
}

// NoQuery refuses a query.
func NoQuery(r *http.Request) *Problem { return Query(r, &struct{}{}) }

const largeBody = 64 << 10

// checking holds the large bodies that are checked now. One processor is left for everything else: bench/memory measures health checks of a
// second, instead of a tenth, while hundreds of such bodies are read at once.
var checking = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// CheckBody is the problem of a body that is not JSON that every reader understands alike; nil for all others. Large bodies wait for their
// turn.
func CheckBody(body []byte) *Problem {
	if len(body) >= largeBody {
		checking <- struct{}{}
		defer func() { <-checking }()
	}
	f := request.Check(body)
	if f == nil {
		return nil
	}
	if f.Pointer == "" {
		f.Detail = "the body is " + f.Detail
	}
	return Invalid(*f)
}

// Move returns the problem with other pointers: those of package run lead into the body of the native wire, and move turns one into
// a place in another body.
func (p *Problem) Move(move func(f *run.Field)) *Problem {
	if p.Code != CodeInvalid && p.Code != CodeTooLarge || len(p.Errors) == 0 || p.Errors[0].Pointer == "" {
		return p
	}
	faults := slices.Clone(p.Errors)
	for i := range faults {
		move(&faults[i])
	}
	moved := *p
	moved.setFaults(faults)
	return &moved
}

// Aborts reports whether the response should be aborted, because no answer fits. Head does so.
func (p *Problem) Aborts() bool { return p.abort }

// Head writes the status and the headers of a problem whose text is of this type. Where no answer fits, it aborts the response.
func (p *Problem) Head(w http.ResponseWriter, media string) {
	if p.abort {
		panic(http.ErrAbortHandler)
	}
	if n, ok := w.(notes); ok {
		reason := p.Reason
		if slices.Contains(refusals, p.Status) {
			reason = cmp.Or(reason, p.Code)
		}
		n.Refused(reason)
	}
	h := w.Header()
	maps.Copy(h, p.Header)
	if p.Retry > 0 {
		h.Set("Retry-After", retryAfter(p.Retry))
	}
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	w.WriteHeader(p.Status)
}

// Write answers with the problem as the native wire has it.
func (p *Problem) Write(w http.ResponseWriter) {
	p.Head(w, "application/problem+json")
	text := json.NewEncoder(w)
	text.SetEscapeHTML(false) // people read it, and it does not become part of a page as it is
	_ = text.Encode(p)        // the client may have gone away
}

// refusals are the statuses of answers that always count as a refusal.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// retryAfter is the header's text: whole seconds, at least one, spread over half as much again so that those who were
// refused together do not come back together.
func retryAfter(d time.Duration) string {
	s := max(1, int((d+time.Second-1)/time.Second))
	return strconv.Itoa(s + rand.IntN(s/2+2))
}

// OfRefusal is the answer to a request that is not let in.
func OfRefusal(r *access.Refusal) *Problem {
	p := NewProblem(r.Code, r.Detail)
	p.Status, p.Retry, p.Reason = r.Status, r.RetryAfter, r.Reason
	if challenge := r.Challenge(); challenge != "" {
		p.Header = http.Header{"Www-Authenticate": {challenge}}
	}
	return p
}

// Problem is the answer to an error of package run or access. If the client disconnected, or the run moved to another replica, the answer
// is a closed connection: the client comes back.
func (s *Server) Problem(ctx context.Context, err error) *Problem {
	e, ok := errors.AsType[*run.Error](err)
	elsewhere, other := errors.AsType[*run.Elsewhere](err)
	refusal, refused := errors.AsType[*access.Refusal](err)
	switch {
	case ok:
	case refused:
		return OfRefusal(refusal)
	case other:
		p := NewProblem(CodeOverloaded, "another server has this run or session, and cannot be reached; retry")
		p.Retry, p.Replica = time.Second, elsewhere.Replica
		return p
	case ctx.Err() != nil, errors.Is(err, run.ErrMoved):
		return &Problem{abort: true}
	default:
		return Internal(ctx, s.Log, "cannot do what a request asks for", "error", err)
	}
	p := NewProblem(e.Code(), e.Detail)
	p.setFaults(e.Fields)
	if e.Kind == run.ErrKeyReused {
		p.Status = http.StatusUnprocessableEntity
		p.Errors = []run.Field{{Header: "Idempotency-Key", Detail: strings.TrimPrefix(e.Detail, "the Idempotency-Key ")}}
	}
	p.Run, p.ID, p.Reason, p.Retry = e.Run, e.ID, e.Limit, e.Retry
	return p
}

// AsError is a problem as an error of package run.
func (p *Problem) AsError() error {
	return &run.Error{Kind: run.KindOf(p.Code), Detail: p.Detail, Fields: p.Errors, Run: p.Run, ID: p.ID, Limit: p.Reason, Retry: p.Retry}
}

// OfFailure returns the problem of a failed run. If a retry may help, clients retry the status, and Retry-After has the
// time that the model's server wants, at least 5 s. Otherwise clients do not retry the status. X-Should-Retry, which
// OpenAI's clients read, says the same.
func OfFailure(cause ling.ErrorData) *Problem {
	p := NewProblem(cause.Code, cause.Message)
	p.ID = cause.ID
	retryable := cause.Retryable || cause.RetryAfter > 0
	if !retryable {
		p.Status = cmp.Or(Statuses[cause.Code].Lasting, p.Status)
	}
	// These are the statuses of our codes after which clients send a request again by themselves.
	retry := retryable && (p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusConflict)
	p.Header = http.Header{"X-Should-Retry": {strconv.FormatBool(retry)}}
	if retry && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		p.Retry = max(5*time.Second, time.Duration(cause.RetryAfter)*time.Second)
	}
	return p
}

// OfEnd returns the problem of a run that ended otherwise than it should; nil for a run that completed or goes on. With a key, the same
// request finds the same run, so a retry would change nothing.
func OfEnd(of *run.Run, o run.Result) *Problem {
	var p *Problem
	switch o.Status {
	case run.StatusFailed:
		p = NewProblem(CodeInternal, "the run has failed")
		if cause, ok := o.Cause(); ok {
			p = OfFailure(cause)
		}
	case run.StatusCanceled:
		p = NewProblem(CodeConflict, "the run was canceled: "+o.Reason)
		p.Code, p.Status = run.StatusCanceled, statusCanceled
		p.Header = http.Header{"X-Should-Retry": {"false"}}
	case run.StatusInterrupted:
		p = NewProblem(CodeDraining, "the run was interrupted, because the server shut down")
		if p.Retry = 2 * time.Second; of.Keyed {
			p.Retry = 0
			p.Header = http.Header{"X-Should-Retry": {"false"}}
			p.Detail += "; retry with another Idempotency-Key"
		}
	default:
		return nil
	}
	p.Run = of.ID
	return p
}

// OfNothing is the problem of a run that ended without having made a document, or with reserved, anything at all; nil for all others.
func OfNothing(of *run.Run, reserved bool) *Problem {
	if !of.Ended() {
		return nil
	}
	<-of.Done() // a moment later
	o, document, beside := of.Result()
	if !IsEmpty(document) || reserved && !IsEmpty(beside) {
		return nil
	}
	return OfEnd(of, o)
}

// statusCanceled is the status of a canceled run: "client closed request", as nginx has it. Clients retry a 409.
const statusCanceled = 499

// IsEmpty reports whether a document holds nothing.
func IsEmpty(document []byte) bool { return len(document) == 0 || string(document) == "{}" }

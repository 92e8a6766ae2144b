package coze

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// codeError is the cause of an error that Coze gave a code for.
type codeError struct {
	code int
	said string // redacted
}

func (e *codeError) Error() string { return e.said }

// codeOf reads the member "code" of an answer; 0 if it is missing.
func codeOf(said []byte) int {
	raw, kind, _, err := jsonparser.Get(said, "code")
	if err != nil || kind != jsonparser.Number && kind != jsonparser.String {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// explain makes the error of an answer that is none: of another status than 200, or of a JSON body with a code.
func (p *provider) explain(e *adapter.Error, r *wire.Refusal) {
	*e = *p.failed(r.Status, codeOf(r.Body), r.Body, r.Header)
	if e.Retryable {
		e.RetryAfter = wire.RetryAfter(r.Header, time.Now())
	}
}

// failed makes the error of an answer in any form.
func (p *provider) failed(status, code int, said []byte, header http.Header) *adapter.Error {
	e := p.failure(code)
	switch {
	case e != nil:
	case status == http.StatusOK && code != 0:
		e = &adapter.Error{Code: adapter.CodeProtocol, Message: p.Name() + " reported the error " + strconv.Itoa(code)}
	case status == http.StatusOK:
		e = p.Failure(0, wire.ReadReport(said))
	default:
		e = p.Failure(status, wire.ReadReport(said))
	}
	if status != http.StatusOK {
		e.Status = status
	}
	var b strings.Builder
	fmt.Fprintf(&b, "status %d", status)
	if code != 0 {
		fmt.Fprintf(&b, ", code %d", code)
	}
	if id := header.Get("X-Tt-Logid"); id != "" {
		id = p.Redact([]byte(id)) // before it is cut: half a key is not known for what it is
		fmt.Fprintf(&b, ", log id %s", strings.ToValidUTF8(id[:min(len(id), 64)], ""))
	}
	b.WriteString(": " + p.Redact(said))
	e.Cause = &codeError{code, b.String()}
	return e
}

// failures are the codes that a chat may fail with (https://www.coze.com/docs/developer_guides/coze_error_codes), with their errors. % is the
// server.
var failures = []struct {
	codes []int
	as    adapter.Error
}{
	{[]int{4000, 4001, 4002, 4003, 4005}, adapter.Error{Message: "% refused the request: the bot may not support a part of it"}},
	{[]int{4004}, adapter.Error{
		Code: adapter.CodeInvalid, ContextLength: true,
		Message: "the conversation has more messages than the bot accepts: shorten the history",
	}},
	{[]int{4006, 4200}, adapter.Error{Message: "% does not know this bot: check the bot's id and that the token belongs to the bot's workspace"}},
	{[]int{4008}, adapter.Error{Code: adapter.CodeRateLimited, Message: "% reports that the bot reached its daily limit"}},
	{[]int{4009, 4020}, adapter.Error{Code: adapter.CodeRateLimited, Retryable: true, Message: "% limits the rate of requests: retry later"}},
	{[]int{4010}, adapter.Error{
		Code: adapter.CodeInvalid, ContextLength: true,
		Message: "the request is too long for the bot's model: shorten the prompt or the history",
	}},
	{[]int{4011, 4019, 4022, 4027, 4028}, adapter.Error{Code: adapter.CodeRateLimited, Message: "% reports that the account has no credit left"}},
	{[]int{4012}, adapter.Error{Message: "% no longer has the bot's model: choose another one for the bot"}},
	{[]int{4013}, adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "the bot's model failed: retry later"}},
	{[]int{4014}, adapter.Error{Message: "the bot cannot answer this"}},
	{[]int{4015}, adapter.Error{Message: "the bot is not published as an API: publish it to the channel API"}},
	{[]int{4016}, adapter.Error{
		Code: adapter.CodeUnavailable, Retryable: true, Message: "% is busy with another chat of this conversation: try again",
	}},
	{[]int{4021}, adapter.Error{Message: "the bot's workflow is not configured"}},
	{[]int{4102}, adapter.Error{Code: adapter.CodeRateLimited, Message: "% has stopped the account's requests for unusual activity"}},
	{[]int{4300, 4301, 4302, 4303, 4304}, adapter.Error{Message: "% refused an image: it may be too large, or of a kind that is not taken"}},
	{[]int{5000}, adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "% failed or is overloaded: retry later"}},
}

// failure makes the error of a code; nil for one that is not known.
func (p *provider) failure(code int) *adapter.Error {
	e := &adapter.Error{Code: adapter.CodeAuth}
	switch code {
	case 4100, 700012006:
		e.Message = "% refused the token: check " + p.KeyName
		if p.Key() == "" {
			e.Message = "% asks for a token: set " + p.KeyName
		}
	case 4101:
		e.Message = "% denies this token access to the bot: check the permissions and the workspace of " + p.KeyName
	case 4105:
		return wire.Filtered(nil)
	default:
		for _, f := range failures {
			if slices.Contains(f.codes, code) {
				*e = f.as
				e.Code = cmp.Or(e.Code, adapter.CodeProtocol)
			}
		}
	}
	if e.Message == "" {
		return nil
	}
	e.Message = strings.Replace(e.Message, "%", p.Name(), 1)
	return e
}

// gone says whether an error means that a chat does not wait for outputs, or not any more.
func gone(err error) bool {
	c, ok := errors.AsType[*codeError](err)
	return ok && slices.Contains([]int{4000, 4001, 4002, 4200, 5000}, c.code) // 5000: Coze has not stored the chat
}

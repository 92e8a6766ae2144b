package coze

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	n, err := strconv.Atoi(strings.Trim(string(wire.ReadObject(said)["code"]), `"`))
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
	cause := fmt.Sprintf("status %d", status)
	if code != 0 {
		cause += fmt.Sprintf(", code %d", code)
	}
	if id := p.Redact([]byte(header.Get("X-Tt-Logid"))); id != "" { // before it is cut: half a key is not known for what it is
		cause += ", log id " + strings.ToValidUTF8(id[:min(len(id), 64)], "")
	}
	e.Cause = &codeError{code, cause + ": " + p.Redact(said)}
	return e
}

// failures are the codes that a chat may fail with (https://www.coze.com/docs/developer_guides/coze_error_codes). In a message, % is the server and KEY the
// variable with the token. The code [adapter.CodeInvalid] says that the messages are too long.
var failures = []struct {
	codes     []int
	code      string
	retryable bool
	message   string
}{
	{[]int{4000, 4001, 4002, 4003, 4005}, adapter.CodeProtocol, false, "% refused the request: the bot may not support a part of it"},
	{[]int{4004}, adapter.CodeInvalid, false, "the conversation has more messages than the bot accepts: shorten the history"},
	{[]int{4006, 4200}, adapter.CodeProtocol, false, "% does not know this bot: check the bot's id and that the token belongs to the bot's workspace"},
	{[]int{4008}, adapter.CodeRateLimited, false, "% reports that the bot reached its daily limit"},
	{[]int{4009, 4020}, adapter.CodeRateLimited, true, "% limits the rate of requests: retry later"},
	{[]int{4010}, adapter.CodeInvalid, false, "the request is too long for the bot's model: shorten the prompt or the history"},
	{[]int{4011, 4019, 4022, 4027, 4028}, adapter.CodeRateLimited, false, "% reports that the account has no credit left"},
	{[]int{4012}, adapter.CodeProtocol, false, "% no longer has the bot's model: choose another one for the bot"},
	{[]int{4013}, adapter.CodeUnavailable, true, "the bot's model failed: retry later"},
	{[]int{4014}, adapter.CodeProtocol, false, "the bot cannot answer this"},
	{[]int{4015}, adapter.CodeProtocol, false, "the bot is not published as an API: publish it to the channel API"},
	{[]int{4016}, adapter.CodeUnavailable, true, "% is busy with another chat of this conversation: try again"},
	{[]int{4021}, adapter.CodeProtocol, false, "the bot's workflow is not configured"},
	{[]int{4100, 700012006}, adapter.CodeAuth, false, "% refused the token: check KEY"},
	{[]int{4101}, adapter.CodeAuth, false, "% denies this token access to the bot: check the permissions and the workspace of KEY"},
	{[]int{4102}, adapter.CodeRateLimited, false, "% has stopped the account's requests for unusual activity"},
	{[]int{4300, 4301, 4302, 4303, 4304}, adapter.CodeProtocol, false, "% refused an image: it may be too large, or of a kind that is not taken"},
	{[]int{5000}, adapter.CodeUnavailable, true, "% failed or is overloaded: retry later"},
}

// failure makes the error of a code; nil for one that is not known.
func (p *provider) failure(code int) *adapter.Error {
	switch {
	case code == 4105:
		return wire.Filtered(nil)
	case code == 4100 && p.Key() == "":
		return &adapter.Error{Code: adapter.CodeAuth, Message: p.Name() + " asks for a token: set " + p.KeyName}
	}
	for _, f := range failures {
		if slices.Contains(f.codes, code) {
			message := strings.NewReplacer("%", p.Name(), "KEY", p.KeyName).Replace(f.message)
			return &adapter.Error{Code: f.code, Retryable: f.retryable, ContextLength: f.code == adapter.CodeInvalid, Message: message}
		}
	}
	return nil
}

// gone says whether an error means that a chat does not wait for outputs, or not any more.
func gone(err error) bool {
	c, ok := errors.AsType[*codeError](err)
	return ok && slices.Contains([]int{4000, 4001, 4002, 4200, 5000}, c.code) // 5000: Coze has not stored the chat
}

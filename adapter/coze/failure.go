package coze

import (
	"errors"
	"fmt"
	"net/http"
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

// codeOf reads the member "code" of what Coze says; 0 where there is none.
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

// refused makes the error of an answer that is none: of another status than 200, or of a JSON body with a code.
func (p *provider) refused(status int, header http.Header, said []byte) *adapter.Error {
	e := p.failed(status, codeOf(said), said, header)
	if e.Retryable {
		e.RetryAfter = wire.RetryAfter(header, time.Now())
	}
	return e
}

// failed makes the error of what Coze says, in whatever form.
func (p *provider) failed(status, code int, said []byte, header http.Header) *adapter.Error {
	e := p.meaning(code)
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

// meaning says what a code means; nil for one that is not in Coze's list of those that a chat may fail with
// (https://www.coze.com/docs/developer_guides/coze_error_codes).
func (p *provider) meaning(code int) *adapter.Error {
	server := p.Name()
	protocol := func(says string) *adapter.Error { return &adapter.Error{Code: adapter.CodeProtocol, Message: says} }
	switch code {
	case 4000, 4001, 4002, 4003, 4005:
		return protocol(server + " refused the request: the bot may not support a part of it")
	case 4004:
		return &adapter.Error{
			Code: adapter.CodeInvalid, ContextLength: true,
			Message: "the conversation has more messages than the bot accepts: shorten the history",
		}
	case 4006, 4200:
		return protocol(server + " does not know this bot: check the bot's id and that the token belongs to the bot's workspace")
	case 4008:
		return &adapter.Error{Code: adapter.CodeRateLimited, Message: server + " reports that the bot reached its daily limit"}
	case 4009, 4020:
		return &adapter.Error{
			Code: adapter.CodeRateLimited, Retryable: true, Message: server + " limits the rate of requests: retry later",
		}
	case 4010:
		return &adapter.Error{
			Code: adapter.CodeInvalid, ContextLength: true,
			Message: "the request is too long for the bot's model: shorten the prompt or the history",
		}
	case 4011, 4019, 4022, 4027, 4028:
		return &adapter.Error{Code: adapter.CodeRateLimited, Message: server + " reports that the account has no credit left"}
	case 4012:
		return protocol(server + " no longer has the bot's model: choose another one for the bot")
	case 4013:
		return &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "the bot's model failed: retry later"}
	case 4014:
		return protocol("the bot cannot answer this")
	case 4015:
		return protocol("the bot is not published as an API: publish it to the channel API")
	case 4016:
		return &adapter.Error{
			Code: adapter.CodeUnavailable, Retryable: true, Message: server + " is busy with another chat of this conversation: try again",
		}
	case 4021:
		return protocol("the bot's workflow is not configured")
	case 4100, 700012006:
		e := &adapter.Error{Code: adapter.CodeAuth, Message: server + " refused the token: check " + p.KeyName}
		if p.Key() == "" {
			e.Message = server + " asks for a token: set " + p.KeyName
		}
		return e
	case 4101:
		return &adapter.Error{
			Code:    adapter.CodeAuth,
			Message: server + " denies this token access to the bot: check the permissions and the workspace of " + p.KeyName,
		}
	case 4102:
		return &adapter.Error{Code: adapter.CodeRateLimited, Message: server + " has stopped the account's requests for unusual activity"}
	case 4105:
		return wire.Filtered(nil)
	case 4300, 4301, 4302, 4303, 4304:
		return protocol(server + " refused an image: it may be too large, or of a kind that is not taken")
	case 5000:
		return &adapter.Error{
			Code: adapter.CodeUnavailable, Retryable: true, Message: server + " failed or is overloaded: retry later",
		}
	}
	return nil
}

// gone says whether an error means that a chat does not wait for outputs, or not any more.
func gone(err error) bool {
	c, ok := errors.AsType[*codeError](err)
	if !ok {
		return false
	}
	switch c.code {
	case 4000, 4001, 4002, 4200, 5000: // 5000 is what Coze says of a chat that it has not kept
		return true
	}
	return false
}

package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// maxWhole is how large an answer in one piece may be, in bytes.
const maxWhole = 16 << 20

// whole yields an answer in one piece, as servers send it that do not stream whatever they are asked for; and the error of one
// that reports it with status 200. White space before it is a heartbeat.
func (a *answer) whole() error {
	p := a.m.p
	body, err := io.ReadAll(io.LimitReader(a.res.Body, maxWhole+1))
	if err != nil {
		return p.Broken(a.ctx, err)
	}
	if len(body) > maxWhole {
		return p.notAnswer("a chat completion", errors.New("larger than allowed"), body)
	}
	d := &a.events
	d.init()
	d.whole = true
	err = d.decode(string(body))
	switch {
	case err == errReported:
		return p.Failed(body)
	case err == nil && !json.Valid(body):
		err = errNotObject
	case err == nil && !d.chosen:
		err = errors.New("no choices")
	}
	if err != nil {
		return p.notAnswer("a chat completion", err, body)
	}
	if d.finish == "" || d.finish == "null" { // so some servers say that it goes on
		return p.Broken(a.ctx, nil)
	}
	if !a.passContent() {
		return errLeft
	}
	a.usage, a.finish = d.usage, finishReason(d.finish)
	return a.end()
}

// notAnswer makes the error of an answer that is not what was expected.
func (p *provider) notAnswer(expected string, err error, body []byte) error {
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: p.Name() + " answered with something that is not " + expected,
		Cause:   fmt.Errorf("%w: %s", err, p.Redact(body)),
	}
}

package openai

import (
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/adapter/wire"
)

// whole yields an answer in one piece, as servers send it that do not stream whatever they are asked for; and the error of one
// that reports it with status 200. White space before it is a heartbeat.
func (a *answer) whole() error {
	body, err := a.Whole()
	if err != nil {
		return err
	}
	p, d := a.p, &a.events
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
		return p.NotAnswer("a chat completion", err, body)
	}
	if d.finish == "" || d.finish == "null" { // so some servers say that it goes on
		return p.Broken(a.Ctx, nil)
	}
	if !a.passContent() || !a.passBeside() {
		return wire.ErrLeft
	}
	a.Usage, a.Finish = d.usage, finishReason(d.finish)
	return a.End()
}

package openai

import (
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/adapter/wire"
)

// whole yields an answer in one piece, as servers send it that never stream; and the error of one
// that reports it with status 200. White space before it is a heartbeat.
func (a *answer) whole(body []byte) error {
	d := &a.events
	d.whole = true
	err := d.decode(body)
	switch {
	case err == errReported:
		a.Usage = d.usage
		return a.Server.Failed(body)
	case err == nil && !json.Valid(body):
		err = errNotObject
	case err == nil && !d.chosen:
		err = errors.New("no choices")
	}
	if err != nil {
		return a.Server.NotAnswer("a chat completion", err, body)
	}
	if d.finish == "" || d.finish == "null" { // so some servers say that it goes on
		return a.Server.Broken(a.Ctx, nil)
	}
	if !a.passContent() || !a.passBeside() {
		return wire.ErrLeft
	}
	a.Usage, a.Finish = d.usage, finishReason(d.finish)
	return nil
}

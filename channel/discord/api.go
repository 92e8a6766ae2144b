package discord

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/channel/platform"
)

// Kinds of refusals.
var (
	badToken    = lasting("the token is invalid; copy a new one from the page Bot of the application")
	needsShards = lasting("the bot is in more servers than one connection may have; remove it from some, because this channel has no shards")
	noIntent    = lasting("the bot may not read messages; turn on \"Message Content Intent\" on the page Bot of the application")
	noChannel   = lasting("the channel or thread does not exist any more")
	noAccess    = lasting("the bot may not do this there; check its permissions View Channel, Send Messages, Send Messages in Threads and Attach Files")
	blocked     = lasting("this person accepts no messages of the bot")
	locked      = lasting("the thread is locked")
	deleted     = &platform.Kind{Text: "the message is deleted"}
	expired     = &platform.Kind{Text: "the interaction is too old"}
	repeated    = &platform.Kind{Text: "the interaction is acknowledged already"}
	noReply     = &platform.Kind{Text: "the bot may not reply to a message there; it needs the permission Read Message History"}

	kindOfCode = map[int]*platform.Kind{
		10003: noChannel, 10008: deleted, 10015: expired, 10062: expired, 40060: repeated, 50001: noAccess, 50007: blocked, 50013: noAccess, 50027: expired,
		50083: locked, 160002: noReply, 160005: locked,
	}
	kindOfStatus = map[int]*platform.Kind{ // a message may have been sent despite a status 503
		http.StatusUnauthorized: badToken, http.StatusForbidden: noAccess, http.StatusServiceUnavailable: platform.Down,
	}
)

func lasting(text string) *platform.Kind {
	return &platform.Kind{Text: text, Effect: platform.Permanent}
}

// readAnswer reads an answer. That of a gateway before the platform, which may also limit calls, is no JSON.
func readAnswer(res *http.Response, text []byte, out any) error {
	if res.StatusCode/100 == 2 {
		if out != nil && json.Unmarshal(text, out) != nil {
			return errors.New("the answer has an unexpected form; check the setting api")
		}
		return nil
	}
	var fault struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(text, &fault)
	kind := cmp.Or(kindOfCode[fault.Code], kindOfStatus[res.StatusCode], platform.KindOfStatus(res.StatusCode))
	r := &platform.Refusal{Kind: kind, Code: fmt.Sprintf("status %d, code %d", res.StatusCode, fault.Code)}
	if r.Kind == platform.RateLimited {
		r.RetryAfter = max(wire.RetryAfter(res.Header, time.Now()), time.Second/2)
	}
	return r
}

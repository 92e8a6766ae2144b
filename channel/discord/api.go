package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
)

const (
	version     = "/v10"
	userAgent   = "DiscordBot (https://github.com/lingserve/lingserve, 1)" // the platform asks for this form
	callTimeout = 30 * time.Second
)

// api calls the REST API. The library's calls are not used: they wait for rate limits where nothing can cancel them, and their errors repeat what was
// sent.
type api struct {
	client *http.Client
	base   string // without a slash at its end
	token  string
	lost   func(error) // is called when the token is invalid
}

// request is one call.
type request struct {
	what         string // is done, for errors: "send a message"
	method, path string
	in, out      any            // JSON; nil is none
	file         *platform.Form // goes with in, which is its field payload_json
	harmless     bool           // repeating it changes nothing
}

// Kinds of refusals.
var (
	badToken    = lasting("the token is invalid; copy a new one from the page Bot of the application")
	needsShards = lasting("the bot is in more servers than one connection may have; remove it from some, because this channel has no shards")
	noIntent    = lasting("the bot may not read messages; turn on \"Message Content Intent\" on the page Bot of the application")
	noChannel   = lasting("the channel or thread does not exist any more")
	noAccess    = lasting("the bot may not do this there; check its permissions View Channel, Send Messages, Send Messages in Threads and Attach Files")
	blocked     = lasting("this person accepts no messages of the bot")
	locked      = lasting("the thread is locked")
	tooMany     = &platform.Kind{Text: "too many calls", Effect: platform.Busy}
	unavailable = &platform.Kind{Text: "the platform is unavailable at the moment", Effect: platform.Unknown}
	deleted     = &platform.Kind{Text: "the message is deleted"}
	expired     = &platform.Kind{Text: "the interaction is too old"}
	repeated    = &platform.Kind{Text: "the interaction is acknowledged already"}
	noReply     = &platform.Kind{Text: "the bot may not reply to a message there; it needs the permission Read Message History"}
	otherwise   = &platform.Kind{Text: "the platform refused the call"}

	kindOfCode = map[int]*platform.Kind{
		10003: noChannel, 10008: deleted, 10015: expired, 10062: expired, 40060: repeated, 50001: noAccess, 50007: blocked, 50013: noAccess, 50027: expired,
		50083: locked, 160002: noReply, 160005: locked,
	}
	kindOfStatus = map[int]*platform.Kind{
		http.StatusUnauthorized: badToken, http.StatusForbidden: noAccess, http.StatusTooManyRequests: tooMany,
	}
)

func lasting(text string) *platform.Kind {
	return &platform.Kind{Text: text, Effect: platform.Permanent}
}

func kindOf(status, code int) *platform.Kind {
	if status >= 500 {
		return cmp.Or(kindOfCode[code], unavailable)
	}
	return cmp.Or(kindOfCode[code], kindOfStatus[status], otherwise)
}

// do makes a call, and repeats it as [platform.Call] does.
func (a *api) do(ctx context.Context, r request) error {
	c := platform.Call{Do: func(ctx context.Context) error { return a.call(ctx, r) }, Harmless: r.harmless}
	return c.Run(ctx)
}

// call makes one attempt.
func (a *api) call(ctx context.Context, r request) error {
	body, contentType := r.encode()
	header := http.Header{"Authorization": {"Bot " + a.token}, "User-Agent": {userAgent}}
	if body != nil { // the platform takes no empty JSON
		header.Set("Content-Type", contentType)
	}
	res, answer, err := platform.Exchange(ctx, a.client, callTimeout, r.method, a.base+version+r.path, header, body)
	switch {
	case err != nil:
	case res.StatusCode/100 != 2:
		err = a.refused(res, answer)
	case r.out != nil && json.Unmarshal(answer, r.out) != nil:
		err = errors.New("the answer has an unexpected form; check the setting api")
	default:
		return nil
	}
	return fmt.Errorf("discord: %s: %w", r.what, err)
}

// encode writes the body of a call: JSON, which is in a form if there is a file.
func (r *request) encode() (body []byte, contentType string) {
	if r.in == nil {
		return nil, ""
	}
	body, _ = json.Marshal(r.in) // structs of the library
	if r.file == nil {
		return body, "application/json"
	}
	form := *r.file
	form.Name, form.Fields = "files[0]", map[string]string{"payload_json": string(body)}
	body, contentType, _ = form.Encode() // into memory
	return body, contentType
}

// refused returns the error of an answer. That of a gateway before the platform, which may also limit calls, is no JSON.
func (a *api) refused(res *http.Response, text []byte) error {
	var fault struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(text, &fault)
	r := &platform.Refusal{Kind: kindOf(res.StatusCode, fault.Code), Code: fmt.Sprintf("status %d, code %d", res.StatusCode, fault.Code)}
	switch r.Kind {
	case tooMany:
		seconds, _ := strconv.ParseFloat(res.Header.Get("Retry-After"), 64)
		r.RetryAfter = max(time.Duration(seconds*float64(time.Second)), time.Second/2)
	case badToken:
		a.lost(fmt.Errorf("discord: %w", r))
	}
	return r
}

package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// refusal is a call that the platform refused. Its text is ours: the platform's may repeat what was sent.
type refusal struct {
	what         string
	status, code int // of HTTP, and of the platform
	retryAfter   time.Duration
	kind         kind
}

func (r *refusal) Error() string {
	return fmt.Sprintf("discord: %s: %s (status %d, code %d)", r.what, r.kind, r.status, r.code)
}

// kind is what a refusal means, in words for the log.
type kind string

const (
	badToken    kind = "the token is invalid; copy a new one from the page Bot of the application"
	tooMany     kind = "too many calls"
	unavailable kind = "the platform is unavailable at the moment"
	noChannel   kind = "the channel or thread does not exist any more"
	noAccess    kind = "the bot may not do this there; check its permissions View Channel, Send Messages, Send Messages in Threads and Attach Files"
	blocked     kind = "this person accepts no messages of the bot"
	locked      kind = "the thread is locked"
	deleted     kind = "the message is deleted"
	expired     kind = "the interaction is too old"
	repeated    kind = "the interaction is acknowledged already"
	noReply     kind = "the bot may not reply to a message there; it needs the permission Read Message History"
	otherwise   kind = "the platform refused the call"
)

// kinds has the meaning of the platform's codes.
var kinds = map[int]kind{
	10003: noChannel, 10008: deleted, 10015: expired, 10062: expired, 40060: repeated, 50001: noAccess, 50007: blocked, 50013: noAccess, 50027: expired,
	50083: locked, 160002: noReply, 160005: locked,
}

func kindOf(status, code int) kind {
	switch k, known := kinds[code]; {
	case known:
		return k
	case status == http.StatusUnauthorized:
		return badToken
	case status == http.StatusForbidden:
		return noAccess
	case status == http.StatusTooManyRequests:
		return tooMany
	case status >= 500:
		return unavailable
	}
	return otherwise
}

// is reports whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(kinds, r.kind)
}

// do makes a call, and repeats it as [platform.Call] does.
func (a *api) do(ctx context.Context, r request) error {
	c := platform.Call{Do: func(ctx context.Context) error { return a.once(ctx, r) }, Judge: judge, Harmless: r.harmless}
	return c.Run(ctx)
}

func judge(err error) platform.Failure {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: r.kind == tooMany, After: r.retryAfter, Refused: r.kind != tooMany && r.kind != unavailable,
		Permanent: is(err, badToken, noChannel, noAccess, blocked, locked),
	}
}

// once makes one attempt.
func (a *api) once(ctx context.Context, r request) error {
	body, contentType, err := r.encode()
	if err != nil {
		return fmt.Errorf("discord: %s: write the call: %w", r.what, err)
	}
	header := http.Header{"Authorization": {"Bot " + a.token}, "User-Agent": {userAgent}}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	res, said, err := platform.Exchange(ctx, a.client, callTimeout, r.method, a.base+version+r.path, header, body)
	switch {
	case err != nil:
		return fmt.Errorf("discord: %s: %w", r.what, err)
	case res.StatusCode/100 != 2:
		return a.refused(r.what, res, said)
	case r.out != nil && json.Unmarshal(said, r.out) != nil:
		return fmt.Errorf("discord: %s: the answer has an unexpected form; check the setting api", r.what)
	}
	return nil
}

func (r *request) encode() (body []byte, contentType string, err error) {
	if r.in == nil {
		return nil, "", nil
	}
	body, err = json.Marshal(r.in)
	if err != nil || r.file == nil {
		return body, "application/json", err
	}
	form := *r.file
	form.Name, form.Fields = "files[0]", map[string]string{"payload_json": string(body)}
	return form.Encode()
}

// refused returns the error of an answer. That of a gateway before the platform, which may also limit calls, is no JSON.
func (a *api) refused(what string, res *http.Response, text []byte) error {
	var said struct {
		Code       int     `json:"code"`
		RetryAfter float64 `json:"retry_after"` // seconds
	}
	_ = json.Unmarshal(text, &said)
	r := &refusal{what: what, status: res.StatusCode, code: said.Code, kind: kindOf(res.StatusCode, said.Code)}
	if said.RetryAfter <= 0 {
		said.RetryAfter, _ = strconv.ParseFloat(res.Header.Get("Retry-After"), 64)
	}
	if r.kind == tooMany {
		r.retryAfter = max(time.Duration(said.RetryAfter*float64(time.Second)), time.Second/2)
	}
	if r.kind == badToken {
		a.lost(r)
	}
	return r
}

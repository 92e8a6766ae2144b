package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	maxAnswer   = 16 << 20 // bytes: a hundred messages are far less
)

// api calls the REST API. The library's calls are not used: they wait for rate limits where nothing can cancel them, and their errors repeat what
// was sent.
type api struct {
	http  *http.Client
	base  string // without a slash at its end
	token string
	lost  func(error) // is called when the token is invalid
}

// request is one call.
type request struct {
	what         string // is done, for errors: "send a message"
	method, path string
	in, out      any            // JSON; nil is none
	file         *platform.Form // goes with in, which is its field payload_json
	harmless     bool           // repeating it changes nothing
}

// Error is a call that the platform refused. Its text is ours: the platform's may repeat what was sent.
type Error struct {
	What       string
	Status     int // of HTTP
	Code       int // of the platform; 0 is none
	RetryAfter time.Duration
	kind       kind
}

func (e *Error) Error() string {
	what := string(e.kind)
	if what == "" {
		what = "the platform refused the call"
	}
	return fmt.Sprintf("discord: %s: %s (status %d, code %d)", e.What, what, e.Status, e.Code)
}

// kind is what a refusal means, in words for the log.
type kind string

const (
	badToken    kind = "the token is invalid; copy a new one from the page Bot of the application"
	tooMany     kind = "too many calls"
	unavailable kind = "the platform is unavailable at the moment"
	noChannel   kind = "the channel or thread does not exist any more"
	noAccess    kind = "the bot may not do this there; it needs the permissions View Channel, Send Messages, Send Messages in Threads, Attach Files and Read Message History"
	blocked     kind = "this person does not accept messages of the bot"
	closed      kind = "the thread is locked or archived"
	deleted     kind = "the message is deleted"
	expired     kind = "the interaction is too old"
	noReply     kind = "the bot may not reply to a message there"
	tooLarge    kind = "the file is too large"
)

// kinds has the meaning of the platform's codes.
var kinds = map[int]kind{
	10003: noChannel, 10008: deleted, 10015: expired, 10062: expired, 40005: tooLarge, 50001: noAccess, 50007: blocked, 50013: noAccess,
	50027: expired, 50083: closed, 160002: noReply, 160005: closed,
}

// permanent are refusals after which nothing can be sent to that place.
var permanent = []kind{badToken, noChannel, noAccess, blocked, closed}

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
	return ""
}

// is reports whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.kind)
}

// do makes a call, and repeats it as [platform.Call] does.
func (a *api) do(ctx context.Context, r request) error {
	c := platform.Call{Do: func(ctx context.Context) error { return a.once(ctx, &r) }, Judge: judge, Harmless: r.harmless}
	return c.Run(ctx)
}

func judge(err error) platform.Failure {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: e.kind == tooMany, After: e.RetryAfter, Permanent: slices.Contains(permanent, e.kind), Refused: e.kind != tooMany && e.kind != unavailable,
	}
}

// once makes one attempt.
func (a *api) once(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return fmt.Errorf("discord: %s: %w", r.what, &platform.Unreached{Err: context.Cause(ctx)})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, contentType, err := r.encode()
	if err != nil {
		return fmt.Errorf("discord: %s: write the call: %w", r.what, err)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, a.base+version+r.path, bytes.NewReader(body))
	if err != nil {
		return errNoAddress
	}
	req.Header.Set("Authorization", "Bot "+a.token)
	req.Header.Set("User-Agent", userAgent)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("discord: %s: %w", r.what, platform.Bare(ctx, err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("discord: %s: read the answer: %w", r.what, platform.Bare(ctx, err))
	case res.StatusCode/100 != 2:
		return a.refused(r.what, res, text)
	case r.out != nil && json.Unmarshal(text, r.out) != nil:
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

// refused returns the error of an answer. A rate limit may also be said by a gateway, whose answer is no JSON.
func (a *api) refused(what string, res *http.Response, text []byte) *Error {
	var said struct {
		Code       int     `json:"code"`
		RetryAfter float64 `json:"retry_after"`
	}
	_ = json.Unmarshal(text, &said)
	e := &Error{What: what, Status: res.StatusCode, Code: said.Code, kind: kindOf(res.StatusCode, said.Code)}
	if e.kind == tooMany {
		if said.RetryAfter <= 0 {
			said.RetryAfter, _ = strconv.ParseFloat(res.Header.Get("Retry-After"), 64)
		}
		e.RetryAfter = max(time.Duration(said.RetryAfter*float64(time.Second)), time.Second/2)
	}
	if e.kind == badToken {
		a.lost(e)
	}
	return e
}

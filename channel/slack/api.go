package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 4 << 20          // bytes
	busyPause   = 30 * time.Second // if the platform is too busy and does not say for how long
)

// client is the HTTP client of the library. Its errors say whether a call was sent, and have nothing of an answer but codes.
type client struct {
	http    *http.Client // that follows no redirects
	base    *url.URL     // of the Web API
	invalid func(error)  // learns that the token is not valid
}

// trusted reports whether the token may be sent to an address: to Slack's hosts by https, and to the host of the setting api.
func (c *client) trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Host == "" {
		return false
	}
	if u.Scheme == c.base.Scheme && strings.EqualFold(u.Host, c.base.Host) {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && (host == "slack.com" || strings.HasSuffix(host, ".slack.com"))
}

// answer is what every answer of the Web API has.
type answer struct {
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Needed string `json:"needed"` // the scope that is missing
}

// Do sends a request of the library: a call of the Web API, or a file.
func (c *client) Do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	method, isCall := strings.CutPrefix(r.URL.Path, c.base.Path+"/")
	if isCall = isCall && r.URL.Host == c.base.Host && r.Method == http.MethodPost && !strings.Contains(method, "/"); !isCall {
		method = map[string]string{http.MethodGet: "load a file", http.MethodPost: "send a file"}[r.Method]
	}
	fail := func(err error) (*http.Response, error) { return nil, fmt.Errorf("slack: %s: %w", method, err) }
	if ctx.Err() != nil {
		return fail(&platform.Unreached{Err: context.Cause(ctx)})
	}
	res, err := c.http.Do(r)
	if err != nil {
		return fail(platform.Bare(ctx, err))
	}
	if !isCall && res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	switch {
	case isCall:
	case res.StatusCode/100 == 3:
		return nil, errPage // to log in
	default:
		return fail(fmt.Errorf("status %d", res.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fail(fmt.Errorf("read the answer: %w", platform.Bare(ctx, err)))
	}
	res.Body = io.NopCloser(bytes.NewReader(text))
	var got answer
	understood := json.Unmarshal(text, &got) == nil
	if !understood || !got.OK {
		return nil, c.refusal(method, res, got, understood)
	}
	return res, nil
}

// refusal is the error of an answer that is no success.
func (c *client) refusal(method string, res *http.Response, got answer, understood bool) error {
	e := &Error{Method: method, Status: res.StatusCode, kind: kinds[got.Error]}
	if isWord(got.Error, "_") {
		e.Code = got.Error
	}
	if e.kind == noScope && isWord(got.Needed, "_:.,-") {
		e.Needed = got.Needed
	}
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		e.kind = tooMany
	case e.kind != "":
	case res.StatusCode >= http.StatusInternalServerError:
		e.kind = down // a gateway's page
	case res.StatusCode/100 == 2 && got.Error == "":
		return fmt.Errorf("slack: %s: %s", method, wrongPlace) // some server has taken the call, and it is not known what it did
	case !understood:
		e.kind = wrongPlace
	}
	if e.kind == tooMany {
		e.RetryAfter = busyPause
		if s, err := strconv.Atoi(strings.TrimSpace(res.Header.Get("Retry-After"))); err == nil && s >= 0 && s < 1<<20 {
			e.RetryAfter = max(time.Duration(s)*time.Second, time.Second)
		}
	}
	if e.kind == badToken {
		c.invalid(e)
	}
	return e
}

// Error is a call that the platform has refused. Its text is ours, and has of the platform's only the code, if it has the form of one.
type Error struct {
	Method     string
	Code       string // "channel_not_found"; "" if it has none
	Status     int    // of HTTP
	Needed     string // the scope that is missing
	RetryAfter time.Duration
	kind       kind
}

func (e *Error) Error() string {
	what := string(e.kind)
	if what == "" {
		what = "the platform refused the call"
	}
	if e.Needed != "" {
		what += " " + e.Needed
	}
	if e.Code != "" {
		return fmt.Sprintf("slack: %s: %s (%s)", e.Method, what, e.Code)
	}
	return fmt.Sprintf("slack: %s: %s (status %d)", e.Method, what, e.Status)
}

// kind is what a refusal means, in words for the log.
type kind string

// The kinds.
const (
	badToken   kind = "the token is no longer valid; install the app again and update the setting token"
	noScope    kind = "the app lacks a scope; add it on the app's page OAuth & Permissions and install the app again:"
	noChannel  kind = "the conversation does not exist, or the app is not in it"
	archived   kind = "the conversation is archived"
	noRights   kind = "the app may not write there"
	noThread   kind = "the thread is deleted or closed"
	gone       kind = "the message is deleted, or cannot be edited"
	tooLong    kind = "the text is too long"
	sameSign   kind = "the reaction is already set, or already removed"
	streaming  kind = "the message is still being streamed"
	ended      kind = "the message is no longer being streamed"
	tooMany    kind = "the platform's rate limit was reached"
	down       kind = "the platform is unavailable at the moment"
	wrongPlace kind = "the answer is not from the Web API; check the setting api"
)

// kinds are those of the platform's codes.
var kinds = map[string]kind{
	"invalid_auth": badToken, "not_authed": badToken, "token_revoked": badToken, "token_expired": badToken, "account_inactive": badToken,

	"missing_scope": noScope, "not_allowed_token_type": noScope,

	"channel_not_found": noChannel, "not_in_channel": noChannel, "user_not_found": noChannel, "is_archived": archived,

	"restricted_action": noRights, "restricted_action_read_only_channel": noRights, "restricted_action_non_threadable_channel": noRights,
	"restricted_action_thread_only_channel": noRights, "no_permission": noRights, "access_denied": noRights, "ekm_access_denied": noRights,
	"messages_tab_disabled": noRights, "cannot_dm_bot": noRights, "team_access_not_granted": noRights, "enterprise_is_restricted": noRights,

	"thread_not_found": noThread, "invalid_thread_ts": noThread, "cannot_reply_to_message": noThread, "restricted_action_thread_locked": noThread,

	"message_not_found": gone, "cant_update_message": gone, "edit_window_closed": gone, "cant_delete_message": gone,

	"msg_too_long": tooLong,

	"already_reacted": sameSign, "no_reaction": sameSign,

	"streaming_state_conflict": streaming, "message_not_in_streaming_state": ended, "stopped_by_user": ended,

	"ratelimited": tooMany, "rate_limited": tooMany, "message_limit_exceeded": tooMany, "accesslimited": tooMany,

	"internal_error": down, "fatal_error": down, "service_unavailable": down, "request_timeout": down, "team_added_to_org": down,
}

// permanent are refusals after which nothing can be sent to that place.
var permanent = []kind{badToken, noScope, noChannel, archived, noRights, noThread}

// is reports whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.kind)
}

// notDone reports whether the platform says that it has not taken the call. Others of its failures may come after a part of the work.
func (e *Error) notDone() bool {
	return e.Code == "service_unavailable" || e.Code == "team_added_to_org" || e.Code == "" && e.Status == http.StatusServiceUnavailable
}

// isWord reports whether a text consists of lower case letters, digits and a few more.
func isWord(s, more string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789"+more) == ""
}

var errAnswer = errors.New("slack: an answer has an unexpected form")

// call makes one attempt of a call.
func (c *Channel) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return ownError(do(ctx), errAnswer)
}

// ownError returns an error of the client, and otherwise in place of one of the library, which may have an address or a part of an answer in it.
func ownError(err, otherwise error) error {
	if err == nil || errors.Is(err, platform.ErrTooLarge) || strings.HasPrefix(err.Error(), "slack: ") {
		return err
	}
	return otherwise
}

// repeat makes a call as [platform.Call] has it. harmless says that repeating changes nothing.
func (c *Channel) repeat(ctx context.Context, harmless bool, do func(context.Context) error) error {
	p := platform.Call{
		Do: func(ctx context.Context) error { return c.call(ctx, do) }, Judge: judge, Harmless: harmless,
		Slow: func(wait time.Duration) { c.noPreviews.extend("", wait) },
	}
	return p.Run(ctx)
}

func judge(err error) platform.Failure {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: e.kind == tooMany, After: e.RetryAfter, Permanent: slices.Contains(permanent, e.kind),
		Refused: e.kind != tooMany && e.kind != down, Untaken: e.notDone(),
	}
}

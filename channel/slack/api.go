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

	"github.com/lingserve/lingserve/channel/attempt"
)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 4 << 20          // bytes
	busyPause   = 30 * time.Second // where the platform is too busy and does not say for how long
)

// api makes calls of the Web API.
type api struct {
	http  *http.Client
	base  string   // without a slash at its end
	at    *url.URL // the same
	token string
	lost  func(error) // is told when the token is not valid; nil
}

// answer is what every answer has.
type answer struct {
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Needed string `json:"needed"` // the scope that is missing
}

// Error is a call that the platform has refused. Its text is ours, and has of the platform's only the code, if it has the form of
// one.
type Error struct {
	Method     string
	Code       string // "channel_not_found"; "" where there is none
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

// The kinds that are told apart.
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

	"ratelimited": tooMany, "rate_limited": tooMany, "message_limit_exceeded": tooMany, "accesslimited": tooMany,

	"internal_error": down, "fatal_error": down, "service_unavailable": down, "request_timeout": down, "team_added_to_org": down,
}

// is says whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.kind)
}

// permanent are refusals after which nothing can be sent to that place.
var permanent = []kind{badToken, noScope, noChannel, archived, noRights, noThread}

// request is a call with what may be done about its failures.
type request struct {
	method   string
	in       any        // written as JSON
	form     url.Values // instead of in, for methods that take no JSON
	out      any        // nil is not read
	harmless bool       // repeating changes nothing: an edit, a question
	slow     func(time.Duration)
}

// call makes one attempt and returns the header of the answer.
func (a *api) call(ctx context.Context, r request) (http.Header, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("slack: %s: %w", r.method, &attempt.Unreached{Err: context.Cause(ctx)})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, kind := []byte(r.form.Encode()), "application/x-www-form-urlencoded"
	if r.in != nil {
		kind = "application/json; charset=utf-8"
		var err error
		if body, err = json.Marshal(r.in); err != nil {
			return nil, fmt.Errorf("slack: %s: write the call: %w", r.method, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/"+r.method, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("slack: api is not an address; expected one such as " + DefaultAPI)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer "+a.token)
	res, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("slack: %s: %w", r.method, attempt.Bare(ctx, err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("slack: %s: read the answer: %w", r.method, attempt.Bare(ctx, err))
	}
	var got answer
	understood := json.Unmarshal(text, &got) == nil
	if !understood || !got.OK {
		return nil, a.refused(r.method, res, got, understood)
	}
	if r.out != nil {
		if err := json.Unmarshal(text, r.out); err != nil {
			return nil, fmt.Errorf("slack: %s: the answer has an unexpected form", r.method)
		}
	}
	return res.Header, nil
}

// refused is the error of an answer that is no success.
func (a *api) refused(method string, res *http.Response, got answer, understood bool) error {
	e := &Error{Method: method, Status: res.StatusCode, kind: kinds[got.Error]}
	if word(got.Error, "_") {
		e.Code = got.Error
	}
	if e.kind == noScope && word(got.Needed, "_:.,-") {
		e.Needed = got.Needed
	}
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		e.kind = tooMany
	case e.kind != "":
	case res.StatusCode >= http.StatusInternalServerError:
		e.kind = down // a gateway's page
	case res.StatusCode/100 == 2 && got.Error == "":
		return fmt.Errorf("slack: %s: %s", method, wrongPlace) // somebody has taken the call, and it is not known what was done
	case !understood:
		e.kind = wrongPlace
	}
	if e.kind == tooMany {
		e.RetryAfter = busyPause
		if s, err := strconv.Atoi(strings.TrimSpace(res.Header.Get("Retry-After"))); err == nil && s >= 0 && s < 1<<20 {
			e.RetryAfter = max(time.Duration(s)*time.Second, time.Second)
		}
	}
	if e.kind == badToken && a.lost != nil {
		a.lost(e)
	}
	return e
}

// untaken reports whether the platform says that it has not taken the call: others of its failures may come after a part of the work.
func (e *Error) untaken() bool {
	return e.Code == "service_unavailable" || e.Code == "team_added_to_org" || e.Code == "" && e.Status == http.StatusServiceUnavailable
}

// word says whether a text is one of lower case letters, digits and a few more.
func word(s, more string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789"+more) == ""
}

// do makes a call as [attempt.Call] has it.
func (a *api) do(ctx context.Context, r request) error {
	c := attempt.Call{
		Do: func(ctx context.Context) error { _, err := a.call(ctx, r); return err }, Judge: judge, Harmless: r.harmless, Slow: r.slow,
	}
	return c.Run(ctx)
}

func judge(err error) attempt.Failure {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return attempt.Failure{}
	}
	return attempt.Failure{
		Busy: e.kind == tooMany, After: e.RetryAfter, Permanent: slices.Contains(permanent, e.kind),
		Refused: e.kind != tooMany && e.kind != down, Untaken: e.untaken(),
	}
}

package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/platform"
)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 4 << 20          // bytes
	busyPause   = 30 * time.Second // if the platform is too busy and does not say for how long
)

// client is the HTTP client of the library.
type client struct{ http *http.Client }

// connectionError is a request without an answer. It has no address in it.
type connectionError struct{ error }

func (e connectionError) Unwrap() error { return e.error }

// Do sends a request of the library: a call of the Web API, or a file.
func (c client) Do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, connectionError{&platform.Unreached{Err: context.Cause(ctx)}}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, connectionError{platform.Bare(ctx, err)}
	}
	if r.Method == http.MethodPost { // the media store bounds files
		res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	}
	return res, nil
}

// refusal is a call that the platform has refused. Its text is ours, and has of the platform's only codes.
type refusal struct {
	kind       kind
	code       string // "channel_not_found"; "" if it has none
	status     int    // of HTTP, if that is not 200
	needed     string // the scope that is missing
	retryAfter time.Duration
}

func (e *refusal) Error() string {
	text := string(e.kind)
	if text == "" {
		text = "the platform refused the call"
	}
	if e.needed != "" {
		text += " " + e.needed
	}
	if e.code != "" {
		return fmt.Sprintf("%s (%s)", text, e.code)
	}
	return fmt.Sprintf("%s (status %d)", text, e.status)
}

// codeForm is the form of codes and scopes.
var codeForm = regexp.MustCompile(`^[a-z0-9_:.,-]{1,64}$`)

var errAnswer = errors.New("the answer has an unexpected form, or the address of a file is not on a Slack host; check the setting api")

// readError returns what an error of the library means. One that may have an address or a part of an answer in it is replaced.
func readError(err error) error {
	_, isRead := errors.AsType[*refusal](err)
	if _, ok := errors.AsType[connectionError](err); ok || isRead || errors.Is(err, platform.ErrTooLarge) {
		return err
	}
	e := new(refusal)
	if refused, ok := errors.AsType[slackgo.SlackErrorResponse](err); ok {
		e.kind = kinds[refused.Err]
		if codeForm.MatchString(refused.Err) {
			e.code = refused.Err
		}
		if e.kind == noScope && codeForm.MatchString(refused.Needed) {
			e.needed = refused.Needed
		}
	} else if busy, ok := errors.AsType[*slackgo.RateLimitedError](err); ok {
		e.kind, e.status, e.retryAfter = tooMany, http.StatusTooManyRequests, max(busy.RetryAfter, time.Second)
	} else if answer, ok := errors.AsType[slackgo.StatusCodeError](err); ok {
		e.kind, e.status = wrongPlace, answer.Code
		if answer.Code >= http.StatusInternalServerError {
			e.kind = down
		} else if answer.Code == http.StatusTooManyRequests {
			e.kind = tooMany
		}
	} else {
		return errAnswer
	}
	if e.kind == tooMany && e.retryAfter == 0 {
		e.retryAfter = busyPause
	}
	return e
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
	e, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(kinds, e.kind)
}

// refused reports whether an error is a refusal that lasts.
func refused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok && !is(err, tooMany, down, badToken)
}

func judge(err error) platform.Failure {
	e, ok := errors.AsType[*refusal](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: e.kind == tooMany, After: e.retryAfter, Permanent: slices.Contains(permanent, e.kind), Refused: e.kind != tooMany && e.kind != down,
		// Other failures may come after a part of the work.
		Untaken: e.code == "service_unavailable" || e.code == "team_added_to_org" || e.status == http.StatusServiceUnavailable,
	}
}

// call makes one attempt of a call. name is part of errors.
func (c *Channel) call(ctx context.Context, name string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := do(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("slack: %s: %w", name, readError(err))
	if is(err, badToken) {
		c.service.Fail(err)
	}
	return err
}

// repeat makes a call as [platform.Call] has it. harmless says that repeating changes nothing.
func (c *Channel) repeat(ctx context.Context, name string, harmless bool, do func(context.Context) error) error {
	p := platform.Call{Do: func(ctx context.Context) error { return c.call(ctx, name, do) }, Judge: judge, Harmless: harmless}
	return p.Run(ctx)
}

// retryRefused is how long the platform is not asked again for what it has refused.
const retryRefused = time.Hour

// wasRefused reports whether the platform has refused something within the last hour, such as "stream C123".
func (c *Channel) wasRefused(what string) bool {
	at, ok := c.refusedAt.Get(what)
	return ok && time.Since(at) < retryRefused
}

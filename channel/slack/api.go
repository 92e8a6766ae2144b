package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
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

// Do sends a request of the library: a call of the Web API, or a request for a file, which the media store bounds.
func (c client) Do(r *http.Request) (*http.Response, error) {
	res, err := c.http.Do(r)
	if err == nil && r.Method == http.MethodPost {
		res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	}
	return res, err
}

// codeForm is the form of codes and scopes.
var codeForm = regexp.MustCompile(`^[a-z0-9_:.,-]{1,64}$`)

var errAnswer = errors.New("the answer has an unexpected form, or the address of a file is not on a Slack host; check the setting api")

// readError returns what an error of the library means. One that may have an address or a part of an answer in it is replaced.
func readError(ctx context.Context, err error) error {
	_, isTransport := errors.AsType[*url.Error](err)
	_, isRead := errors.AsType[*platform.Refusal](err)
	refused, isRefused := errors.AsType[slackgo.SlackErrorResponse](err)
	busy, isBusy := errors.AsType[*slackgo.RateLimitedError](err)
	answer, isAnswer := errors.AsType[slackgo.StatusCodeError](err)
	e := &platform.Refusal{Kind: platform.RateLimited, Code: "status 429", RetryAfter: busyPause}
	switch {
	case isTransport:
		return platform.Bare(ctx, err)
	case isRead || errors.Is(err, platform.ErrTooLarge):
		return err
	case isRefused:
		e.Kind, e.Code = cmp.Or(kinds[refused.Err], platform.Otherwise), codeForm.FindString(refused.Err)
		if e.Kind == noScope {
			e.Code += " " + codeForm.FindString(refused.Needed)
		}
	case isBusy:
		e.RetryAfter = max(busy.RetryAfter, time.Second)
	case isAnswer:
		e.Kind, e.Code = kindOfStatus(answer.Code), fmt.Sprint("status ", answer.Code)
	default:
		return errAnswer
	}
	if e.Kind != platform.RateLimited {
		e.RetryAfter = 0
	}
	return e
}

func kindOfStatus(status int) *platform.Kind {
	kind := platform.KindOfStatus(status)
	switch {
	case status/100 == 3:
		return redirect
	case kind == platform.Otherwise:
		return wrongPlace
	}
	return kind
}

// Kinds of refusals.
var (
	badToken = &platform.Kind{
		Text: "the token is no longer valid; install the app again and update the setting token", Effect: platform.Permanent,
	}
	noScope = &platform.Kind{
		Text: "the app lacks a scope; add it on the app's page OAuth & Permissions and install the app again", Effect: platform.Permanent,
	}
	noWriting = &platform.Kind{
		Text: "the app cannot write there: it is not in the conversation, or that is archived or closed to it", Effect: platform.Permanent,
	}
	gone       = &platform.Kind{Text: "the message is deleted, or cannot be edited"}
	sameSign   = &platform.Kind{Text: "the reaction is already set, or already removed"}
	streaming  = &platform.Kind{Text: "the message is still being streamed"}
	wrongPlace = &platform.Kind{Text: "the answer is not from the Web API; check the setting api"}
	redirect   = &platform.Kind{Text: "the platform sends to a page to log in; if it is asked for a file, add the scope files:read"}
)

// kinds are those of the platform's codes.
var kinds = map[string]*platform.Kind{
	"invalid_auth": badToken, "not_authed": badToken, "token_revoked": badToken, "token_expired": badToken, "account_inactive": badToken,

	"missing_scope": noScope, "not_allowed_token_type": noScope,

	"channel_not_found": noWriting, "not_in_channel": noWriting, "user_not_found": noWriting, "is_archived": noWriting,
	"restricted_action": noWriting, "restricted_action_read_only_channel": noWriting, "restricted_action_non_threadable_channel": noWriting,
	"restricted_action_thread_only_channel": noWriting, "no_permission": noWriting, "access_denied": noWriting, "ekm_access_denied": noWriting,
	"messages_tab_disabled": noWriting, "cannot_dm_bot": noWriting, "team_access_not_granted": noWriting, "enterprise_is_restricted": noWriting,
	"thread_not_found": noWriting, "invalid_thread_ts": noWriting, "cannot_reply_to_message": noWriting, "restricted_action_thread_locked": noWriting,

	"message_not_found": gone, "cant_update_message": gone, "edit_window_closed": gone, "cant_delete_message": gone,

	"already_reacted": sameSign, "no_reaction": sameSign,

	"streaming_state_conflict": streaming,

	"ratelimited": platform.RateLimited, "rate_limited": platform.RateLimited,
	"message_limit_exceeded": platform.RateLimited, "accesslimited": platform.RateLimited,

	"internal_error": platform.Down, "fatal_error": platform.Down, "request_timeout": platform.Down,
	"service_unavailable": platform.NotTaken, "team_added_to_org": platform.NotTaken,
}

// isLasting reports whether an error is a refusal that lasts.
func isLasting(err error) bool {
	r, ok := errors.AsType[*platform.Refusal](err)
	return ok && r.Kind.Effect <= platform.Permanent && r.Kind != badToken
}

// call makes one attempt of a call. name is part of errors.
func (c *Channel) call(ctx context.Context, name string, do func(context.Context) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("slack: %s: %w", name, &platform.Unreached{Err: context.Cause(ctx)})
	}
	err := do(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("slack: %s: %w", name, readError(ctx, err))
	if platform.Is(err, badToken) {
		c.Fail(err)
	}
	return err
}

// repeat makes a call as [platform.Repeat] does. harmless says that repeating changes nothing.
func (c *Channel) repeat(ctx context.Context, name string, harmless bool, do func(context.Context) error) error {
	return platform.Repeat(ctx, harmless, false, func(ctx context.Context) error { return c.call(ctx, name, do) })
}

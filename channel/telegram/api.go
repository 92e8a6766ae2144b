package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel/attempt"
)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second // a call that does not wait for updates
	maxAnswer   = 16 << 20         // bytes: a hundred updates are far less
)

// api makes calls. What comes of them never has the address in it, for the token is a part of that.
type api struct {
	http  *http.Client
	base  string // without a slash at its end
	token string
	lost  func(error) // is told when the token is not valid; nil
}

// answer is the envelope of every answer.
type answer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		MigrateTo  int64 `json:"migrate_to_chat_id"`
		RetryAfter int   `json:"retry_after"`
	} `json:"parameters"`
}

// Error is a call that the Bot API has refused. Its text is ours: what the platform says may repeat what was sent.
type Error struct {
	Method     string
	Code       int // of the answer, as for HTTP
	RetryAfter time.Duration
	MigrateTo  int64 // the supergroup that the group has become
	kind       kind
}

func (e *Error) Error() string {
	what := string(e.kind)
	if what == "" {
		what = "the Bot API refused the call"
	}
	return fmt.Sprintf("telegram: %s: %s (status %d)", e.Method, what, e.Code)
}

// kind is what a refusal means, in words for the log.
type kind string

// The kinds that are told apart.
const (
	badToken     kind = "the token is not valid; take the one that @BotFather shows"
	conflict     kind = "another program reads this bot's updates"
	otherWebhook kind = "this bot has a webhook"
	tooMany      kind = "too many calls"
	noChat       kind = "the chat does not exist, or the bot is not in it"
	blocked      kind = "the bot may not write there: it was blocked, or removed from the chat"
	noRights     kind = "the bot has no right to write there"
	noTopic      kind = "the topic is deleted or closed"
	badMarkup    kind = "the platform refused the markup"
	notModified  kind = "the message is unchanged"
	gone         kind = "the message is deleted"
	tooLong      kind = "the text is too long"
	migrated     kind = "the group has become a supergroup"
	noFile       kind = "the file is deleted or too large"
	down         kind = "the Bot API is unavailable at the moment"
	badWebhook   kind = "the address of the webhook was not accepted"
	tooLate      kind = "the button press is too old to answer"
)

// kinds finds a kind by what a description has in it.
var kinds = []struct {
	part string
	kind kind
}{
	{"can't use getupdates method while webhook is active", otherWebhook},
	{"message is not modified", notModified},
	{"can't parse entities", badMarkup},
	{"message is too long", tooLong},
	{"caption is too long", tooLong},
	{"message_too_long", tooLong},
	{"message to edit not found", gone},
	{"message can't be edited", gone},
	{"message_id_invalid", gone},
	{"message to delete not found", gone},
	{"message thread not found", noTopic},
	{"topic_deleted", noTopic},
	{"topic_closed", noTopic},
	{"topic_id_invalid", noTopic},
	{"chat not found", noChat},
	{"peer_id_invalid", noChat},
	{"group chat was upgraded", migrated},
	{"group chat was deactivated", noChat},
	{"not enough rights", noRights},
	{"have no rights", noRights},
	{"chat_write_forbidden", noRights},
	{"chat_restricted", noRights},
	{"user_is_blocked", blocked},
	{"file is too big", noFile},
	{"wrong file_id", noFile},
	{"invalid file_id", noFile},
	{"file is temporarily unavailable", noFile},
	{"bad webhook", badWebhook},
	{"query is too old", tooLate},
	{"query id is invalid", tooLate},
}

func kindOf(code int, description string) kind {
	description = strings.ToLower(description)
	for _, k := range kinds {
		if strings.Contains(description, k.part) {
			return k.kind
		}
	}
	switch {
	case code == http.StatusUnauthorized, code == http.StatusNotFound && description == "not found":
		return badToken // what is no token at all has no address
	case code == http.StatusForbidden:
		return blocked
	case code == http.StatusConflict:
		return conflict
	case code == http.StatusTooManyRequests:
		return tooMany
	case code >= 500:
		return down
	}
	return ""
}

// is says whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.kind)
}

// call makes one attempt. in is JSON or a form; out may be nil.
func (a *api) call(ctx context.Context, timeout time.Duration, method string, in, out any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("telegram: %s: %w", method, &attempt.Unreached{Err: context.Cause(ctx)})
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, kind, err := encode(in)
	if err != nil {
		return fmt.Errorf("telegram: %s: write the call: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/bot"+a.token+"/"+method, bytes.NewReader(body))
	if err != nil {
		return errors.New("telegram: api is not an address; expected one such as https://api.telegram.org")
	}
	req.Header.Set("Content-Type", kind)
	res, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("telegram: %s: %w", method, attempt.Bare(ctx, err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("telegram: %s: read the answer: %w", method, attempt.Bare(ctx, err))
	}
	var got answer
	if json.Unmarshal(text, &got) != nil {
		if res.StatusCode/100 == 2 {
			return fmt.Errorf("telegram: %s: the answer is not from a Bot API; check the setting api", method)
		}
		got = answer{Code: res.StatusCode} // a gateway's page
	}
	if !got.OK {
		e := &Error{Method: method, Code: got.Code, MigrateTo: got.Parameters.MigrateTo, kind: kindOf(got.Code, got.Description)}
		e.RetryAfter = time.Duration(max(got.Parameters.RetryAfter, 0)) * time.Second
		if e.Code == http.StatusTooManyRequests {
			e.RetryAfter = max(e.RetryAfter, time.Second)
		}
		if e.kind == badToken && a.lost != nil {
			a.lost(e)
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(got.Result, out); err != nil {
		return fmt.Errorf("telegram: %s: the answer has an unexpected form", method)
	}
	return nil
}

// encode writes the parameters of a call.
func encode(in any) (body []byte, kind string, err error) {
	switch in := in.(type) {
	case nil:
		return []byte("{}"), "application/json", nil
	case *attempt.Form:
		return in.Encode()
	default:
		body, err = json.Marshal(in)
		return body, "application/json", err
	}
}

// request is a call with what may be done about its failures.
type request struct {
	method   string
	in, out  any                 // as for call
	harmless bool                // repeating changes nothing: an edit, a question
	slow     func(time.Duration) // is told of each 429; nil
}

// permanent are refusals after which nothing can be sent to that place.
var permanent = []kind{badToken, noChat, blocked, noRights, noTopic}

// do makes a call as [attempt.Call] has it.
func (a *api) do(ctx context.Context, r request) error {
	c := attempt.Call{
		Do: func(ctx context.Context) error { return a.call(ctx, callTimeout, r.method, r.in, r.out) }, Judge: judge, Harmless: r.harmless, Slow: r.slow,
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
		Refused: e.kind != tooMany && e.kind != down, Untaken: e.Code == http.StatusServiceUnavailable, // nobody has taken the call
	}
}

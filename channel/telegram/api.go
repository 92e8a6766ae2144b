package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
)

// callTimeout is that of a call that does not wait for updates.
const callTimeout = 30 * time.Second

// api makes calls. No error of it has the address in it, because the token is a part of that.
type api struct {
	http    *http.Client
	base    string // without a slash at its end
	token   string
	invalid func(error) // is called if the token is invalid
}

// params are the parameters of a call.
type params map[string]any

// request is a call, and what may be done about its failures.
type request struct {
	method   string
	params   params
	file     *platform.Form // that is sent with the parameters; nil
	out      any            // is set to the result; nil
	timeout  time.Duration  // 0: callTimeout
	harmless bool           // repeating changes nothing
	brief    bool           // a newer call comes soon
}

// kind is a kind of refusal.
type kind struct {
	text   string   // for the log
	status int      // of the answer; 0: it says nothing
	parts  []string // of the platform's descriptions
}

var (
	otherWebhook = &kind{"this bot has a webhook", 0, []string{"can't use getupdates method while webhook is active"}}
	notModified  = &kind{"the message is unchanged", 0, []string{"message is not modified"}}
	badMarkup    = &kind{"the platform refused the markup", 0, []string{"can't parse entities"}}
	gone         = &kind{"the message is deleted", 0, []string{"message to edit not found", "message can't be edited", "message_id_invalid"}}
	noTopic      = &kind{"the topic is deleted or closed", 0, []string{"message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid"}}
	noChat       = &kind{"the chat does not exist, or the bot is not in it", 0, []string{"chat not found", "peer_id_invalid", "group chat was deactivated"}}
	noRights     = &kind{"the bot has no right to write there", 0, []string{"not enough rights", "have no rights", "chat_write_forbidden", "chat_restricted"}}
	noFile       = &kind{"the file is deleted or too large", 0, []string{"file is too big", "wrong file_id", "invalid file_id", "file is temporarily unavailable"}}
	badWebhook   = &kind{"the address of the webhook was not accepted", 0, []string{"bad webhook"}}
	tooLate      = &kind{"the button press is too old to answer", 0, []string{"query is too old", "query id is invalid"}}
	badToken     = &kind{"the token is not valid; take the one that @BotFather shows", http.StatusUnauthorized, nil}
	blocked      = &kind{"the bot may not write there: it was blocked, or removed from the chat", http.StatusForbidden, []string{"user_is_blocked"}}
	conflict     = &kind{"another program reads this bot's updates", http.StatusConflict, nil}
	tooMany      = &kind{"too many calls", http.StatusTooManyRequests, nil}
	down         = &kind{"the Bot API is unavailable at the moment", 0, nil} // of all statuses from 500
	other        = &kind{"the Bot API refused the call", 0, nil}

	kinds = []*kind{otherWebhook, notModified, badMarkup, gone, noTopic, noChat, noRights, noFile, badWebhook, tooLate, badToken, blocked, conflict, tooMany}

	// permanent are refusals after which nothing can be sent to the chat any more.
	permanent = []*kind{badToken, noChat, blocked, noRights, noTopic}
)

func kindOf(status int, description string) *kind {
	description = strings.ToLower(description)
	has := func(part string) bool { return strings.Contains(description, part) }
	if i := slices.IndexFunc(kinds, func(k *kind) bool { return slices.ContainsFunc(k.parts, has) }); i >= 0 {
		return kinds[i]
	}
	if i := slices.IndexFunc(kinds, func(k *kind) bool { return k.status == status }); i >= 0 && status != 0 {
		return kinds[i]
	}
	switch {
	case status >= 500:
		return down
	case status == http.StatusNotFound && description == "not found": // a token of another form has no address
		return badToken
	}
	return other
}

// refusal is a call that the Bot API has refused. Its text is ours, because what the platform says may repeat what was sent.
type refusal struct {
	kind       *kind
	status     int // of the answer, as for HTTP
	retryAfter time.Duration
	migrateTo  int64 // the supergroup that the group has become
}

func (e *refusal) Error() string { return fmt.Sprintf("%s (status %d)", e.kind.text, e.status) }

// is reports whether an error is a refusal of one of the kinds.
func is(err error, kinds ...*kind) bool {
	e, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(kinds, e.kind)
}

func judge(err error) platform.Failure {
	e, ok := errors.AsType[*refusal](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: e.kind == tooMany, After: e.retryAfter, Permanent: slices.Contains(permanent, e.kind),
		Refused: e.kind != tooMany && e.kind != down, Untaken: e.status == http.StatusServiceUnavailable,
	}
}

// do makes a call as [platform.Call] has it.
func (a *api) do(ctx context.Context, r request) error {
	c := platform.Call{Do: func(ctx context.Context) error { return a.call(ctx, r) }, Judge: judge, Harmless: r.harmless, Brief: r.brief}
	return c.Run(ctx)
}

// call makes one attempt.
func (a *api) call(ctx context.Context, r request) error {
	err := a.attempt(ctx, &r)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("telegram: %s: %w", r.method, err)
	if is(err, badToken) {
		a.invalid(err)
	}
	return err
}

func (a *api) attempt(ctx context.Context, r *request) error {
	body, contentType, err := r.encode()
	if err != nil {
		return fmt.Errorf("write the call: %w", err)
	}
	address, header := a.base+"/bot"+a.token+"/"+r.method, http.Header{"Content-Type": {contentType}}
	res, text, err := platform.Exchange(ctx, a.http, cmp.Or(r.timeout, callTimeout), http.MethodPost, address, header, body)
	if err != nil {
		return err
	}
	return r.read(res.StatusCode, text)
}

// encode writes the body of a call: JSON, or a form if there is a file.
func (r *request) encode() (body []byte, contentType string, err error) {
	if r.file == nil {
		body, err = json.Marshal(r.params)
		if r.params == nil {
			body = []byte("{}") // the platform takes no null
		}
		return body, "application/json", err
	}
	r.file.Fields = map[string]string{}
	for name, value := range r.params {
		text, _ := json.Marshal(value) // a number, or a struct of the library
		r.file.Fields[name] = string(text)
	}
	return r.file.Encode()
}

// read reads the answer to a call.
func (r *request) read(status int, text []byte) error {
	var got struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			MigrateTo  int64 `json:"migrate_to_chat_id"`
			RetryAfter int   `json:"retry_after"`
		} `json:"parameters"`
	}
	if json.Unmarshal(text, &got) != nil {
		if status/100 == 2 {
			return errors.New("the answer is not from a Bot API; check the setting api")
		}
		got.OK, got.Code = false, status // a gateway's page
	}
	if !got.OK {
		e := &refusal{kindOf(got.Code, got.Description), got.Code, time.Duration(got.Parameters.RetryAfter) * time.Second, got.Parameters.MigrateTo}
		if e.kind == tooMany {
			e.retryAfter = max(e.retryAfter, time.Second)
		}
		return e
	}
	if r.out != nil && json.Unmarshal(got.Result, r.out) != nil {
		return errors.New("the answer has an unexpected form")
	}
	return nil
}

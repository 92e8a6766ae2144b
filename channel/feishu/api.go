package feishu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/channel/platform"
)

// maxRefusal is how many bytes a refusal in place of a file has at most.
const maxRefusal = 4 << 10

// accessToken is the token for calls. The platform returns the same one until it expires in less than half an hour.
type accessToken struct {
	lock  chan struct{} // holds the right to use the fields below; a channel, so that waiting ends with a context
	text  string
	renew time.Time // from then on, another token is requested
}

// Kinds of refusals.
var (
	badApp    = &platform.Kind{Text: "app_id or app_secret is not valid; take both from the app's page Credentials & Basic Info", Effect: platform.Permanent}
	badToken  = &platform.Kind{Text: "the access token is no longer valid", Effect: platform.Permanent}
	noScope   = &platform.Kind{Text: "the app lacks a permission; add it on the app's page Permissions & Scopes and publish a version", Effect: platform.Permanent}
	noBot     = &platform.Kind{Text: "the app has no enabled bot; add the bot ability and publish a version", Effect: platform.Permanent}
	noWriting = &platform.Kind{
		Text: "the conversation or topic does not exist, or the bot is not in it or may not write there", Effect: platform.Permanent,
	}
	deleted     = &platform.Kind{Text: "the message is deleted, or cannot be edited"}
	badCard     = &platform.Kind{Text: "the card was not accepted"}
	censored    = &platform.Kind{Text: "the platform or the organization blocks this content"}
	inProgress  = &platform.Kind{Text: "the message is being sent already", Effect: platform.Unknown}
	wrongServer = &platform.Kind{Text: "the answer is not from the platform; check the setting api"}
)

var kindOfCode = map[int]*platform.Kind{
	10003: badApp, 10014: badApp, 10015: badApp, 99991543: badApp,
	99991661: badToken, 99991663: badToken, 99991664: badToken, 99991668: badToken, 99991671: badToken,
	99991672: noScope, 99991679: noScope, 230027: noScope,
	230006: noBot, 99991662: noBot, 99991673: noBot,
	230002: noWriting, 230034: noWriting, 232009: noWriting, 232011: noWriting, 230013: noWriting, 230053: noWriting, 230018: noWriting, 230035: noWriting,
	230019: noWriting,
	230011: deleted, 230031: deleted, 230050: deleted, 230072: deleted, 230075: deleted, 230110: deleted, 231003: deleted,
	230099: badCard, 230054: badCard,
	230022: censored, 230028: censored,
	99991400: platform.RateLimited, 230020: platform.RateLimited,
	11232: platform.RateLimited, 11233: platform.RateLimited, 11247: platform.RateLimited,
	230049: inProgress,
}

// response is a response of the platform. Each call has some of the fields.
type response struct {
	Code   *int     `json:"code"` // 0: the call was accepted
	Token  string   `json:"tenant_access_token"`
	Expire int64    `json:"expire"` // in seconds
	Bot    identity `json:"bot"`
	Data   struct {
		MessageID  string `json:"message_id"`
		ReactionID string `json:"reaction_id"`
		ImageKey   string `json:"image_key"`
		FileKey    string `json:"file_key"`
		Items      []item `json:"items"`
	} `json:"data"`
}

// item is a message or a reaction in a list.
type item struct {
	Type    string `json:"msg_type"`
	Deleted bool   `json:"deleted"`
	Sender  struct {
		ID   userID `json:"id"`
		Type string `json:"sender_type"`
	} `json:"sender"`
	Body struct {
		Content string `json:"content"`
	} `json:"body"`
	Mentions []mention `json:"mentions"`

	ReactionID string `json:"reaction_id"`
	Operator   struct {
		ID string `json:"operator_id"`
	} `json:"operator"`
}

// callRepeatedly makes a call, and repeats it where that may help and does no harm.
func (c *Channel) callRepeatedly(ctx context.Context, r platform.Request) (got response, err error) {
	err = platform.Repeat(ctx, r.Harmless, r.Brief, func(ctx context.Context) (err error) {
		got, err = c.call(ctx, r)
		return err
	})
	return got, err
}

// call makes one attempt, and a second one if the access token was no longer valid. A file goes to the writer Out.
func (c *Channel) call(ctx context.Context, r platform.Request) (got response, err error) {
	if r.Out == nil {
		r.Out = &got
	}
	for range 2 {
		if r.Token, err = c.readToken(ctx, r.Token); err != nil {
			return got, err
		}
		if err = c.api.Attempt(ctx, r); !platform.Is(err, badToken) {
			return got, err
		}
	}
	return got, err
}

// readToken returns a token that is not the stale one. While it requests one, other calls wait for that.
func (c *Channel) readToken(ctx context.Context, stale string) (string, error) {
	t := &c.token
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return "", fmt.Errorf("feishu: %w", &platform.Unreached{Err: context.Cause(ctx)})
	}
	if t.text != "" && t.text != stale && time.Now().Before(t.renew) {
		return t.text, nil
	}
	var got response
	err := c.api.Attempt(ctx, platform.Request{
		Name: "get an access token", Path: "auth/v3/tenant_access_token/internal", Out: &got,
		In: map[string]string{"app_id": c.s.AppID, "app_secret": string(c.s.AppSecret)},
	})
	_, isRefusal := errors.AsType[*platform.Refusal](err)
	switch {
	case isRefusal && !platform.Is(err, platform.Down):
		return "", err
	case err != nil: // the call that needs the token was not made
		return "", fmt.Errorf("feishu: %w", &platform.Unreached{Err: err})
	}
	life := time.Duration(max(got.Expire, 1)) * time.Second
	t.text, t.renew = got.Token, time.Now().Add(life-min(10*time.Minute, life/4))
	return t.text, nil
}

// readAnswer reads the answer to a call. A writer out takes a file, which may be JSON, too; a refusal in place of a file is short.
func readAnswer(res *http.Response, text []byte, out any) error {
	got, file := new(response), io.Writer(nil)
	switch out := out.(type) {
	case *response:
		got = out
	case io.Writer:
		file = out
	}
	isJSON, code := json.Unmarshal(text, got) == nil && got.Code != nil, 0
	if isJSON {
		code = *got.Code
	}
	isShort := code != 0 && len(text) <= maxRefusal && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
	if file != nil && res.StatusCode == http.StatusOK && !isShort {
		_, err := io.Copy(file, io.MultiReader(bytes.NewReader(text), res.Body))
		return err
	}
	e := &platform.Refusal{Kind: kindOfCode[code], Code: fmt.Sprint("status ", res.StatusCode)}
	if code != 0 {
		e.Code = fmt.Sprint("code ", code)
	}
	accepted := res.StatusCode/100 == 2
	switch {
	case accepted && isJSON && code == 0:
		return nil
	case e.Kind != nil:
	case accepted && !isJSON:
		e.Kind = wrongServer
	case res.StatusCode >= 500: // the platform does not say which of them mean that nothing was done
		e.Kind = platform.Down
	default:
		e.Kind = platform.KindOfStatus(res.StatusCode)
	}
	if e.Kind == platform.RateLimited {
		seconds, _ := strconv.Atoi(res.Header.Get("X-Ogw-Ratelimit-Reset")) // 0 if it is missing
		e.RetryAfter = max(time.Duration(seconds)*time.Second, wire.RetryAfter(res.Header, time.Now()), time.Second)
	}
	return e
}

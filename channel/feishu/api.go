package feishu

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
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 4 << 20 // bytes
)

// api makes calls of the platform's server API.
type api struct {
	http   *http.Client
	base   string // without a slash at its end
	app    string
	secret string
	lost   func(error) // is told when the app's secret is not valid; nil

	one   chan struct{} // held by whoever asks for a token
	mu    sync.Mutex
	token string    // guarded by mu, with its times
	soon  time.Time // from then on, another is asked for
	ends  time.Time
}

// Error is a call that the platform has refused. Its text is ours, with the platform's number: what the platform says may repeat what
// was sent.
type Error struct {
	What       string // the call, in words
	Code       int    // the platform's; 0 where there is none
	Status     int    // of HTTP
	RetryAfter time.Duration
	kind       kind
}

func (e *Error) Error() string {
	what := string(e.kind)
	if what == "" {
		what = "the platform refused the call"
	}
	if e.Code != 0 {
		return fmt.Sprintf("feishu: %s: %s (code %d)", e.What, what, e.Code)
	}
	return fmt.Sprintf("feishu: %s: %s (status %d)", e.What, what, e.Status)
}

// kind is what a refusal means, in words for the log.
type kind string

// The kinds that are told apart.
const (
	badApp     kind = "app_id or app_secret is not valid; take both from the app's page Credentials & Basic Info"
	badToken   kind = "the access token is no longer valid"
	noScope    kind = "the app lacks a permission; add it on the app's page Permissions & Scopes and publish a version"
	noBot      kind = "the app has no enabled bot; add the bot ability and publish a version"
	noChat     kind = "the conversation does not exist, or the bot is not in it"
	blocked    kind = "the bot may not write to this person"
	noRights   kind = "the bot may not write there"
	noTopic    kind = "the topic is deleted"
	gone       kind = "the message is deleted, or cannot be edited"
	tooLong    kind = "the text is too long"
	badCard    kind = "the card was not accepted"
	refused    kind = "the platform or the organization blocks this content"
	tooMany    kind = "the platform's rate limit was reached"
	sending    kind = "the message is being sent already"
	down       kind = "the platform is unavailable at the moment"
	wrongPlace kind = "the answer is not from the platform; check the setting api"
)

// kinds are those of the platform's codes.
var kinds = map[int]kind{
	10003: badApp, 10014: badApp, 10015: badApp, 99991543: badApp,

	99991661: badToken, 99991663: badToken, 99991664: badToken, 99991668: badToken, 99991671: badToken,

	99991672: noScope, 99991679: noScope, 230027: noScope,

	230006: noBot, 99991662: noBot, 99991673: noBot,

	230002: noChat, 230034: noChat, 232009: noChat, 232011: noChat,

	230013: blocked, 230053: blocked,

	230018: noRights, 230035: noRights,

	230019: noTopic,

	230011: gone, 230031: gone, 230050: gone, 230072: gone, 230075: gone, 230110: gone, 231003: gone,

	230025: tooLong,

	230099: badCard, 230054: badCard,

	230022: refused, 230028: refused,

	99991400: tooMany, 230020: tooMany, 11232: tooMany, 11233: tooMany, 11247: tooMany,

	230049: sending,
}

func kindOf(code, status int) kind {
	switch k, ok := kinds[code]; {
	case ok:
		return k
	case status == http.StatusTooManyRequests:
		return tooMany
	case status >= 500:
		return down
	case code == 0 && status/100 == 2:
		return wrongPlace
	}
	return ""
}

// is says whether an error is a refusal of one of the kinds.
func is(err error, kinds ...kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.kind)
}

// permanent are refusals after which nothing can be sent to that place.
var permanent = []kind{badApp, badToken, noScope, noBot, noChat, blocked, noRights, noTopic}

// request is a call with what may be done about its failures.
type request struct {
	what     string // in words
	method   string
	path     string              // below /open-apis/, with its query
	in       any                 // written as JSON, or a *attempt.Form; nil has no body
	out      any                 // the whole answer; nil is not read. An io.Writer takes the answer as it is
	harmless bool                // repeating changes nothing: an edit, a question, what has a uuid
	brief    bool                // what the platform asks to wait for is not waited for
	slow     func(time.Duration) // is told of each call that was one too many; nil
}

// call makes one attempt, and a second one where the token was not valid any more.
func (a *api) call(ctx context.Context, r request) error {
	token, err := a.bearer(ctx, "")
	if err != nil {
		return err
	}
	err = a.send(ctx, r, token)
	if !is(err, badToken) {
		return err
	}
	if token, err = a.bearer(ctx, token); err != nil {
		return err
	}
	return a.send(ctx, r, token)
}

// bearer returns a token that is not the stale one. One of its callers asks for it, the others wait.
func (a *api) bearer(ctx context.Context, stale string) (string, error) {
	known := func() (token string, fresh bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		if a.token == "" || a.token == stale || !now.Before(a.ends) {
			return "", false
		}
		return a.token, now.Before(a.soon)
	}
	if token, fresh := known(); fresh {
		return token, nil
	}
	select {
	case a.one <- struct{}{}:
		defer func() { <-a.one }()
	case <-ctx.Done():
		return "", fmt.Errorf("feishu: %w", &attempt.Unreached{Err: context.Cause(ctx)})
	}
	old, fresh := known()
	if fresh {
		return old, nil
	}
	var got struct {
		Token  string `json:"tenant_access_token"`
		Expire int64  `json:"expire"` // seconds
	}
	err := a.send(ctx, request{
		what: "get an access token", method: http.MethodPost, path: "auth/v3/tenant_access_token/internal",
		in: map[string]string{"app_id": a.app, "app_secret": a.secret}, out: &got,
	}, "")
	if err == nil && got.Token == "" {
		err = &Error{What: "get an access token", Status: http.StatusOK, kind: wrongPlace}
	}
	if err != nil {
		if is(err, badApp) && a.lost != nil {
			a.lost(err)
		}
		if old != "" && !is(err, badApp) {
			return old, nil // it is good for some time yet
		}
		if e, ok := errors.AsType[*Error](err); ok {
			return "", e
		}
		return "", fmt.Errorf("feishu: %w", &attempt.Unreached{Err: err}) // the call that it is for was not made
	}
	now := time.Now()
	life := time.Duration(max(got.Expire, 1)) * time.Second
	a.mu.Lock()
	defer a.mu.Unlock()
	// While more than half an hour is left, the platform gives the same token once more.
	a.token, a.ends, a.soon = got.Token, now.Add(life), now.Add(life-min(10*time.Minute, life/4))
	return a.token, nil
}

// send makes one attempt with a token, "" for none.
func (a *api) send(ctx context.Context, r request, token string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("feishu: %w", &attempt.Unreached{Err: context.Cause(ctx)})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, contentType, err := encode(r.in)
	if err != nil {
		return fmt.Errorf("feishu: %s: write the call: %w", r.what, err)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, a.base+"/open-apis/"+r.path, bytes.NewReader(body))
	if err != nil {
		return errors.New("feishu: api is not an address; expected one such as " + DefaultAPI)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("feishu: %s: %w", r.what, attempt.Bare(ctx, err))
	}
	defer res.Body.Close()
	if w, ok := r.out.(io.Writer); ok && res.StatusCode == http.StatusOK {
		return a.copy(ctx, r, w, res)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("feishu: %s: read the answer: %w", r.what, attempt.Bare(ctx, err))
	}
	code, isAnswer := codeOf(text)
	if !isAnswer && res.StatusCode/100 == 2 {
		return &Error{What: r.what, Status: res.StatusCode, kind: wrongPlace}
	}
	if code != 0 || res.StatusCode/100 != 2 {
		e := &Error{What: r.what, Code: code, Status: res.StatusCode, kind: kindOf(code, res.StatusCode)}
		if e.kind == tooMany {
			e.RetryAfter = reset(res.Header)
		}
		return e
	}
	if r.out == nil {
		return nil
	}
	if err := json.Unmarshal(text, r.out); err != nil {
		return fmt.Errorf("feishu: %s: the answer has an unexpected form", r.what)
	}
	return nil
}

// codeOf is the number that an answer has; ok is false for what is none.
func codeOf(text []byte) (code int, ok bool) {
	var got struct {
		Code *int `json:"code"`
	}
	if json.Unmarshal(text, &got) != nil || got.Code == nil {
		return 0, false
	}
	return *got.Code, true
}

// copy hands a file on. What is short, is JSON and has a code is a refusal, and no file.
func (a *api) copy(ctx context.Context, r request, w io.Writer, res *http.Response) error {
	const refusal = 4 << 10 // bytes
	var head []byte
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		var err error
		if head, err = io.ReadAll(io.LimitReader(res.Body, refusal)); err != nil {
			return fmt.Errorf("feishu: %s: %w", r.what, attempt.Bare(ctx, err))
		}
		if code, ok := codeOf(head); ok && code != 0 {
			return &Error{What: r.what, Code: code, Status: res.StatusCode, kind: kindOf(code, res.StatusCode)}
		}
	}
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(head), res.Body)); err != nil {
		return fmt.Errorf("feishu: %s: %w", r.what, attempt.Bare(ctx, err))
	}
	return nil
}

// reset is for how long the platform wants no more calls: at least a second.
func reset(h http.Header) time.Duration {
	for _, name := range []string{"X-Ogw-Ratelimit-Reset", "Retry-After"} {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n > 0 {
			return time.Duration(min(n, 24*60*60)) * time.Second
		}
	}
	return time.Second
}

// encode writes the body of a call.
func encode(in any) (body []byte, contentType string, err error) {
	switch in := in.(type) {
	case nil:
		return nil, "", nil
	case *attempt.Form:
		return in.Encode()
	default:
		body, err = rawjson.Marshal(in)
		return body, "application/json; charset=utf-8", err
	}
}

// do makes a call as [attempt.Call] has it.
func (a *api) do(ctx context.Context, r request) error {
	c := attempt.Call{
		Do: func(ctx context.Context) error { return a.call(ctx, r) }, Judge: judge, Harmless: r.harmless, Brief: r.brief, Slow: r.slow,
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
		Refused: !slices.Contains([]kind{tooMany, down, sending}, e.kind),
	}
}

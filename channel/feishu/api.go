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
	"time"

	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Bounds of a call.
const (
	callTimeout = 30 * time.Second
	maxResponse = 4 << 20 // bytes, without files
)

// api is a client of the platform's server API.
type api struct {
	http             *http.Client
	base             string // without a slash at its end
	appID, appSecret string
	badCredentials   func(error) // called if the platform rejects the app's id or secret

	lock    chan struct{} // holds the right to use the fields below; a channel, so that waiting ends with a context
	token   string
	renew   time.Time // from then on, another token is requested
	expires time.Time
}

// apiError is a call that the platform refused. It has no text of the platform's, which may repeat what was sent.
type apiError struct {
	call       string // in words
	code       int    // of the platform; 0 is none
	status     int    // of HTTP
	retryAfter time.Duration
	kind       errorKind
}

func (e *apiError) Error() string {
	text := string(e.kind)
	if text == "" {
		text = "the platform refused the call"
	}
	if e.code != 0 {
		return fmt.Sprintf("feishu: %s: %s (code %d)", e.call, text, e.code)
	}
	return fmt.Sprintf("feishu: %s: %s (status %d)", e.call, text, e.status)
}

// errorKind is what a refusal means, in words for the log.
type errorKind string

const (
	badApp      errorKind = "app_id or app_secret is not valid; take both from the app's page Credentials & Basic Info"
	badToken    errorKind = "the access token is no longer valid"
	noScope     errorKind = "the app lacks a permission; add it on the app's page Permissions & Scopes and publish a version"
	noBot       errorKind = "the app has no enabled bot; add the bot ability and publish a version"
	noChat      errorKind = "the conversation does not exist, or the bot is not in it"
	blocked     errorKind = "the bot may not write to this person"
	noRights    errorKind = "the bot may not write there"
	noTopic     errorKind = "the topic is deleted"
	deleted     errorKind = "the message is deleted, or cannot be edited"
	tooLong     errorKind = "the text is too long"
	badCard     errorKind = "the card was not accepted"
	censored    errorKind = "the platform or the organization blocks this content"
	rateLimited errorKind = "the platform's rate limit was reached"
	inProgress  errorKind = "the message is being sent already"
	unavailable errorKind = "the platform is unavailable at the moment"
	wrongServer errorKind = "the answer is not from the platform; check the setting api"
)

// permanent are refusals after which nothing else can be sent to that place either.
var permanent = []errorKind{badApp, badToken, noScope, noBot, noChat, blocked, noRights, noTopic}

var kindOfCode = map[int]errorKind{
	10003: badApp, 10014: badApp, 10015: badApp, 99991543: badApp,
	99991661: badToken, 99991663: badToken, 99991664: badToken, 99991668: badToken, 99991671: badToken,
	99991672: noScope, 99991679: noScope, 230027: noScope,
	230006: noBot, 99991662: noBot, 99991673: noBot,
	230002: noChat, 230034: noChat, 232009: noChat, 232011: noChat,
	230013: blocked, 230053: blocked,
	230018: noRights, 230035: noRights,
	230019: noTopic,
	230011: deleted, 230031: deleted, 230050: deleted, 230072: deleted, 230075: deleted, 230110: deleted, 231003: deleted,
	230025: tooLong,
	230099: badCard, 230054: badCard,
	230022: censored, 230028: censored,
	99991400: rateLimited, 230020: rateLimited, 11232: rateLimited, 11233: rateLimited, 11247: rateLimited,
	230049: inProgress,
}

func newError(call string, code int, res *http.Response) *apiError {
	e := &apiError{call: call, code: code, status: res.StatusCode, kind: kindOfCode[code]}
	switch {
	case e.kind != "":
	case e.status == http.StatusTooManyRequests:
		e.kind = rateLimited
	case e.status >= 500:
		e.kind = unavailable
	}
	if e.kind == rateLimited {
		e.retryAfter = retryAfter(res.Header)
	}
	return e
}

// retryAfter returns how long the platform wants no calls: at least a second.
func retryAfter(h http.Header) time.Duration {
	for _, name := range []string{"X-Ogw-Ratelimit-Reset", "Retry-After"} {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n > 0 {
			return time.Duration(min(n, 24*60*60)) * time.Second
		}
	}
	return time.Second
}

// isKind reports whether an error is a refusal of one of the kinds.
func isKind(err error, kinds ...errorKind) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && slices.Contains(kinds, e.kind)
}

func judge(err error) platform.Failure {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return platform.Failure{}
	}
	return platform.Failure{
		Busy: e.kind == rateLimited, After: e.retryAfter, Permanent: slices.Contains(permanent, e.kind),
		Refused: !slices.Contains([]errorKind{rateLimited, unavailable, inProgress}, e.kind),
	}
}

// request is a call.
type request struct {
	name       string // in words, for errors
	method     string
	path       string // below /open-apis/, with its query
	in         any    // written as JSON, or a *platform.Form; nil: no body
	out        any    // read from JSON, or an io.Writer for a file; nil: not read
	repeatable bool   // repeating the call changes nothing: it edits, reads, or has a uuid
	impatient  bool   // the call fails at once at a rate limit
}

// do makes a call, and repeats it where that may help and does no harm.
func (a *api) do(ctx context.Context, r request) error {
	call := platform.Call{
		Do: func(ctx context.Context) error { return a.call(ctx, r) }, Judge: judge, Harmless: r.repeatable, Brief: r.impatient,
	}
	return call.Run(ctx)
}

// call makes one attempt, and a second one if the access token was no longer valid.
func (a *api) call(ctx context.Context, r request) error {
	token, err := a.accessToken(ctx, "")
	if err != nil {
		return err
	}
	if err = a.send(ctx, r, token); !isKind(err, badToken) {
		return err
	}
	if token, err = a.accessToken(ctx, token); err != nil {
		return err
	}
	return a.send(ctx, r, token)
}

// accessToken returns a token that is not the stale one. While it requests one, other calls wait for that.
func (a *api) accessToken(ctx context.Context, stale string) (string, error) {
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return "", fmt.Errorf("feishu: %w", &platform.Unreached{Err: context.Cause(ctx)})
	}
	usable := a.token != "" && a.token != stale && time.Now().Before(a.expires)
	if usable && time.Now().Before(a.renew) {
		return a.token, nil
	}
	err := a.requestToken(ctx)
	switch e, _ := errors.AsType[*apiError](err); {
	case err == nil:
		return a.token, nil
	case isKind(err, badApp):
		a.badCredentials(err)
		return "", err
	case usable:
		return a.token, nil
	case e != nil && e.kind != unavailable:
		return "", err
	}
	return "", fmt.Errorf("feishu: %w", &platform.Unreached{Err: err}) // the call that needs the token was not made
}

func (a *api) requestToken(ctx context.Context) error {
	var got struct {
		Token  string `json:"tenant_access_token"`
		Expire int64  `json:"expire"` // in seconds
	}
	r := request{
		name: "get an access token", method: http.MethodPost, path: "auth/v3/tenant_access_token/internal",
		in: map[string]string{"app_id": a.appID, "app_secret": a.appSecret}, out: &got,
	}
	if err := a.send(ctx, r, ""); err != nil {
		return err
	}
	if got.Token == "" {
		return &apiError{call: r.name, status: http.StatusOK, kind: wrongServer}
	}
	now, life := time.Now(), time.Duration(max(got.Expire, 1))*time.Second
	// The platform returns the same token again until it expires in less than half an hour.
	a.token, a.expires, a.renew = got.Token, now.Add(life), now.Add(life-min(10*time.Minute, life/4))
	return nil
}

// send makes one attempt with an access token; "" is none.
func (a *api) send(ctx context.Context, r request, token string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("feishu: %w", &platform.Unreached{Err: context.Cause(ctx)})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, contentType, err := encodeBody(r.in)
	if err != nil {
		return fmt.Errorf("feishu: %s: write the call: %w", r.name, err)
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
		return fmt.Errorf("feishu: %s: %w", r.name, platform.Bare(ctx, err))
	}
	defer res.Body.Close()
	if file, ok := r.out.(io.Writer); ok && res.StatusCode == http.StatusOK {
		err = readFile(r.name, res, file)
	} else {
		err = readResponse(r, res)
	}
	if _, refused := errors.AsType[*apiError](err); err != nil && !refused {
		return fmt.Errorf("feishu: %s: %w", r.name, platform.Bare(ctx, err))
	}
	return err
}

func encodeBody(in any) (body []byte, contentType string, err error) {
	switch in := in.(type) {
	case nil:
		return nil, "", nil
	case *platform.Form:
		return in.Encode()
	default:
		body, err = rawjson.Marshal(in)
		return body, "application/json; charset=utf-8", err
	}
}

func readResponse(r request, res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return err
	}
	code, ok := codeOf(text)
	switch {
	case !ok && res.StatusCode/100 == 2:
		return &apiError{call: r.name, status: res.StatusCode, kind: wrongServer}
	case code != 0 || res.StatusCode/100 != 2:
		return newError(r.name, code, res)
	case r.out == nil:
		return nil
	case json.Unmarshal(text, r.out) != nil:
		return errors.New("the answer has an unexpected form")
	}
	return nil
}

// codeOf returns the code of a response; ok is false if it is no response of the platform.
func codeOf(text []byte) (code int, ok bool) {
	var got struct {
		Code *int `json:"code"`
	}
	if json.Unmarshal(text, &got) != nil || got.Code == nil {
		return 0, false
	}
	return *got.Code, true
}

// maxRefusal is the size of the longest JSON that may be a refusal in place of a file.
const maxRefusal = 4 << 10

// readFile copies a file. Short JSON with a code is a refusal, and no file.
func readFile(call string, res *http.Response, file io.Writer) error {
	var head []byte
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		var err error
		if head, err = io.ReadAll(io.LimitReader(res.Body, maxRefusal)); err != nil {
			return err
		}
		if code, ok := codeOf(head); ok && code != 0 {
			return newError(call, code, res)
		}
	}
	_, err := io.Copy(file, io.MultiReader(bytes.NewReader(head), res.Body))
	return err
}

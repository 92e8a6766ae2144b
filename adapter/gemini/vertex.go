package gemini

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// scope is what a token is for.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// tokens gets the access tokens of Google's application default credentials, and keeps one until it expires.
type tokens struct {
	turn    chan struct{} // held by the request that fetches a token
	client  *http.Client
	current atomic.Pointer[oauth2.Token]
}

// last returns the last token, "" where there was none yet.
func (t *tokens) last() string {
	if token := t.current.Load(); token != nil {
		return token.AccessToken
	}
	return ""
}

// expire makes the next request fetch another token, because the server has refused this one.
func (t *tokens) expire() {
	t.current.Store(&oauth2.Token{AccessToken: t.last(), Expiry: time.Unix(1, 0)})
}

// get returns a token. It is fetched under the context of the request that needs it first; requests that come meanwhile wait for it.
func (t *tokens) get(ctx context.Context) (string, error) {
	if token := t.current.Load(); token.Valid() {
		return token.AccessToken, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	if token := t.current.Load(); token.Valid() {
		return token.AccessToken, nil
	}
	way := &within{ctx: ctx, to: t.client.Transport}
	client := &http.Client{Transport: way, CheckRedirect: t.client.CheckRedirect}
	credentials, err := google.FindDefaultCredentials(context.WithValue(ctx, oauth2.HTTPClient, client), scope)
	if err != nil {
		return "", err
	}
	token, err := credentials.TokenSource.Token()
	if err != nil {
		if way.failed != nil {
			err = way.failed
		}
		return "", err
	}
	t.current.Store(token)
	return token.AccessToken, nil
}

// within is a transport whose requests end with a context. The library does not use the context that it is given for all of its requests.
type within struct {
	ctx    context.Context
	to     http.RoundTripper
	failed error // unreachable, of the last request
}

type unreachable struct{ error }

func (w *within) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.to.RoundTrip(r.WithContext(w.ctx))
	if w.failed = nil; err != nil {
		w.failed = unreachable{err}
	}
	return res, err
}

// sign adds the token to a request.
func (p *provider) sign(r *http.Request) error {
	token, err := p.tokens.get(r.Context())
	if err != nil {
		return p.noToken(r.Context(), err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// noToken makes the error of a request for which there is no token.
func (p *provider) noToken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &adapter.Error{Code: adapter.CodeAuth, Cause: adapter.RedactError(err, p.Key())}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		e.Status = answer.Response.StatusCode
	}
	if _, ok := errors.AsType[unreachable](err); ok || e.Status >= 500 || e.Status == http.StatusTooManyRequests {
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = p.Name() + " cannot be asked: Google's server for access tokens does not answer; try again later"
		return e
	}
	e.Message = p.Name() + " cannot be asked: Google's credentials gave no access token; check " + p.KeyName + ", or run: gcloud auth application-default login"
	return e
}

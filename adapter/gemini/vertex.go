package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// scope is what a token is for.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// NewVertex returns a provider for Vertex AI, which is an [adapter.Lister]. Vertex AI takes a key in its express mode; without one it is asked with
// Google's application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's own, or those of a machine in
// Google's cloud. Errors: a BaseURL that is no http(s) URL; no project.
func NewVertex(o Options, at Vertex) (adapter.Provider, error) {
	location := cmp.Or(at.Location, "global")
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "vertex"), cmp.Or(o.BaseURL, vertexURL(location))
	if o.Key == "" {
		o.KeyName = cmp.Or(o.KeyName, "GOOGLE_APPLICATION_CREDENTIALS")
	}
	if o.Key == "" && at.Project == "" {
		return nil, fmt.Errorf("%s: expected the ID of a project in Google's cloud", o.Prefix)
	}
	p, err := providerAt(o, "v1beta1")
	if err != nil {
		return nil, err
	}
	p.catalog = "publishers/google/models/"
	if at.Project != "" {
		p.place = "projects/" + at.Project + "/locations/" + location + "/"
	}
	if o.Key == "" {
		p.tokens = &tokens{turn: make(chan struct{}, 1), client: p.Client}
		p.Key, p.Sign = p.tokens.last, p.sign // the token is a key, so that it is taken out of what is logged
	}
	return p, nil
}

// vertexURL is where Vertex AI answers for a location.
func vertexURL(location string) string {
	host := location + "-aiplatform"
	switch location {
	case "global":
		host = "aiplatform"
	case "us", "eu":
		host = "aiplatform." + location + ".rep"
	}
	return "https://" + host + ".googleapis.com"
}

// tokens gets the access tokens of Google's application default credentials, and keeps one until it expires.
type tokens struct {
	turn    chan struct{} // held by the request that needs a token
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

// sign adds a token to a request. It is fetched under the context of the request that needs it first; requests that come meanwhile wait for it.
func (p *provider) sign(r *http.Request) error {
	t, ctx := p.tokens, r.Context()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !t.current.Load().Valid() {
		token, err := t.fetch(ctx)
		if err != nil {
			return p.noToken(ctx, err)
		}
		t.current.Store(token)
	}
	t.current.Load().SetAuthHeader(r)
	return nil
}

func (t *tokens) fetch(ctx context.Context) (*oauth2.Token, error) {
	way := &within{ctx: ctx, to: t.client.Transport}
	client := &http.Client{Transport: way, CheckRedirect: t.client.CheckRedirect}
	credentials, err := google.FindDefaultCredentials(context.WithValue(ctx, oauth2.HTTPClient, client), scope)
	if err != nil {
		return nil, err
	}
	token, err := credentials.TokenSource.Token()
	if err != nil && way.failed != nil {
		err = way.failed
	}
	return token, err
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

// refused makes the error of an answer with another status than 200.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	e := p.Refused(r)
	if e.Code == adapter.CodeAuth && p.tokens != nil && strings.Contains(e.Message, p.KeyName) {
		e.Message = p.Name() + " refused the credentials: check " + p.KeyName + ", the project, and that its account may use Vertex AI"
	}
	return e
}

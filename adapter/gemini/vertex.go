package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// scope is what a token is for.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// NewVertex returns a provider for Vertex AI, which is an [adapter.Lister]. Vertex AI takes a key in its express mode; without one it is asked
// with Google's application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's own, or those of a machine in
// Google's cloud. Errors: a BaseURL that is no http(s) URL; no project.
func NewVertex(o Options, at Vertex) (adapter.Provider, error) {
	location := cmp.Or(at.Location, "global")
	host := cmp.Or(hosts[location], location+"-aiplatform")
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "vertex"), cmp.Or(o.BaseURL, "https://"+host+".googleapis.com")
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
		p.tokens = new(tokens)
		p.tokens.last.Store(new(oauth2.Token))
		p.Sign, p.Renew, p.Explain = p.sign, p.tokens.expire, p.explain
		p.Key = func() string { return p.tokens.last.Load().AccessToken } // so that it is taken out of what is logged
	}
	return p, nil
}

// hosts are those of locations that are not one region.
var hosts = map[string]string{"global": "aiplatform", "us": "aiplatform.us.rep", "eu": "aiplatform.eu.rep"}

// tokens are the access tokens of Google's application default credentials. One is kept until it expires.
type tokens struct {
	turn sync.Mutex // held by the request that needs a token
	last atomic.Pointer[oauth2.Token]
}

// expire makes the next request fetch another token, because the server has refused this one.
func (t *tokens) expire() {
	t.last.Store(&oauth2.Token{AccessToken: t.last.Load().AccessToken, Expiry: time.Unix(1, 0)})
}

// sign adds a token to a request. It is fetched under the context of the request that needs it first; requests that come meanwhile wait for
// it.
func (p *provider) sign(r *http.Request) error {
	t, ctx := p.tokens, r.Context()
	t.turn.Lock()
	defer t.turn.Unlock()
	if !t.last.Load().Valid() {
		token, err := p.fetch(ctx)
		if err != nil {
			return err
		}
		t.last.Store(token)
	}
	t.last.Load().SetAuthHeader(r)
	return nil
}

// fetch asks Google's server for an access token.
func (p *provider) fetch(ctx context.Context) (token *oauth2.Token, err error) {
	way := &within{ctx: ctx, to: p.Client.Transport}
	client := &http.Client{Transport: way, CheckRedirect: p.Client.CheckRedirect}
	credentials, err := google.FindDefaultCredentials(context.WithValue(ctx, oauth2.HTTPClient, client), scope)
	if err == nil {
		token, err = credentials.TokenSource.Token()
	}
	if err == nil || ctx.Err() != nil {
		return token, context.Cause(ctx)
	}
	e := &adapter.Error{
		Code: adapter.CodeAuth, Cause: adapter.RedactError(err, p.Key()),
		Message: p.Name() + " cannot be used: Google's credentials gave no access token; check " + p.KeyName +
			", or run: gcloud auth application-default login",
	}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		e.Status = answer.Response.StatusCode
	}
	if way.failed || e.Status >= 500 || e.Status == http.StatusTooManyRequests {
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = p.Name() + " cannot be used: Google's token server does not answer; retry later"
	}
	return nil, e
}

// within is a transport whose requests end with a context. The library does not use the context that it is given for all of its requests.
type within struct {
	ctx    context.Context
	to     http.RoundTripper
	failed bool // the last request got no answer
}

func (w *within) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.to.RoundTrip(r.WithContext(w.ctx))
	w.failed = err != nil
	return res, err
}

// explain says what to check where a token is refused.
func (p *provider) explain(e *adapter.Error, _ *wire.Refusal) {
	if e.Code == adapter.CodeAuth && strings.Contains(e.Message, p.KeyName) {
		e.Message = p.Name() + " refused the credentials: check " + p.KeyName + ", the project, and that its account may use Vertex AI"
	}
}

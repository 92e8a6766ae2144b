package gemini

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// account writes the file of a service account whose tokens come from a server of the test, and has the environment name it.
func account(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "a@p.test", "token_uri": "https://token.test/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

// cloud is Google's cloud: a server of tokens, and one of models that takes the newest token.
type cloud struct {
	fetched, asked atomic.Int64
	token          func(r *http.Request) (*http.Response, error) // nil gives the next one
	refuse         int64                                         // the number of a token that is refused
}

func (c *cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, kind, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if r.URL.Host == "token.test" {
		n := c.fetched.Add(1)
		if c.token != nil {
			return c.token(r)
		}
		return answer(200, "application/json", fmt.Sprintf(`{"access_token":"ya29.secret%d","expires_in":3600,"token_type":"Bearer"}`, n))
	}
	c.asked.Add(1)
	said := r.Header.Get("Authorization")
	if n := c.fetched.Load(); said != fmt.Sprintf("Bearer ya29.secret%d", n) || n == c.refuse {
		return answer(401, "application/json", `{"error":{"code":401,"message":"what is `+said+`","status":"UNAUTHENTICATED"}}`)
	}
	return answer(200, "text/event-stream", enough)
}

func atCloud(t *testing.T, c *cloud) adapter.Provider {
	return newVertex(t, Options{Transport: c}, Vertex{Project: "p", Location: "us-central1"})
}

// MO-30: Vertex AI is asked with a token of Google's credentials, which is fetched once and again when it has expired.
func TestATokenIsFetchedOnceAndAgainWhenItHasExpired(t *testing.T) {
	account(t)
	synctest.Test(t, func(t *testing.T) {
		c := new(cloud)
		p := atCloud(t, c)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if text, err := run(t, p, "m", adapter.Request{}); text != "ok" || err != nil {
					t.Errorf("%q %v", text, err)
				}
			})
		}
		wg.Wait()
		if c.fetched.Load() != 1 || c.asked.Load() != 20 {
			t.Errorf("%d tokens for %d requests", c.fetched.Load(), c.asked.Load())
		}
		time.Sleep(time.Hour)
		if _, err := run(t, p, "m", adapter.Request{}); err != nil || c.fetched.Load() != 2 {
			t.Errorf("%d tokens, %v", c.fetched.Load(), err)
		}
	})
}

// A token that is refused is fetched anew, once.
func TestATokenThatWasWithdrawnIsFetchedAnew(t *testing.T) {
	account(t)
	c := &cloud{refuse: 1}
	p := atCloud(t, c)
	if text, err := run(t, p, "m", adapter.Request{}); text != "ok" || err != nil || c.fetched.Load() != 2 {
		t.Errorf("%q %v, %d tokens", text, err, c.fetched.Load())
	}
	c.refuse = 3
	p.(*provider).tokens.expire()
	c.token = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"access_token":"ya29.other","expires_in":3600}`))}, nil
	}
	_, err := run(t, p, "m", adapter.Request{})
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Code != adapter.CodeAuth || !strings.Contains(e.Message, "GOOGLE_APPLICATION_CREDENTIALS") || c.fetched.Load() != 4 {
		t.Errorf("%+v, %d tokens", err, c.fetched.Load())
	}
	if said := fmt.Sprintf("%+v %v %+v", e, e.Cause, p); strings.Contains(said, "ya29.other") { // SE-06
		t.Errorf("a token is in %s", said)
	}
}

// AD-01: a token is fetched under the request's context; when that ends, another request fetches it.
func TestFetchingATokenEndsWithTheRequest(t *testing.T) {
	account(t)
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{token: func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		p := atCloud(t, c)
		m, _ := p.Model("m")
		why := errors.New("the run was canceled")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		began := time.Now()
		for _, err := range m.Stream(ctx, adapter.Request{}) {
			if err != why || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		c.token = nil
		if text, err := run(t, p, "m", adapter.Request{}); text != "ok" || err != nil {
			t.Errorf("%q %v", text, err)
		}
	})
}

// MO-16, SE-06: each failure of the credentials has its code, and no secret in it.
func TestFailuresOfTheCredentials(t *testing.T) {
	account(t)
	said := func(status int, body string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
		}
	}
	for name, row := range map[string]struct {
		token func(*http.Request) (*http.Response, error)
		code  string
		again bool
	}{
		"refused":     {said(400, `{"error":"invalid_grant","error_description":"x"}`), adapter.CodeAuth, false},
		"failed":      {said(503, "<html>"), adapter.CodeUnavailable, true},
		"unreachable": {func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }, adapter.CodeUnavailable, true},
	} {
		_, err := run(t, atCloud(t, &cloud{token: row.token}), "m", adapter.Request{})
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != row.code || e.Retryable != row.again {
			t.Errorf("%s: %+v", name, err)
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	_, err := run(t, atCloud(t, new(cloud)), "m", adapter.Request{})
	if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeAuth || e.Cause == nil {
		t.Errorf("no file: %+v", err)
	}
}

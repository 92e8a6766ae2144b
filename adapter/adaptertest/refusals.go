package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// words are a provider's own: they must not be in what users see.
const words = "PROVIDERS-WORDS"

// testRefusals answers with each status (AD-06, PROTOCOL 5).
func testRefusals(t *testing.T, s Subject) {
	html := "<html><body>" + words + " " + Key + "</body></html>"
	for _, row := range []struct {
		name   string
		answer fakeproviders.Answer
		code   string
		again  bool // worth a retry
		after  time.Duration
	}{
		{"400", fakeproviders.Answer{Status: 400}, adapter.CodeProtocol, false, 0},
		{"401", fakeproviders.Answer{Status: 401}, adapter.CodeAuth, false, 0},
		{"403", fakeproviders.Answer{Status: 403}, adapter.CodeAuth, false, 0},
		{"403 in HTML", page(403, html), adapter.CodeAuth, false, 0},
		{"404", fakeproviders.Answer{Status: 404}, adapter.CodeProtocol, false, 0},
		{"404 in HTML", page(404, html), adapter.CodeProtocol, false, 0},
		{"408", fakeproviders.Answer{Status: 408}, adapter.CodeTimeout, true, 0},
		{"409", fakeproviders.Answer{Status: 409}, adapter.CodeUnavailable, true, 0},
		{"429 (FT-01)", fakeproviders.Answer{Status: 429}, adapter.CodeRateLimited, true, 0},
		{"429 with Retry-After (FT-01)", limited("7"), adapter.CodeRateLimited, true, 7 * time.Second},
		{"500 (FT-02)", fakeproviders.Answer{Status: 500}, adapter.CodeUnavailable, true, 0},
		{"500 in HTML (FT-02)", page(500, html), adapter.CodeUnavailable, true, 0},
		{"502 in HTML (FT-02)", page(502, html+strings.Repeat("x", 1<<20)), adapter.CodeUnavailable, true, 0},
		{"503 with Retry-After (FT-02)", fakeproviders.Answer{Status: 503, Header: http.Header{"Retry-After": {"2"}}}, adapter.CodeUnavailable, true, 2 * time.Second},
		{"504 (FT-02)", fakeproviders.Answer{Status: 504}, adapter.CodeTimeout, true, 0},
		{"418", fakeproviders.Answer{Status: 418}, adapter.CodeProtocol, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: always(row.answer)}
				defer up.Close()
				m := s.bare(t, Options{Transport: up.Transport()})
				got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
				e, ok := errors.AsType[*adapter.Error](got.err)
				if !ok || got.chunks != 0 {
					t.Fatalf("%d chunks, %v", got.chunks, got.err)
				}
				if e.Code != row.code || e.Retryable != row.again || e.RetryAfter != row.after || e.Status != row.answer.Status {
					t.Errorf("%+v", e)
				}
				if up.Requests() != 1 {
					t.Errorf("asked %d times: to ask again is for package adapter", up.Requests())
				}
				if status := row.answer.Status; (status == 401 || status == 403) && !strings.Contains(e.Message, s.KeyName) {
					t.Errorf("it does not say what to check: %q", e.Message)
				}
				if len(e.Cause.Error()) > 3<<10 {
					t.Errorf("a cause of %d bytes", len(e.Cause.Error()))
				}
			})
		})
	}
	t.Run("no key at all", func(t *testing.T) {
		if s.KeyName == "" {
			t.Skip("it has none")
		}
		synctest.Test(t, func(t *testing.T) {
			up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Status: 401})}
			defer up.Close()
			p := s.New(t, Options{BaseURL: "http://" + host, Transport: up.Transport()})
			m, err := p.Model(s.Model)
			if err != nil {
				t.Fatal(err)
			}
			got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
			if got.err == nil || !strings.Contains(got.err.Error(), "set "+s.KeyName) {
				t.Errorf("%v", got.err)
			}
		})
	})
}

func page(status int, html string) fakeproviders.Answer {
	return fakeproviders.Answer{Status: status, Body: html, Header: http.Header{"Content-Type": {"text/html"}}}
}

// testWords has providers say what they should not, in every form and place. What is looked for is in checkError.
func testWords(t *testing.T, s Subject) {
	bad := words + " Bearer " + Key + " https://user:" + Key + "@" + host + "/?api_key=" + Key
	for _, body := range []string{
		bad,
		fmt.Sprintf(`{"error":{"message":%q,"type":%[1]q,"code":%[1]q,"param":%[1]q}}`, bad),
		fmt.Sprintf(`{"error":%q}`, bad),
		fmt.Sprintf(`{"code":4000,"msg":%q,"detail":{"logid":%[1]q}}`, bad),
		fmt.Sprintf(`[{"error":{"status":500,"message":%q}}]`, bad),
		fmt.Sprintf(`{"object":"error","message":%q}`, bad),
		fmt.Sprintf("event: error\ndata: {\"code\":4000,\"msg\":%q}\n\n", bad),
		fmt.Sprintf("data: {\"error\":{\"message\":%q}}\n\n", bad),
		fmt.Sprintf("{\"error\":%q}\n", bad),
		"<html>" + bad,
	} {
		for _, status := range []int{200, 400, 401, 404, 500} {
			for _, kind := range []string{s.Wire.ContentType, "application/json", "text/html", bad} {
				synctest.Test(t, func(t *testing.T) {
					a := fakeproviders.Answer{Status: status, Body: body, Header: http.Header{"Content-Type": {kind}}}
					if status == 200 {
						a.Raw = []fakeproviders.Raw{{Bytes: body}}
					}
					up := &fakeproviders.Server{Script: always(a)}
					defer up.Close()
					m := s.bare(t, Options{Transport: up.Transport()})
					if got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil); got.err == nil {
						t.Errorf("no error: status %d, %s, %s", status, kind, body)
					}
				})
			}
		}
	}
}

// testKeys has servers echo a key that looks like nothing, in every place.
func testKeys(t *testing.T, s Subject) {
	key := "Plain" + strings.Repeat("aZ09", 25)
	for _, status := range []int{200, 400, 401, 500} {
		for name, a := range map[string]fakeproviders.Answer{
			"the type of the content": {Header: http.Header{"Content-Type": {"text/" + key}}, Body: "oops"},
			"a header":                {Header: http.Header{"X-Tt-Logid": {key}, "X-Request-Id": {key}, "Retry-After": {key}}, Body: `{"code":4000,"msg":"oops"}`},
			"JSON":                    {Body: fmt.Sprintf(`{"code":4000,"error":{"message":%q,"code":%[1]q},"msg":%[1]q}`, key)},
			"an event":                {Header: http.Header{"Content-Type": {s.Wire.ContentType}}, Body: s.Wire.Open + s.Wire.Text("a") + strings.Replace(s.Wire.Text("a"), "{", key, 1)},
		} {
			synctest.Test(t, func(t *testing.T) {
				if a.Status = status; status == 200 {
					a.Raw = []fakeproviders.Raw{{Bytes: a.Body}}
				}
				up := &fakeproviders.Server{Script: always(a)}
				defer up.Close()
				m := s.bare(t, Options{Key: key, Transport: up.Transport()})
				got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
				e, ok := errors.AsType[*adapter.Error](got.err)
				if !ok {
					t.Fatalf("%s, status %d: %v", name, status, got.err)
				}
				if said := fmt.Sprintf("%+v %v", e, e.Cause); strings.Contains(strings.ToLower(said), strings.ToLower(key[:20])) {
					t.Errorf("%s, status %d: the key is in %s", name, status, said)
				}
			})
		}
	}
}

// testPrinting prints a provider and its model in every way.
func testPrinting(t *testing.T, s Subject) {
	p := s.New(t, Options{BaseURL: "http://" + host, Key: Key})
	m, err := p.Model(s.Model)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{p, m} {
		if said := fmt.Sprintf("%v %+v %#v %s %q", v, v, v, v, v); strings.Contains(said, "CANARY") {
			t.Errorf("the key is in %s", said)
		}
	}
}

// testList asks for the models of a server that can say which it has.
func testList(t *testing.T, s Subject) {
	if _, ok := s.New(t, Options{BaseURL: "http://" + host, Key: Key}).(adapter.Lister); !ok {
		t.Skip("the provider has no list")
	}
	list := func(t *testing.T, transport http.RoundTripper) ([]string, error) {
		return s.New(t, Options{BaseURL: "http://" + host, Key: Key, Transport: transport}).(adapter.Lister).List(t.Context())
	}
	t.Run("names the models", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			up := &fakeproviders.Server{Models: []string{"small", "llama3:8b", "large"}}
			defer up.Close()
			names, err := list(t, up.Transport())
			if slices.Sort(names); err != nil || strings.Join(names, " ") != "large llama3:8b small" {
				t.Errorf("%q %v", names, err)
			}
		})
	})
	t.Run("ends with its context", func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := s.New(t, Options{BaseURL: "http://" + host, Key: Key, Transport: trip(func(r *http.Request) (*http.Response, error) {
			cancel(why)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if _, err := p.(adapter.Lister).List(ctx); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
	bad := `{"error":{"message":"` + words + " " + Key + `"}}`
	for _, row := range []struct {
		name   string
		status int
		body   string
		code   string
	}{
		{"a wrong key", 401, bad, adapter.CodeAuth},
		{"too often", 429, bad, adapter.CodeRateLimited},
		{"a server that fails", 500, "<html>" + bad, adapter.CodeUnavailable},
		{"an address of something else", 404, "<html>" + bad, adapter.CodeProtocol},
		{"HTML", 200, "<html>" + bad, adapter.CodeProtocol},
		{"nothing", 200, "", adapter.CodeProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			body := &closer{Reader: strings.NewReader(row.body)}
			_, err := list(t, trip(func(*http.Request) (*http.Response, error) {
				res := response(row.status, "application/json", nil)
				res.Body = body
				return res, nil
			}))
			if !body.closed {
				t.Error("the body was not closed")
			}
			if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != row.code {
				t.Fatalf("%v", err)
			}
			checkError(t, t.Context(), err)
		})
	}
	t.Run("a list of 100 MiB", func(t *testing.T) {
		bounded(t, 80, func() { // doubling up to 8 MiB, and what is made of them
			_, err := list(t, trip(func(*http.Request) (*http.Response, error) {
				return response(200, "application/json", io.MultiReader(strings.NewReader(`{"`), endless("x", 100<<20))), nil
			}))
			if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeProtocol {
				t.Errorf("%v", err)
			}
		})
	})
}

// closer notes that it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

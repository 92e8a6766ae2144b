package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
)

const page = "https://app.example.com"

func cors(t testing.TB, origins ...string) *access.CORS {
	t.Helper()
	c, err := access.NewCORS(origins)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asked makes a request of a page.
func asked(method, origin string, more ...string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost/v1/runs", nil)
	if origin != "" {
		r.Header["Origin"] = []string{origin}
	}
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	return r
}

// SE-11: an origin is the one that is listed or none.
func TestOnlyListedOriginsSeeAnswers(t *testing.T) {
	c := cors(t, page, "http://localhost:5173", "capacitor://localhost", "https://[2001:db8::1]:8443")
	for origin, want := range map[string]bool{
		page: true, "http://localhost:5173": true, "capacitor://localhost": true, "https://[2001:db8::1]:8443": true,
		"null": false, "*": false, "http://app.example.com": false, "https://app.example.com:443": false, "https://app.example.com:8443": false,
		"https://app.example.com/": false, "https://app.example.com.evil.test": false, "https://evilapp.example.com": false, "https://x.app.example.com": false,
		"https://example.com": false, "https://APP.example.com": false, "https://app.example.com ": false, "https://app.example.com, https://evil.test": false,
		"https://app.example.com\x00": false, "https://user@app.example.com": false, "http://localhost": false, "http://localhost:51730": false, "https://evil.test": false,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			w := httptest.NewRecorder()
			h := w.Header()
			r := asked(method, origin)
			if method == http.MethodOptions {
				r.Header.Set("Access-Control-Request-Method", "POST")
			}
			preflight, err := c.Apply(w, r)
			if preflight != (method == http.MethodOptions) || (err == nil) != (want || !preflight) || err != nil && !errors.Is(err, access.ErrOrigin) {
				t.Errorf("%s %q: %v %v", method, origin, preflight, err)
			}
			allowed := h.Get("Access-Control-Allow-Origin")
			if want && allowed != origin || !want && (allowed != "" || h.Get("Access-Control-Expose-Headers") != "" || h.Get("Access-Control-Allow-Methods") != "") {
				t.Errorf("%s %q: %v", method, origin, h)
			}
			if h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s %q: cookies count", method, origin)
			}
		}
		if c.Allows(origin) != want {
			t.Errorf("%q: %v", origin, !want)
		}
	}
}

func TestAnAnswerToAListedOrigin(t *testing.T) {
	c := cors(t, page)
	for name, tc := range map[string]struct {
		r    *http.Request
		want http.Header
	}{
		"without an origin": {asked("GET", ""), http.Header{"Vary": {"Accept", "Origin"}}},
		"a request": {asked("POST", page), http.Header{
			"Vary":                          {"Accept", "Origin"},
			"Access-Control-Allow-Origin":   {page},
			"Access-Control-Expose-Headers": {"X-Run-Id, Location, Retry-After, Idempotency-Replayed, X-Follow-Up-Id, X-Keepalive, Www-Authenticate"},
		}},
		"a preflight": {asked("OPTIONS", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,last-event-id"), http.Header{
			"Vary":                         {"Accept", "Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"},
			"Access-Control-Allow-Origin":  {page},
			"Access-Control-Allow-Methods": {"POST"},
			"Access-Control-Allow-Headers": {"Authorization, Last-Event-Id"},
			"Access-Control-Max-Age":       {"600"},
		}},
		// DH-01: official clients send headers of their own.
		"a preflight of OpenAI's client": {asked("OPTIONS", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"authorization,content-type,user-agent,x-stainless-arch,x-stainless-retry-count,openai-organization"), http.Header{
			"Vary":                         {"Accept", "Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"},
			"Access-Control-Allow-Origin":  {page},
			"Access-Control-Allow-Methods": {"POST"},
			"Access-Control-Allow-Headers": {"Authorization, Content-Type, User-Agent, X-Stainless-Arch, X-Stainless-Retry-Count, Openai-Organization"},
			"Access-Control-Max-Age":       {"600"},
		}},
		"a preflight for a method that is not allowed": {asked("OPTIONS", page, "Access-Control-Request-Method", "PUT"), http.Header{
			"Vary": {"Accept", "Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"},
		}},
		"OPTIONS that is no question": {asked("OPTIONS", page), http.Header{
			"Vary":                          {"Accept", "Origin"},
			"Access-Control-Allow-Origin":   {page},
			"Access-Control-Expose-Headers": {"X-Run-Id, Location, Retry-After, Idempotency-Replayed, X-Follow-Up-Id, X-Keepalive, Www-Authenticate"},
		}},
		"two origins": {func() *http.Request {
			r := asked("GET", page)
			r.Header["Origin"] = []string{page, page}
			return r
		}(), http.Header{"Vary": {"Accept", "Origin"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set("Vary", "Accept")
			if _, err := c.Apply(w, tc.r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.Header()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithoutOriginsNothingIsSaid(t *testing.T) {
	c, err := access.NewCORS(nil)
	if c != nil || err != nil {
		t.Fatal(c, err)
	}
	w := httptest.NewRecorder()
	if preflight, err := c.Apply(w, asked("OPTIONS", page, "Access-Control-Request-Method", "POST")); preflight || err != nil || len(w.Header()) != 0 || c.Allows(page) {
		t.Error(preflight, err, w.Header())
	}
	if err := c.Trust(http.NewCrossOriginProtection()); err != nil {
		t.Error(err)
	}
}

// SE-11: what other sites may change, and what they may see, is one list.
func TestListedOriginsPassTheProtectionAgainstOtherSites(t *testing.T) {
	guard := http.NewCrossOriginProtection()
	c := cors(t, page, "http://localhost:5173", "capacitor://localhost")
	if err := c.Trust(guard); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{page: true, "http://localhost:5173": true, "capacitor://localhost": true, "https://evil.test": false, "null": false, "https://app.example.com.evil.test": false} {
		r := asked("POST", origin, "Sec-Fetch-Site", "cross-site")
		if err := guard.Check(r); (err == nil) != want {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

func TestOriginsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, origin := range []string{
		"*", "https://*.example.com", "null", "", "app.example.com", "//app.example.com", "https:app", "https://u@app.example.com",
		"https://app.example.com/", "https://app.example.com/a", "https://app.example.com?", "https://app.example.com#", "https://App.example.com",
		"https://app.example.com:443", "http://app.example.com:80", "https://app.example.com:", "https://bücher.example", "https://app.example.com\nx: y",
	} {
		_, err := access.NewCORS([]string{origin})
		if want := fmt.Sprintf("%q is not a valid origin; expected one such as https://app.example.com, ", origin); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

package access_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
)

// guard is how the parts stand around a handler, in the order that counts.
type guard struct {
	hosts    *access.Hosts
	cors     *access.CORS
	others   *http.CrossOriginProtection
	proxies  access.Proxies
	failures *access.Limits // of addresses that show wrong keys
	limits   *access.Limits // of principals
	door     *access.Door
	next     http.Handler
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.let(w, r); err != nil {
		refusal, ok := errors.AsType[*access.Refusal](err)
		if !ok { // the client disconnected
			panic(http.ErrAbortHandler)
		}
		if challenge := refusal.Challenge(); challenge != "" {
			w.Header().Set("WWW-Authenticate", challenge)
		}
		if refusal.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int((refusal.RetryAfter+time.Second-1)/time.Second)))
		}
		http.Error(w, refusal.Code+": "+refusal.Detail, refusal.Status)
	}
}

func (g *guard) let(w http.ResponseWriter, r *http.Request) error {
	if err := g.hosts.Check(r); err != nil {
		return err
	}
	if preflight, err := g.cors.Apply(w, r); preflight {
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	if g.others.Check(r) != nil {
		return access.ErrOrigin
	}
	visitor, err := g.door.Enter(r)
	if err != nil {
		if d := g.failures.Request(access.Caller(g.proxies.Client(r))); !d.OK() {
			return d.Err()
		}
		return err
	}
	if d := g.limits.Request(visitor.Name); !d.OK() {
		return d.Err()
	}
	r = access.WithoutTicket(r)
	g.next.ServeHTTP(w, r.WithContext(access.With(r.Context(), visitor.Principal)))
	return nil
}

func newGuard(t testing.TB, door *access.Door) *guard {
	g := &guard{
		hosts: hosts(t, "chat.example.com"), cors: cors(t, page), others: http.NewCrossOriginProtection(), proxies: proxies(t, "10.0.0.0/8"),
		failures: access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 10, Burst: 3}}),
		limits:   access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 60, Burst: 20}}),
		door:     door,
	}
	if err := g.cors.Trust(g.others); err != nil {
		t.Fatal(err)
	}
	g.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := access.From(r.Context())
		if r.URL.Path == "/v1/tickets" {
			text, expires, err := door.Tickets.Issue(r.Context(), who, http.MethodGet, r.FormValue("path"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			json.NewEncoder(w).Encode(map[string]any{"ticket": text, "expires": expires})
			return
		}
		fmt.Fprintf(w, "%s at %s", who.Name, r.URL)
	})
	return g
}

func TestThePartsWorkTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // limits count the time
		key, text := access.NewKey(ann, time.Time{})
		door := &access.Door{Keys: newKeys(t, access.KeysOptions{Entries: []string{key.Entry()}}), Tickets: newTickets(t, access.TicketsOptions{})}
		g := newGuard(t, door)
		do := func(method, target string, headers ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "http://chat.example.com"+target, nil)
			for i := 0; i < len(headers); i += 2 {
				if headers[i] == "Host" {
					r.Host = headers[i+1]
				} else {
					r.Header.Set(headers[i], headers[i+1])
				}
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			return w
		}
		expect := func(w *httptest.ResponseRecorder, status int, body string) {
			t.Helper()
			if w.Code != status || !strings.Contains(w.Body.String(), body) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, status, body)
			}
		}
		bearer := "Bearer " + text

		expect(do("GET", "/v1/workflows", "Authorization", bearer), 200, "ann at")
		expect(do("GET", "/v1/workflows", "Authorization", bearer, "Host", "evil.test"), 403, "forbidden")

		// A page of a listed site asks first, without a key, and then sends one.
		w := do("OPTIONS", "/v1/runs", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		expect(w, 204, "")
		if w.Header().Get("Access-Control-Allow-Origin") != page {
			t.Error(w.Header())
		}
		w = do("POST", "/v1/runs", "Origin", page, "Sec-Fetch-Site", "cross-site", "Authorization", bearer)
		expect(w, 200, "ann at")
		if w.Header().Get("Access-Control-Allow-Origin") != page {
			t.Error(w.Header())
		}
		// It also sees why it was refused.
		w = do("POST", "/v1/runs", "Origin", page, "Sec-Fetch-Site", "cross-site")
		expect(w, 401, "unauthorized")
		if w.Header().Get("Access-Control-Allow-Origin") != page || w.Header().Get("WWW-Authenticate") == "" {
			t.Error(w.Header())
		}
		// A page of another site does not get through with a key that it has got hold of, nor learns of it.
		expect(do("OPTIONS", "/v1/runs", "Origin", "https://evil.test", "Access-Control-Request-Method", "POST"), 403, "forbidden")
		expect(do("POST", "/v1/runs", "Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site", "Authorization", bearer), 403, "forbidden")

		// SE-10: an EventSource with a ticket, which is used up and not passed on.
		w = do("POST", "/v1/tickets?path=/v1/runs/r1/events", "Authorization", bearer)
		var ticket struct{ Ticket string }
		must(json.Unmarshal(w.Body.Bytes(), &ticket))
		expect(do("GET", "/v1/runs/r1/events?after=3&ticket="+ticket.Ticket), 200, "ann at http://chat.example.com/v1/runs/r1/events?after=3")
		expect(do("GET", "/v1/runs/r1/events?after=3&ticket="+ticket.Ticket), 401, "unauthorized")

		// SE-16: who tries keys is slowed down, by his address; who has one is not.
		var last *httptest.ResponseRecorder
		for range 5 {
			last = do("GET", "/v1/runs/r1", "Authorization", "Bearer "+strings.Repeat("x", 40))
		}
		expect(last, 429, "rate_limited")
		if last.Header().Get("Retry-After") == "" {
			t.Error(last.Header())
		}
		expect(do("GET", "/v1/workflows", "Authorization", bearer), 200, "ann at")
		for range 30 {
			last = do("GET", "/v1/workflows", "Authorization", bearer)
		}
		expect(last, 429, "rate_limited: too many requests")
	})
}

func TestATicketIsTakenOutOfTheAddress(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1": "a=1", "ticket=x": "", "a=1&ticket=x&b=%20": "a=1&b=%20", "%74icket=x&a": "%74icket=x&a", "ticket=y&%74icket=x&a": "a", "tickets=x": "tickets=x", "a=ticket": "a=ticket",
		"ticket=x&ticket=y": "", "%zz=1&ticket=x": "%zz=1",
	} {
		r := httptest.NewRequest("GET", "/v1/runs", nil)
		r.URL.RawQuery = query
		got := access.WithoutTicket(r)
		if got.URL.RawQuery != want || r.URL.RawQuery != query || got != r && strings.Contains(got.RequestURI, "ticket") {
			t.Errorf("%q: %q, %q", query, got.URL.RawQuery, got.RequestURI)
		}
	}
}

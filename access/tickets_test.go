package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool"
)

func issue(t testing.TB, tickets *access.Tickets, p access.Principal, path string) string {
	t.Helper()
	text, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: p}, http.MethodGet, path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ticketStore is a store with room for so many.
func ticketStore(t testing.TB, room int) access.TicketStore {
	t.Helper()
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.Values(db.Tickets, db.ValueOptions{MaxRows: room})
}

func newTickets(t testing.TB, o access.TicketsOptions) *access.Tickets {
	t.Helper()
	if o.Store == nil {
		o.Store = ticketStore(t, access.MostTickets)
	}
	return access.NewTickets(o)
}

func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

// SE-10: of many who use it at the same time, one gets in.
func TestOneOfManyWhoUseATicketAtOnceGetsIn(t *testing.T) {
	tickets := newTickets(t, access.TicketsOptions{})
	for range 20 {
		text := issue(t, tickets, ann, "/v1/runs")
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := tickets.Redeem(context.Background(), text, get("/v1/runs")); err == nil {
					in.Add(1)
				}
			})
		}
		wg.Wait()
		if in.Load() != 1 {
			t.Fatalf("%d got in", in.Load())
		}
	}
}

// SE-10: a ticket is good for a short time.
func TestATicketExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := newTickets(t, access.TicketsOptions{})
		text, expires, err := tickets.Issue(t.Context(), access.Visitor{Principal: ann}, http.MethodGet, "/v1/runs")
		if err != nil || time.Until(expires) != time.Minute {
			t.Fatal(expires, err)
		}
		late := issue(t, tickets, ann, "/v1/runs")
		time.Sleep(59 * time.Second)
		if _, err := tickets.Redeem(t.Context(), text, get("/v1/runs")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if _, err := tickets.Redeem(t.Context(), late, get("/v1/runs")); !errors.Is(err, access.ErrTicket) {
			t.Error(err)
		}
		forever := newTickets(t, access.TicketsOptions{Life: 24 * time.Hour})
		if _, expires, _ = forever.Issue(t.Context(), access.Visitor{Principal: ann}, http.MethodGet, "/"); time.Until(expires) != 5*time.Minute {
			t.Errorf("a ticket for %v", time.Until(expires))
		}
	})
}

func TestATicketIsForItsPlaceAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		path   string
		method string
		target string
		ok     bool
	}{
		"the place":                    {"/v1/runs/r1", "GET", "/v1/runs/r1", true},
		"below it":                     {"/v1/runs/r1", "GET", "/v1/runs/r1/events", true},
		"with a query":                 {"/v1/runs/r1", "GET", "/v1/runs/r1?after=3", true},
		"a slash at the end":           {"/v1/runs/", "GET", "/v1/runs/r1", true},
		"a path with escapes":          {"/v1/sessions/a%2Fb", "GET", "/v1/sessions/a%2Fb/tape", true},
		"another way of escaping it":   {"/v1/sessions/a%2Fb", "GET", "/v1/sessions/a/b/tape", false},
		"another method":               {"/v1/runs/r1", "POST", "/v1/runs/r1", false},
		"asking for the headers alone": {"/v1/runs/r1", "HEAD", "/v1/runs/r1", false},
		"another run":                  {"/v1/runs/r1", "GET", "/v1/runs/r2", false},
		"a name that begins alike":     {"/v1/runs/r1", "GET", "/v1/runs/r10", false},
		"above it":                     {"/v1/runs/r1", "GET", "/v1/runs", false},
		"up and down again":            {"/v1/runs/r1", "GET", "/v1/runs/r1/../r2", false},
		"up in escapes":                {"/v1/runs/r1", "GET", "/v1/runs/r1/%2e%2E/r2", false},
		"two slashes":                  {"/v1/runs/r1", "GET", "/v1/runs/r1//x", false},
	} {
		t.Run(name, func(t *testing.T) {
			tickets := newTickets(t, access.TicketsOptions{})
			text := issue(t, tickets, ann, tc.path)
			r := httptest.NewRequest(tc.method, "http://x/", nil)
			u, err := r.URL.Parse(tc.target)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(tc.target, "..") { // which Parse resolves
				u.Path, u.RawPath = tc.target, ""
			}
			r.URL = u
			if _, err := tickets.Redeem(t.Context(), text, r); (err == nil) != tc.ok {
				t.Fatal(err)
			}
			if _, err := tickets.Redeem(t.Context(), text, get(tc.path)); err == nil {
				t.Error("it is good after it was tried elsewhere")
			}
		})
	}
}

func TestATicketIsNotIssuedForWhatMakesNoSense(t *testing.T) {
	tickets := newTickets(t, access.TicketsOptions{})
	for name, tc := range map[string]struct {
		who          access.Principal
		method, path string
		status       int
	}{
		"nobody":            {access.Principal{}, "GET", "/v1/runs", 401},
		"a POST":            {ann, "POST", "/v1/runs", 400},
		"no path":           {ann, "GET", "", 400},
		"a whole address":   {ann, "GET", "https://x/v1/runs", 400},
		"a query":           {ann, "GET", "/v1/runs?x=1", 400},
		"a detour":          {ann, "GET", "/v1/../runs", 400},
		"a detour, escaped": {ann, "GET", "/v1/%2E./runs", 400},
		"a long path":       {ann, "GET", "/" + strings.Repeat("a", 2000), 400},
	} {
		text, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: tc.who}, tc.method, tc.path)
		if refusal, ok := errors.AsType[*access.Refusal](err); !ok || refusal.Status != tc.status || text != "" {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
}

func TestWhatIsNoTicketLetsNobodyIn(t *testing.T) {
	tickets := newTickets(t, access.TicketsOptions{})
	good := issue(t, tickets, ann, "/v1/runs")
	for _, text := range []string{"", "lst_", good[:len(good)-1], good + "a", strings.ToUpper(good), "lst_" + strings.Repeat("a", 32), strings.Repeat("x", 1<<20)} {
		if p, err := tickets.Redeem(t.Context(), text, get("/v1/runs")); !errors.Is(err, access.ErrTicket) || !p.Unknown() {
			t.Errorf("%.40q: %v %v", text, p, err)
		}
	}
	if _, err := tickets.Redeem(t.Context(), good, get("/v1/runs")); err != nil {
		t.Error(err)
	}
}

func TestTicketsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := newTickets(t, access.TicketsOptions{Most: 3, Store: ticketStore(t, 5)})
		var texts []string
		for range 3 {
			texts = append(texts, issue(t, tickets, ann, "/v1/runs"))
		}
		_, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: ann}, http.MethodGet, "/v1/runs")
		if refusal, ok := errors.AsType[*access.Refusal](err); !ok || !errors.Is(err, access.ErrManyTickets) || refusal.Status != 429 || refusal.RetryAfter != time.Minute {
			t.Errorf("%#v", err)
		}
		issue(t, tickets, bob, "/v1/runs")
		issue(t, tickets, bob, "/v1/runs")
		if _, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: bob}, http.MethodGet, "/v1/runs"); !errors.Is(err, access.ErrManyTickets) {
			t.Error(err)
		}
		// One that is used makes room for one, and time for all.
		if _, err := tickets.Redeem(t.Context(), texts[1], get("/v1/runs")); err != nil {
			t.Error(err)
		}
		issue(t, tickets, ann, "/v1/runs")
		time.Sleep(time.Minute)
		for range 3 {
			issue(t, tickets, ann, "/v1/runs")
		}
	})
}

// However tickets are issued, used and left to expire, those are good that should be, and as many are taken as there is room for.
func TestTicketsInMemoryAreThoseThatWait(t *testing.T) {
	type waiting struct {
		who     string
		expires time.Time
	}
	rapid.Check(t, func(rt *rapid.T) {
		const most, all = 3, 6
		steps := rapid.SliceOfN(rapid.IntRange(0, 99), 1, 80).Draw(rt, "steps")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			tickets := newTickets(t, access.TicketsOptions{Most: most, Store: ticketStore(t, all)})
			model := map[string]waiting{}
			var texts []string // all that there ever were
			for _, step := range steps {
				for text, w := range model {
					if !time.Now().Before(w.expires) {
						delete(model, text)
					}
				}
				switch who := fmt.Sprintf("p%d", step%4); {
				case step < 50:
					own := 0
					for _, w := range model {
						if w.who == who {
							own++
						}
					}
					text, expires, err := tickets.Issue(t.Context(), access.Visitor{Principal: access.Principal{Name: who}}, http.MethodGet, "/x")
					if room := own < most && len(model) < all; room != (err == nil) {
						wrong = fmt.Sprintf("%d of %s, %d in all: %v", own, who, len(model), err)
						return
					}
					if err == nil {
						model[text] = waiting{who, expires}
						texts = append(texts, text)
					}
				case step < 85 && len(texts) > 0:
					text := texts[step%len(texts)]
					p, err := tickets.Redeem(t.Context(), text, get("/x"))
					if w, there := model[text]; there != (err == nil) || p.Name != w.who {
						wrong = fmt.Sprintf("%v is redeemed as %q, %v", w, p.Name, err)
						return
					}
					delete(model, text)
				default:
					time.Sleep(time.Duration(step%30) * time.Second)
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func TestTicketIsGoodAtAnotherServerWithTheSameStore(t *testing.T) {
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tickets := func() *access.Tickets {
		return access.NewTickets(access.TicketsOptions{Store: d.Values(db.Tickets, db.ValueOptions{})})
	}
	one, other := tickets(), tickets()
	who := access.Principal{Name: "ann", Role: tool.Operator, Scopes: scopes(t, "workflows:team-*")}
	text := issue(t, one, who, "/v1/runs")
	kept, err := d.Values(db.Tickets, db.ValueOptions{}).All(t.Context(), "")
	if secret := text[len(text)-32:]; err != nil || len(kept) != 1 || strings.Contains(fmt.Sprintf("%s", kept), secret) {
		t.Errorf("the store has %s, %v", kept, err)
	}
	p, err := other.Redeem(t.Context(), text, get("/v1/runs"))
	if err != nil || p.Role != tool.Operator || p.Scopes.String() != "workflows:team-*" || p.Runs("other") {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := one.Redeem(t.Context(), text, get("/v1/runs")); !errors.Is(err, access.ErrTicket) {
		t.Error(err)
	}
}

// broken is a store that cannot be reached.
type broken struct{ error }

func (b broken) Add(context.Context, string, []byte, time.Duration) (bool, error) {
	return false, b.error
}

func (b broken) Take(context.Context, string, func([]byte) bool) ([]byte, error) { return nil, b.error }

func TestAStoreThatCannotBeReachedLetsNobodyIn(t *testing.T) {
	down := errors.New("the store is down")
	tickets := access.NewTickets(access.TicketsOptions{Store: broken{down}})
	if text, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: ann}, http.MethodGet, "/v1/runs"); !errors.Is(err, down) || text != "" {
		t.Error(text, err)
	}
	door := &access.Door{Keys: newKeys(t, access.KeysOptions{}), Tickets: tickets}
	if v, err := door.Enter(get("/v1/runs?ticket=lst_" + strings.Repeat("a", 46))); !errors.Is(err, down) || !v.Unknown() {
		t.Error(v, err)
	}
}

// While the store is away, who asks is told to come back.
func TestWhileTheStoreIsAwayTicketsAreRefusedWithATime(t *testing.T) {
	for _, away := range []error{store.ErrAway, fmt.Errorf("lost: %w", store.ErrUnsure)} {
		tickets := access.NewTickets(access.TicketsOptions{Store: broken{away}})
		_, _, err := tickets.Issue(t.Context(), access.Visitor{Principal: ann}, http.MethodGet, "/v1/runs")
		_, redeemed := tickets.Redeem(t.Context(), "lst_"+strings.Repeat("a", 46), get("/v1/runs"))
		for _, err := range []error{err, redeemed} {
			if refusal, ok := errors.AsType[*access.Refusal](err); !ok || refusal.Status != 503 || refusal.RetryAfter == 0 {
				t.Errorf("%v", err)
			}
		}
	}
}

func ExampleTickets() {
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	tickets := access.NewTickets(access.TicketsOptions{Store: d.Values(db.Tickets, db.ValueOptions{MaxRows: access.MostTickets})})
	text, _, err := tickets.Issue(context.Background(), access.Visitor{Principal: access.Principal{Name: "ann"}}, "GET", "/v1/runs/r1/events")
	if err != nil {
		panic(err)
	}
	request := httptest.NewRequest("GET", "/v1/runs/r1/events?ticket="+text, nil)
	who, err := tickets.Redeem(context.Background(), text, request)
	fmt.Println(who.Name, err)
	_, err = tickets.Redeem(context.Background(), text, request)
	fmt.Println(err)
	// Output:
	// ann <nil>
	// access: the ticket is unknown, used, expired or for another path; request a new one
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

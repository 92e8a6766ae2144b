package admin

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/web"
)

// adminOf is the admin listener's handler for these settings. Its keys are those of an admin and of a user; without, there are none.
func adminOf(t *testing.T, keys bool, set config.Admin, insecure bool) (a *handler, adminKey, userKey string) {
	t.Helper()
	door := &access.Door{Tickets: access.NewTickets(access.TicketsOptions{})}
	if keys {
		var entries []string
		for _, k := range []struct {
			name string
			role tool.Role
			key  *string
		}{{"root", tool.Admin, &adminKey}, {"front-end", tool.User, &userKey}} {
			made, text := access.NewKey(access.Principal{Name: k.name, Role: k.role}, time.Time{})
			entries, *k.key = append(entries, made.Entry()), text
		}
		var err error
		if door.Keys, err = access.NewKeys(access.KeysOptions{Entries: entries}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(door.Keys.Close)
	}
	public := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "public "+r.URL.Path) })
	c := &config.Config{Admin: set, Insecure: insecure}
	if keys {
		c.Auth.KeysFile = "keys.txt"
	}
	a, err := newHandler(c, door, telemetry.NewMetrics("v1", "", telemetry.MetricNames{}), adapter.NewBudget(adapter.BudgetOptions{}), public, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a, adminKey, userKey
}

// ask asks the admin listener; header lines are "Name: value".
func ask(a *handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1:9090"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// SE-22
func TestWhoMayAskTheAdminListener(t *testing.T) {
	const local, open = "127.0.0.1:9090", "10.1.2.3:9090"
	for name, c := range map[string]struct {
		keys, insecure bool
		set            config.Admin
		bearer         string // "admin", "user", or the text itself
		header         string
		metrics, pprof int
	}{
		"anybody on this machine":                 {set: config.Admin{Addr: local}, metrics: 200, pprof: 200},
		"nobody on this machine, with keys":       {keys: true, set: config.Admin{Addr: local}, metrics: 401, pprof: 401},
		"nobody here, with keys and insecure":     {keys: true, insecure: true, set: config.Admin{Addr: local}, metrics: 401, pprof: 401},
		"a user on this machine":                  {keys: true, set: config.Admin{Addr: local}, bearer: "user", metrics: 403, pprof: 403},
		"an admin on this machine":                {keys: true, set: config.Admin{Addr: local}, bearer: "admin", metrics: 200, pprof: 200},
		"open metrics on this machine":            {keys: true, set: config.Admin{Addr: local, OpenMetrics: true}, metrics: 200, pprof: 401},
		"a name that leads to this machine":       {set: config.Admin{Addr: local}, header: "Host: evil.example:9090", metrics: 403, pprof: 403},
		"a page of another site":                  {set: config.Admin{Addr: local}, header: "Sec-Fetch-Site: cross-site", metrics: 403, pprof: 403},
		"a page of a site beside it":              {set: config.Admin{Addr: local}, header: "Sec-Fetch-Site: same-site", metrics: 403, pprof: 403},
		"the address bar of a browser":            {set: config.Admin{Addr: local}, header: "Sec-Fetch-Site: none", metrics: 200, pprof: 200},
		"nobody from elsewhere":                   {keys: true, set: config.Admin{Addr: open}, metrics: 401, pprof: 401},
		"a key that is none":                      {keys: true, set: config.Admin{Addr: open}, bearer: "nonsense", metrics: 401, pprof: 401},
		"a user":                                  {keys: true, set: config.Admin{Addr: open}, bearer: "user", metrics: 403, pprof: 403},
		"an admin":                                {keys: true, set: config.Admin{Addr: open}, bearer: "admin", metrics: 200, pprof: 200},
		"an admin's page of another site":         {keys: true, set: config.Admin{Addr: open}, bearer: "admin", header: "Sec-Fetch-Site: cross-site", metrics: 403, pprof: 403},
		"nobody, where metrics are open":          {keys: true, set: config.Admin{Addr: open, OpenMetrics: true}, metrics: 200, pprof: 401},
		"nobody, where metrics are open, no keys": {set: config.Admin{Addr: open, OpenMetrics: true}, metrics: 200, pprof: 403},
		"anybody, where it is to be insecure":     {insecure: true, set: config.Admin{Addr: open}, header: "Host: metrics.internal", metrics: 200, pprof: 200},
	} {
		t.Run(name, func(t *testing.T) {
			a, admin, user := adminOf(t, c.keys, c.set, c.insecure)
			header := []string{c.header}
			if c.bearer != "" {
				key := c.bearer
				switch key {
				case "admin":
					key = admin
				case "user":
					key = user
				}
				header = append(header, "Authorization: Bearer "+key)
			}
			for path, want := range map[string]int{
				"/metrics": c.metrics, "/debug/pprof/": c.pprof, "/debug/pprof": c.pprof, "/debug/pprof/heap": c.pprof, "/debug/pprof/goroutine?debug=1": c.pprof,
				"/healthz": 200, "/readyz": 200,
			} {
				w := ask(a, path, header...)
				if w.Code != want {
					t.Errorf("%s: %d: %s", path, w.Code, w.Body)
				}
				if w.Code >= 400 && (w.Header().Get("Content-Type") != "application/problem+json" || strings.Contains(w.Body.String(), "nonsense")) {
					t.Errorf("%s: %s", path, w.Body)
				}
				if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s: there is no challenge", path)
				}
			}
		})
	}
}

// A ticket is for a stream; here it would be used up for nothing, and stand in the logs of scrapers.
func TestATicketOpensNothingAtTheAdminListener(t *testing.T) {
	a, _, _ := adminOf(t, true, config.Admin{Addr: "10.1.2.3:9090"}, false)
	ticket, _, err := a.door.Tickets.Issue(t.Context(), access.Visitor{Principal: access.Principal{Name: "root", Role: tool.Admin}}, "GET", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(a, "/metrics?ticket="+ticket); w.Code != 401 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestProfilesAreBoundedAndMadeOneAtATime(t *testing.T) {
	a, _, _ := adminOf(t, false, config.Admin{Addr: "127.0.0.1:9090"}, false)
	for _, path := range []string{
		"/debug/pprof/profile?seconds=121", "/debug/pprof/profile?seconds=0", "/debug/pprof/profile?seconds=-1", "/debug/pprof/profile?seconds=x",
		"/debug/pprof/trace?seconds=11", "/debug/pprof/heap?seconds=121",
	} {
		if w := ask(a, path); w.Code != 400 || !strings.Contains(w.Body.String(), "expected a whole number up to ") {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/nonsense", "/debug/vars", "/", "/v1/runs"} {
		if w := ask(a, path); w.Code != 404 {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	// One that goes on keeps others out, until whoever wanted it leaves.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/debug/pprof/profile?seconds=120", nil))
		done <- w
	}()
	for a.profiling.TryLock() { // until it has begun
		a.profiling.Unlock()
		if len(done) > 0 {
			t.Skip("the tests themselves are being profiled")
		}
		time.Sleep(time.Millisecond)
	}
	for _, path := range []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/trace", "/debug/pprof/heap"} {
		if w := ask(a, path); w.Code != 409 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	if w := ask(a, "/metrics"); w.Code != 200 {
		t.Errorf("there are no metrics meanwhile: %d", w.Code)
	}
	cancel()
	if w := <-done; !strings.HasPrefix(w.Body.String(), "\x1f\x8b") {
		t.Errorf("that is no profile: %q", w.Body)
	}
	if w := ask(a, "/debug/pprof/heap"); w.Code != 200 || !strings.HasPrefix(w.Body.String(), "\x1f\x8b") {
		t.Errorf("%d", w.Code)
	}
	for _, name := range []string{"goroutine", "heap", "profile", "trace"} {
		if w := ask(a, "/debug/pprof/"); !strings.Contains(w.Body.String(), "  "+name+" ") {
			t.Errorf("%s is not in the list: %s", name, w.Body)
		}
	}
}

// SE-22: insecure is for servers without keys, and does not take a key away where there is one.
func TestTheAdminListenerIsOpenToThisMachineAndWhereThereAreNoKeysOnly(t *testing.T) {
	keys := config.Auth{KeysFile: "keys"}
	for name, c := range map[string]struct {
		c    config.Config
		open bool
	}{
		"on this machine":                {config.Config{Admin: config.Admin{Addr: "127.0.0.1:0"}}, true},
		"on this machine, with keys":     {config.Config{Admin: config.Admin{Addr: "127.0.0.1:0"}, Auth: keys}, false}, // DA-05
		"on all addresses, with keys":    {config.Config{Admin: config.Admin{Addr: ":9090"}, Auth: keys}, false},
		"with keys, insecure":            {config.Config{Admin: config.Admin{Addr: ":9090"}, Auth: keys, Insecure: true}, false},
		"with an issuer, insecure":       {config.Config{Admin: config.Admin{Addr: ":9090"}, Auth: config.Auth{TokensOptions: access.TokensOptions{Issuer: "https://login.example.com/"}}, Insecure: true}, false},
		"without keys, meant to be open": {config.Config{Admin: config.Admin{Addr: ":9090"}, Insecure: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.c.AdminOpen() != c.open {
				t.Errorf("open: %v", !c.open)
			}
		})
	}
}

func TestAnAdminListenerThatAnybodyCouldReachIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		c    config.Config
		fine bool
	}{
		"off":               {config.Config{}, true},
		"on this machine":   {config.Config{Admin: config.Admin{Addr: "[::1]:0"}}, true},
		"on all addresses":  {config.Config{Admin: config.Admin{Addr: ":9090"}}, false},
		"on another":        {config.Config{Admin: config.Admin{Addr: "192.0.2.1:9090"}}, false},
		"for metrics alone": {config.Config{Admin: config.Admin{Addr: ":9090", OpenMetrics: true}}, true},
		"with keys":         {config.Config{Admin: config.Admin{Addr: ":9090"}, Auth: config.Auth{KeysFile: "keys"}}, true},
		"meant to be":       {config.Config{Admin: config.Admin{Addr: ":9090"}, Insecure: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.c.CheckAdmin()
			if (err == nil) != c.fine || err != nil && !strings.Contains(err.Error(), "lingserve keys new") {
				t.Error(err)
			}
		})
	}
}

// SE-22: plain HTTP carries an admin's key over a network in the clear, and the log says so.
func TestTheLogSaysWhereTheKeyOfAnAdminTravelsUnencrypted(t *testing.T) {
	keys := config.Auth{KeysFile: "keys"}
	for name, c := range map[string]struct {
		c    config.Config
		said bool
	}{
		"on all addresses":                   {config.Config{Admin: config.Admin{Addr: ":0"}, Auth: keys}, true},
		"on all addresses, metrics are open": {config.Config{Admin: config.Admin{Addr: "0.0.0.0:0", OpenMetrics: true}, Auth: keys}, true},
		"on this machine":                    {config.Config{Admin: config.Admin{Addr: "127.0.0.1:0"}, Auth: keys}, false},
		"without keys":                       {config.Config{Admin: config.Admin{Addr: ":0"}, Insecure: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			log := slog.New(slog.NewTextHandler(&out, nil))
			stop, err := Listen(&c.c, &access.Door{}, telemetry.NewMetrics("v1", "", telemetry.MetricNames{}), nil, http.NotFoundHandler(), log)
			if err != nil {
				t.Fatal(err)
			}
			stop()
			if said := strings.Contains(out.String(), "level=WARN msg=\"an admin's key travels unencrypted"); said != c.said {
				t.Error(out.String())
			}
		})
	}
}

// DO-09: clients that hold all connections of the public port do not reach the admin port.
func TestTheAdminPortAnswersProbesWhileThePublicPortIsFlooded(t *testing.T) {
	server, err := web.New(web.Options{Limits: web.Limits{Connections: 4}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	public, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.HTTPServer()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer srv.Close()
	serving.Go(func() { _ = srv.Serve(public) })
	var out strings.Builder
	stop, err := Listen(
		&config.Config{Admin: config.Admin{Addr: "127.0.0.1:0"}}, &access.Door{}, telemetry.NewMetrics("v1", "", telemetry.MetricNames{}),
		adapter.NewBudget(adapter.BudgetOptions{}), server.Handler(), slog.New(slog.NewTextHandler(&out, nil)),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	address := regexp.MustCompile(`addr=(\S+)`).FindStringSubmatch(out.String())[1]
	for range 40 {
		c, err := net.Dial("tcp", public.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 20 {
		for _, path := range []string{"/healthz", "/readyz"} {
			resp, err := client.Get("http://" + address + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, resp.Status)
			}
		}
	}
}

// MO-40: what was spent today is for admins alone.
func TestWhatWasSpentIsForAdmins(t *testing.T) {
	a, adminKey, userKey := adminOf(t, true, config.Admin{}, false)
	for key, want := range map[string]int{adminKey: 200, userKey: 403, "none": 401} {
		if got := ask(a, "/cost", "Authorization: Bearer "+key); got.Code != want || want == 200 && !strings.Contains(got.Body.String(), `"cost":0,"callers":{}`) {
			t.Errorf("/cost answers %d %s, expected %d", got.Code, got.Body, want)
		}
	}
}

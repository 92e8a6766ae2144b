package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
)

// Headers that browsers send. web/browser/crosssite.test.js has Chromium 156 send them.
const (
	chromium = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
	asPage   = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	asImage  = "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
	asAny    = "Accept: */*"
)

// openedByName returns a function that asks a server without keys, which is known as ling.test and lets pages of http://app.test use it.
func openedByName(t *testing.T) func(method, path string, header ...string) *http.Response {
	t.Helper()
	hosts, err := access.NewHosts([]string{"ling.test"})
	if err != nil {
		t.Fatal(err)
	}
	cors, err := access.NewCORS([]string{"http://app.test"})
	if err != nil {
		t.Fatal(err)
	}
	a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.Access.Hosts, o.Access.CORS = hosts, cors })
	a.serve()
	return func(method, path string, header ...string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, http.NoBody)
		for _, line := range header {
			if name, value, _ := strings.Cut(line, ": "); name == "Host" {
				r.Host = value
			} else {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		a.s.Handler().ServeHTTP(w, r)
		return w.Result()
	}
}

// DA-03
func TestGetStartsRunsOnlyForEventSourceFetchAndPrograms(t *testing.T) {
	ask := openedByName(t)
	plain := []string{"Host: ling.test", chromium, "Accept-Language: en-US,en;q=0.9"} // a name over plain http gets no Sec-Fetch headers
	local := func(site, mode, dest string) []string {
		return []string{chromium, "Sec-Fetch-Site: " + site, "Sec-Fetch-Mode: " + mode, "Sec-Fetch-Dest: " + dest}
	}
	with := func(list []string, more ...string) []string { return append(append([]string{}, list...), more...) }
	const evil, own = "http://evil.test", "http://ling.test"
	for name, row := range map[string]struct {
		header []string
		starts bool
	}{
		"curl":                                  {[]string{"User-Agent: curl/8.5.0", asAny}, true},
		"curl to a name":                        {[]string{"Host: ling.test", "User-Agent: curl/8.5.0", asAny}, true},
		"Go":                                    {[]string{"User-Agent: Go-http-client/1.1"}, true},
		"Python":                                {[]string{"Host: ling.test", "User-Agent: python-requests/2.32.3", asAny}, true},
		"Node":                                  {[]string{"Host: ling.test", "User-Agent: node", asAny, "Accept-Language: *", "Sec-Fetch-Mode: cors"}, true},
		"EventSource":                           {with(local("same-origin", "cors", "empty"), asEvents), true},
		"fetch of the own page":                 {with(local("same-origin", "cors", "empty"), asAny), true},
		"fetch in mode same-origin":             {with(local("same-origin", "same-origin", "empty"), asAny), true},
		"EventSource of an allowed site":        {with(local("cross-site", "cors", "empty"), asEvents, "Origin: http://app.test"), true},
		"EventSource over plain http":           {with(plain, asEvents, "Referer: "+own+"/page"), true},
		"the same of an allowed site":           {with(plain, asEvents, "Origin: http://app.test"), true},
		"fetch of JSON Lines over plain http":   {with(plain, "Accept: application/x-ndjson", "Referer: "+own+"/page"), true},
		"prefetch by speculation rules":         {with(local("none", "navigate", "document"), asPage, "Sec-Purpose: prefetch"), false},
		"prerender":                             {with(local("none", "navigate", "document"), asPage, "Sec-Purpose: prefetch;prerender"), false},
		"prefetch of the own page":              {with(local("same-origin", "no-cors", "empty"), asEvents, "Sec-Purpose: prefetch"), false},
		"prefetch with the old header":          {with(local("same-origin", "cors", "empty"), asEvents, "Purpose: prefetch"), false},
		"prefetch of Firefox":                   {with(plain, asEvents, "X-Moz: prefetch", "Referer: "+own+"/"), false},
		"the address bar":                       {with(local("none", "navigate", "document"), asPage, "Sec-Fetch-User: ?1"), false},
		"an extension":                          {with(local("none", "cors", "empty"), asEvents), false},
		"a link of the own page":                {with(local("same-origin", "navigate", "document"), asPage), false},
		"a link of another site":                {with(local("cross-site", "navigate", "document"), asPage), false},
		"a frame":                               {with(local("same-origin", "navigate", "iframe"), asPage), false},
		"an image of the own page":              {with(local("same-origin", "no-cors", "image"), asImage), false},
		"an image of another site":              {with(local("cross-site", "no-cors", "image"), asImage), false},
		"a script of another port":              {with(local("same-site", "no-cors", "script"), asAny), false},
		"a module of the own page":              {with(local("same-origin", "cors", "script"), asAny), false},
		"a worker":                              {with(local("same-origin", "same-origin", "worker"), asAny), false},
		"a video of the own page":               {with(local("same-origin", "no-cors", "video"), asAny, "Range: bytes=0-"), false},
		"no-cors of another site":               {with(local("cross-site", "no-cors", "empty"), asEvents), false},
		"no-cors of the own page":               {with(local("same-origin", "no-cors", "empty"), asEvents), false},
		"EventSource of another site":           {with(local("cross-site", "cors", "empty"), asEvents, "Origin: "+evil), false},
		"EventSource of a file":                 {with(local("cross-site", "cors", "empty"), asEvents, "Origin: null"), false},
		"a WebSocket":                           {[]string{chromium, "Origin: " + evil}, false},
		"the address bar over plain http":       {with(plain, asPage, "Upgrade-Insecure-Requests: 1"), false},
		"an image over plain http":              {with(plain, asImage, "Referer: "+evil+"/"), false},
		"a style sheet over plain http":         {with(plain, "Accept: text/css,*/*;q=0.1", "Referer: "+own+"/"), false},
		"a script over plain http":              {with(plain, asAny, "Referer: "+evil+"/"), false},
		"a script without a referrer":           {with(plain, asAny), false},
		"a script of the own page":              {with(plain, asAny, "Referer: "+own+"/"), false},
		"no-cors over plain http":               {with(plain, asEvents, "Referer: "+evil+"/"), false},
		"no-cors without a referrer":            {with(plain, asEvents, "Cache-Control: no-cache"), false},
		"no-cors that looks like Node":          {[]string{"Host: ling.test", chromium, asAny, "Accept-Language: *"}, false},
		"no-cors of a name that is like ours":   {with(plain, asEvents, "Referer: http://ling.test.evil.test/"), false},
		"no-cors of our name at another port":   {with(plain, asEvents, "Referer: http://ling.test:81/"), false},
		"no-cors with our name as a user":       {with(plain, asEvents, "Referer: http://ling.test@evil.test/"), false},
		"EventSource of a file over plain http": {with(plain, asEvents, "Origin: null"), false},
		"EventSource of evil over plain http":   {with(plain, asEvents, "Origin: "+evil, "Referer: "+own+"/"), false},
		"a navigation that asks for events":     {with(plain, asEvents+",text/html", "Referer: "+own+"/"), false},
	} {
		got := ask("GET", "/v1/runs?workflow=chat&input=q", row.header...)
		if want := map[bool]int{true: 200, false: 403}[row.starts]; got.StatusCode != want || row.starts != (got.Header.Get("X-Run-Id") != "") {
			t.Errorf("%s: %d %v, want %d", name, got.StatusCode, got.Header, want)
		}
		if got := ask("HEAD", "/v1/runs?workflow=chat&input=q", row.header...); got.StatusCode < 400 || got.Header.Get("X-Run-Id") != "" {
			t.Errorf("%s: HEAD: %d", name, got.StatusCode)
		}
	}
}

// DA-03
func TestGetGivesNoCommandAndEndsNoRunOfAPrefetch(t *testing.T) {
	ask := openedByName(t)
	prefetch := []string{chromium, "Sec-Fetch-Site: none", "Sec-Purpose: prefetch", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", asPage}
	for _, command := range []string{",approve abcdefghijklmnopqrstuvwxyz", "，approve x", "\x01,approve x", ",approve\tx", `",approve x"`, ",deny x", ",stop", ",forget", ",no-such-command", ",help"} {
		for name, header := range map[string][]string{
			"curl":        {"User-Agent: curl/8.5.0", asAny},
			"EventSource": {chromium, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", asEvents},
			"at a name":   {"Host: ling.test", chromium, asEvents, "Referer: http://ling.test/"},
		} {
			for _, busy := range []string{"", "&on_busy=steer", "&on_busy=interrupt"} {
				got := ask("GET", "/v1/runs?agent=assistant&session=s&input="+url.QueryEscape(command)+busy, header...)
				if said := text(t, got); got.StatusCode != 405 || got.Header.Get("Allow") != "POST" || !strings.Contains(said, "POST /v1/runs") {
					t.Errorf("%q by %s: %d %s", command, name, got.StatusCode, said)
				}
			}
		}
		if got := ask("GET", "/v1/runs?agent=assistant&session=s&input="+url.QueryEscape(command), prefetch...); got.StatusCode != 403 {
			t.Errorf("%q by a prefetch: %d", command, got.StatusCode)
		}
	}
	if got := ask("GET", "/v1/runs?agent=assistant&session=s&input="+url.QueryEscape(", approve")); got.StatusCode != 200 {
		t.Errorf("a text that is no command: %d", got.StatusCode)
	}
	for _, path := range []string{"/v1/agui/assistant/t?on_disconnect=cancel", "/v1/ui/assistant/t/stream?v=6", "/v1/runs/abcdefghijklmnopqrstuvwxyz/events?on_disconnect=cancel"} {
		for _, header := range [][]string{prefetch, {"Host: ling.test", chromium, asEvents}} {
			if got := ask("GET", path, header...); got.StatusCode != 403 {
				t.Errorf("%s with %q: %d", path, header, got.StatusCode)
			}
		}
	}
}

//go:build nightly

package attacks

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// chromium is the User-Agent of a browser.
const chromium = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"

const (
	asPage  = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	asImage = "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
	asEvent = "Accept: text/event-stream"
	asAny   = "Accept: */*"
)

// ask sends a request as a browser does: with the name of the server in Host and not in the first line.
func (v *victim) ask(t testing.TB, method, path string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		if name, value, _ := strings.Cut(line, ": "); name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := v.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	v.seen.Write(append(b, '\n'))
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// withName is a server without keys that is known as ling.test, and lets pages of one site use it.
func withName() setup {
	return setup{config: func(c string) string { return c + "http: {hosts: [ling.test], origins: ['http://app.test']}\n" }}
}

// DA-03: by GET, a run is started for what EventSource and curl send, and for nothing else that a browser sends. The headers are those that
// Chromium 156 sends; web/browser/crosssite.test.js has it send them.
func TestDA_03_AGetStartsARunOnlyForEventSourceAndCurl(t *testing.T) {
	v := ownServer(t, withName())
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
		"EventSource":                           {with(local("same-origin", "cors", "empty"), asEvent), true},
		"fetch of the own page":                 {with(local("same-origin", "cors", "empty"), asAny), true},
		"fetch that stays at home":              {with(local("same-origin", "same-origin", "empty"), asAny), true},
		"EventSource of an allowed site":        {with(local("cross-site", "cors", "empty"), asEvent, "Origin: http://app.test"), true},
		"EventSource over plain http":           {with(plain, asEvent, "Referer: "+own+"/page"), true},
		"the same of an allowed site":           {with(plain, asEvent, "Origin: http://app.test"), true},
		"fetch of JSON Lines over plain http":   {with(plain, "Accept: application/x-ndjson", "Referer: "+own+"/page"), true},
		"prefetch by speculation rules":         {with(local("none", "navigate", "document"), asPage, "Sec-Purpose: prefetch"), false},
		"prerender":                             {with(local("none", "navigate", "document"), asPage, "Sec-Purpose: prefetch;prerender"), false},
		"prefetch of the own page":              {with(local("same-origin", "no-cors", "empty"), asEvent, "Sec-Purpose: prefetch"), false},
		"prefetch, as it was called":            {with(local("same-origin", "cors", "empty"), asEvent, "Purpose: prefetch"), false},
		"prefetch of Firefox":                   {with(plain, asEvent, "X-Moz: prefetch", "Referer: "+own+"/"), false},
		"the address bar":                       {with(local("none", "navigate", "document"), asPage, "Sec-Fetch-User: ?1"), false},
		"an extension":                          {with(local("none", "cors", "empty"), asEvent), false},
		"a link of the own page":                {with(local("same-origin", "navigate", "document"), asPage), false},
		"a link of another site":                {with(local("cross-site", "navigate", "document"), asPage), false},
		"a frame":                               {with(local("same-origin", "navigate", "iframe"), asPage), false},
		"an image of the own page":              {with(local("same-origin", "no-cors", "image"), asImage), false},
		"an image of another site":              {with(local("cross-site", "no-cors", "image"), asImage), false},
		"a script of another port":              {with(local("same-site", "no-cors", "script"), asAny), false},
		"a module of the own page":              {with(local("same-origin", "cors", "script"), asAny), false},
		"a worker":                              {with(local("same-origin", "same-origin", "worker"), asAny), false},
		"a video of the own page":               {with(local("same-origin", "no-cors", "video"), asAny, "Range: bytes=0-"), false},
		"no-cors of another site":               {with(local("cross-site", "no-cors", "empty"), asEvent), false},
		"no-cors of the own page":               {with(local("same-origin", "no-cors", "empty"), asEvent), false},
		"EventSource of another site":           {with(local("cross-site", "cors", "empty"), asEvent, "Origin: "+evil), false},
		"EventSource of a file":                 {with(local("cross-site", "cors", "empty"), asEvent, "Origin: null"), false},
		"a WebSocket":                           {[]string{chromium, "Origin: " + evil}, false},
		"the address bar over plain http":       {with(plain, asPage, "Upgrade-Insecure-Requests: 1"), false},
		"an image over plain http":              {with(plain, asImage, "Referer: "+evil+"/"), false},
		"a style sheet over plain http":         {with(plain, "Accept: text/css,*/*;q=0.1", "Referer: "+own+"/"), false},
		"a script over plain http":              {with(plain, asAny, "Referer: "+evil+"/"), false},
		"a script without a referrer":           {with(plain, asAny), false},
		"a script of the own page":              {with(plain, asAny, "Referer: "+own+"/"), false},
		"no-cors over plain http":               {with(plain, asEvent, "Referer: "+evil+"/"), false},
		"no-cors without a referrer":            {with(plain, asEvent, "Cache-Control: no-cache"), false},
		"no-cors that looks like Node":          {[]string{"Host: ling.test", chromium, asAny, "Accept-Language: *"}, false},
		"no-cors of a name that is like ours":   {with(plain, asEvent, "Referer: http://ling.test.evil.test/"), false},
		"no-cors of our name at another port":   {with(plain, asEvent, "Referer: http://ling.test:81/"), false},
		"no-cors with our name as a user":       {with(plain, asEvent, "Referer: http://ling.test@evil.test/"), false},
		"EventSource of a file over plain http": {with(plain, asEvent, "Origin: null"), false},
		"EventSource of evil over plain http":   {with(plain, asEvent, "Origin: "+evil, "Referer: "+own+"/"), false},
		"a navigation that asks for events":     {with(plain, asEvent+",text/html", "Referer: "+own+"/"), false},
	} {
		word := v.answer(fakeproviders.Answer{Text: "blue"})
		got := v.ask(t, "GET", "/v1/runs?workflow=text&input="+word, row.header...)
		ran := strings.Contains(v.requests.String(), word)
		if row.starts != ran || row.starts != (got.status == 200) || !row.starts && got.status != 403 {
			t.Errorf("%s: %d %s; it ran: %v", name, got.status, clip(got.body), ran)
		}
		// HEAD starts nothing for anybody.
		if got := v.ask(t, "HEAD", "/v1/runs?workflow=text&input="+word+"head", row.header...); got.status < 400 || strings.Contains(v.requests.String(), word+"head") {
			t.Errorf("%s: HEAD: %d", name, got.status)
		}
	}
}

// DA-03: the approval of a tool call is given by no prefetch, and by no GET at all.
func TestDA_03_NoCommandIsGivenByGet(t *testing.T) {
	v := ownServer(t, withName())
	asked := false
	word := v.answer(func(fakeproviders.Request) (a fakeproviders.Answer) {
		if a.Text = "written"; !asked {
			asked = true
			a = fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "call_1", Name: "mcp_red_write", Arguments: `{}`}}}
		}
		return a
	})
	id := v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":"victim","input":"`+word+`"}`, "Prefer: respond-async").header.Get("X-Run-Id")
	question := v.question(t, id)
	approve := ",approve " + question
	for _, command := range []string{approve, "，" + approve[1:], "\x01" + approve, ",approve\t" + question, `"` + approve + `"`, ",deny " + question, ",stop", ",forget", ",no-such-command", ",help"} {
		for name, header := range map[string][]string{
			"curl":        {"User-Agent: curl/8.5.0", asAny},
			"EventSource": {chromium, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", asEvent},
			"at a name":   {"Host: ling.test", chromium, asEvent, "Referer: http://ling.test/"},
			"prefetch":    {chromium, "Sec-Fetch-Site: none", "Sec-Purpose: prefetch", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", asPage},
		} {
			for _, steer := range []string{"", "&on_busy=steer", "&on_busy=interrupt"} {
				got := v.ask(t, "GET", "/v1/runs?agent=assistant&session=victim&input="+url.QueryEscape(command)+steer, header...)
				want := 405
				if name == "prefetch" {
					want = 403
				}
				if got.status != want || want == 405 && (got.header.Get("Allow") != "POST" || !strings.Contains(got.body, "POST /v1/runs")) {
					t.Errorf("%q by %s: %d %s", command, name, got.status, clip(got.body))
				}
			}
		}
	}
	// Without on_disconnect in the address: a prefetch of that ends the run with its connection.
	for _, path := range []string{"/v1/agui/assistant/victim?on_disconnect=cancel", "/v1/ui/assistant/victim/stream?v=6", "/v1/runs/" + id + "/events?on_disconnect=cancel"} {
		for name, header := range map[string][]string{
			"prefetch": {chromium, "Sec-Fetch-Site: none", "Sec-Purpose: prefetch", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", asPage},
			"no-cors":  {"Host: ling.test", chromium, asEvent},
		} {
			if got := v.ask(t, "GET", path, header...); got.status != 403 {
				t.Errorf("%s by %s: %d %s", path, name, got.status, clip(got.body))
			}
		}
	}
	if got := v.do(t, "GET", "/v1/runs/"+id, ""); !strings.Contains(got.body, `"running"`) || v.wrote.Load() != 0 {
		t.Fatalf("the run is over, or the tool has run: %s", got.body)
	}
	// A text that is no command is taken, and a command by POST.
	if got := v.do(t, "GET", "/v1/runs?agent=assistant&session=other&input="+url.QueryEscape(", approve"), ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":"victim","input":"`+approve+`"}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	v.eventually(t, "the tool runs", func() bool { return v.wrote.Load() == 1 })
}

// DA-03: who opens the address of a run in a browser is told how to start one. The page repeats nothing of the address that could do harm
// there, or in a terminal that somebody copies it to.
func TestDA_03_ThePastedAddressOfARunIsExplained(t *testing.T) {
	v := ownServer(t, withName())
	const attack = `x"'><script>alert(1)</script>$(reboot);` + "`reboot`"
	for name, header := range map[string][]string{
		"this machine": {chromium, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", asPage},
		"a name":       {"Host: ling.test", chromium, asPage},
		"a link":       {chromium, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", asPage},
	} {
		got := v.ask(t, "GET", "/v1/runs?workflow=text&input="+url.QueryEscape(attack), header...)
		if got.status != 403 || got.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
		for _, says := range []string{"No run was started", `'{"workflow":"text","input":"YOUR INPUT"}'`, `href="/#workflow=text"`, "new EventSource("} {
			if !strings.Contains(got.body, says) {
				t.Errorf("%s: the page does not say %s:\n%s", name, says, got.body)
			}
		}
		got = v.ask(t, "GET", "/v1/runs?agent="+url.QueryEscape(attack)+"&session="+url.QueryEscape(attack)+"&"+url.QueryEscape(attack)+"=1", header...)
		if strings.Contains(got.body, "alert") || strings.Contains(got.body, "reboot") || strings.Contains(got.body, "<script") || !strings.Contains(got.body, `{"agent":"NAME"`) {
			t.Errorf("%s: the page repeats the address:\n%s", name, got.body)
		}
	}
	// Programs get a problem, and with it the way out.
	if got := v.ask(t, "GET", "/v1/runs?workflow=text&input=x", "Host: ling.test", chromium, asEvent); got.status != 403 || !strings.Contains(got.body, "use POST or https") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

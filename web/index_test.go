package web

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire"
)

func TestTheIndexNamesTheResourcesAndACommandThatWorks(t *testing.T) {
	b := newBench(t, nil).serve()
	resp := b.do("GET", "/", "")
	body := text(t, resp)
	if resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(body, "/v1/workflows") || !strings.Contains(body, "Lingserve 1.2.3") {
		t.Error(body)
	}
	_, url, _ := strings.Cut(body, "curl -N '")
	url, _, _ = strings.Cut(url, "'")
	resp, err := b.http.Get(url + "&input=Why+is+the+sky+blue%3F")
	if err != nil {
		t.Fatal(err)
	}
	if f := fold(t, resp); f.terminal != `finished{"status":"completed"}` {
		t.Errorf("%+v", f)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "evil';rm -rf ~;'"
	b.s.Handler().ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "rm -rf") {
		t.Error("the command holds what the client says")
	}
}

func TestBrowsersGetThePageAndOthersTheText(t *testing.T) {
	b := newBench(t, nil).serve()
	for name, row := range map[string]struct {
		accept string
		page   bool
	}{
		"a browser":            {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", true},
		"who wants HTML":       {"text/html", true},
		"curl":                 {"*/*", false},
		"who says nothing":     {"", false},
		"who wants text":       {"text/plain", false},
		"who likes text more":  {"text/plain, text/html;q=0.5", false},
		"who refuses HTML":     {"text/html;q=0, */*", false},
		"who takes any text":   {"text/*", false},
		"a client of the API":  {"application/json", false},
		"who likes HTML, some": {"text/html;q=0.2", true},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			var headers []string
			if row.accept != "" {
				headers = append(headers, "Accept: "+row.accept)
			}
			resp := b.do(method, "/", "", headers...)
			body := text(t, resp)
			want := "text/plain; charset=utf-8"
			if row.page {
				want = "text/html; charset=utf-8"
			}
			if got := resp.Header.Get("Content-Type"); got != want || resp.StatusCode != 200 {
				t.Errorf("%s, %s: got %s, expected %s", name, method, got, want)
			}
			if vary := strings.Join(resp.Header["Vary"], ", "); !strings.HasPrefix(vary, "Accept") {
				t.Errorf("%s, %s: Vary is %q; a cache would give a browser the text", name, method, vary)
			}
			if method == "GET" && row.page != strings.HasPrefix(body, "<!doctype html>") {
				t.Errorf("%s: %.80s", name, body)
			}
		}
	}
}

func TestWhatThePageLoadsIsServed(t *testing.T) {
	b := newBench(t, nil).serve()
	page := text(t, b.do("GET", "/", "", "Accept: text/html"))
	paths := regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(paths) == 0 {
		t.Fatal("the page loads nothing")
	}
	for _, m := range paths {
		if resp := b.do("GET", m[1], ""); resp.StatusCode != 200 || text(t, resp) == "" {
			t.Errorf("%s: %d", m[1], resp.StatusCode)
		}
		if resp := b.do("HEAD", m[1], ""); resp.StatusCode != 200 || text(t, resp) != "" {
			t.Errorf("HEAD %s: %d", m[1], resp.StatusCode)
		}
	}
	if p := readProblem(t, b.do("GET", "/assets/other.js", "")); p.Status != 404 || p.Code != wire.CodeNotFound {
		t.Errorf("%+v", p)
	}
}

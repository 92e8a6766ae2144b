package web

import (
	"net/http/httptest"
	"strings"
	"testing"
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
	for accept, page := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,
		"text/html;q=0.2": true, "*/*": false, "": false, "text/plain, text/html;q=0.5": false, "text/html;q=0, */*": false, "application/json": false,
	} {
		want := "text/plain; charset=utf-8"
		if page {
			want = "text/html; charset=utf-8"
		}
		for _, method := range []string{"GET", "HEAD"} {
			resp := b.do(method, "/", "", "Accept: "+accept)
			body := text(t, resp)
			if got := resp.Header.Get("Content-Type"); got != want || resp.StatusCode != 200 || method == "GET" && page != strings.HasPrefix(body, "<!doctype html>") {
				t.Errorf("%q, %s: got %s, expected %s: %.80s", accept, method, got, want, body)
			}
			if vary := strings.Join(resp.Header["Vary"], ", "); !strings.HasPrefix(vary, "Accept") {
				t.Errorf("%q, %s: Vary is %q; a cache would give a browser the text", accept, method, vary)
			}
		}
	}
}

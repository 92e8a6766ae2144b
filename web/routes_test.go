package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/web/wire"
)

func TestPathsAndMethodsThatAreNotThereAreProblemsToo(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, path := range []string{"/v2", "/v1/runs/", "/v1", "/v1/runs/x/y", "/..%2f..%2fetc/passwd", "/favicon.ico"} {
		if p := readProblem(t, b.do("GET", path, "")); p.Status != 404 || p.Code != wire.CodeNotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/runs", "GET, POST, OPTIONS"},
		{"PUT", "/v1/runs/x", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/runs/x/cancel", "POST, OPTIONS"},
		{"POST", "/v1/workflows", "GET, HEAD, OPTIONS"},
		{"PATCH", "/", "GET, HEAD, OPTIONS"},
	} {
		resp := b.do(tt.method, tt.path, "")
		if got := resp.Header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: Allow: %s", tt.method, tt.path, got)
		}
		if p := readProblem(t, resp); p.Status != 405 {
			t.Errorf("%+v", p)
		}
		resp = b.do("OPTIONS", tt.path, "")
		if got := resp.Header.Get("Allow"); resp.StatusCode != 204 || got != tt.allow {
			t.Errorf("OPTIONS %s: %d, Allow: %s", tt.path, resp.StatusCode, got)
		}
	}
	// A HEAD would start a run that nobody reads.
	if resp := b.do("HEAD", "/v1/runs?workflow=steps", ""); resp.StatusCode != 405 || b.steps.started() != 0 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// DP-12: OpenAI's clients read {"error": {…}}, and print "404 status code (no body)" for any other text.
func TestWhatOpenAIsClientsAskForInVainIsAnErrorOfTheirs(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, tt := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/v1/embeddings", 404, "unknown path /v1/embeddings; of OpenAI's API, this server supports /v1/chat/completions and /v1/models"},
		{"POST", "/v1/responses", 404, "unknown path /v1/responses;"},
		{"POST", "/v1/audio/transcriptions", 404, "unknown path /v1/audio/transcriptions;"},
		{"GET", "/v1/chat/completions/x", 404, "unknown path /v1/chat/completions/x;"},
		{"GET", "/v1/chat/completions", 405, "the method GET is not for /v1/chat/completions; expected POST or OPTIONS"},
		{"DELETE", "/v1/models/x", 405, "the method DELETE is not for /v1/models/x; expected GET, HEAD or OPTIONS"},
		{"GET", "/v1/files", 405, "the method GET is not for /v1/files; expected POST or OPTIONS"},
	} {
		resp := b.do(tt.method, tt.path, "")
		var e struct {
			Error struct{ Message, Type, Code string }
		}
		if body := text(t, resp); json.Unmarshal([]byte(body), &e) != nil || resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(e.Error.Message, tt.says) || e.Error.Type != "invalid_request_error" || e.Error.Code == "" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, body)
		}
	}
	// DH-15: a typo is no wish for OpenAI's API.
	for path, says := range map[string]string{"/v1/sesions": "unknown path /v1/sesions; did you mean /v1/sessions?", "/v1/run/x": "unknown path /v1/run/x; did you mean /v1/runs?", "/v1/": "unknown path /v1/"} {
		if p := readProblem(t, b.do("GET", path, "")); p.Status != 404 || p.Code != wire.CodeNotFound || p.Detail != says {
			t.Errorf("%s: %+v", path, p)
		}
	}
	// All that only this server has keeps its problem documents.
	own := map[string]bool{"chat": true, "models": true}
	for _, name := range resources {
		own[name] = true
	}
	_ = chi.Walk(b.s.router, func(_, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if below, ok := strings.CutPrefix(pattern, "/v1/"); ok {
			if first, _, _ := strings.Cut(below, "/"); !own[first] {
				t.Errorf("%s is in nobody's list", pattern)
			}
		}
		return nil
	})
}

func TestAPageOfAnotherSiteCannotStartOrCancelARun(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	defer st.finish()
	for name, header := range map[string]string{"by its fetch": "Sec-Fetch-Site: cross-site", "from a sibling": "Sec-Fetch-Site: same-site", "by its origin": "Origin: https://evil.test", "from nowhere": "Origin: null"} {
		t.Run(name, func(t *testing.T) {
			for _, try := range [][2]string{
				{"POST", "/v1/runs"},
				{"GET", "/v1/runs?workflow=steps"},
				{"POST", "/v1/runs/" + id + "/cancel"},
				{"GET", "/v1/runs/" + id + "/events?on_disconnect=cancel"},
				{"GET", "/v1/agui/steps/t?on%5Fdisconnect=cancel"},
				{"GET", "/v1/ui/steps/t/stream"},
			} {
				resp := b.do(try[0], try[1], `{"workflow":"steps"}`, header)
				if resp.StatusCode != 403 { // what it is may have no end
					t.Errorf("%s: %d", try, resp.StatusCode)
				} else if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "pages of other sites may not send this request") {
					t.Errorf("%s: %s %v", try, body, err)
				}
			}
		})
	}
	if b.steps.started() != 1 {
		t.Error("started")
	}
	// Its own page, and clients that are no browsers, may.
	for _, header := range []string{"Sec-Fetch-Site: same-origin", "Origin: " + b.url, "X-Other: x"} {
		resp := b.do("GET", "/v1/runs?workflow=steps&format=json", "", header, "Accept: text/event-stream", "Prefer: respond-async")
		if resp.StatusCode != 202 {
			t.Errorf("%s: %d", header, resp.StatusCode)
			continue
		}
		(<-b.steps.came).finish()
	}
}

// FT-34
func TestAPanicInAHandlerIsAnAnswerWithAnIDThatIsInTheLog(t *testing.T) {
	b := newBench(t, nil)
	defer b.s.Close()
	h := b.s.outermost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			w.WriteHeader(200)
			io.WriteString(w, "half")
		}
		panic("secret-of-the-program")
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/early", nil))
	var p wire.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 500 || p.Code != wire.CodeInternal || p.ID == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("says too much: %s", w.Body)
	}
	if log := b.log.String(); !strings.Contains(log, p.ID) || !strings.Contains(log, "secret-of-the-program") || !strings.Contains(log, "routes_test.go") {
		t.Errorf("the log does not tell: %s", log)
	}
	// An answer that has begun is broken off.
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("%v", cause)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/late", nil))
	t.Error("ended cleanly")
}

func TestAListenerThatIsInUseIsAnError(t *testing.T) {
	b := newBench(t, nil).serve()
	l, err := b.s.Listen(t.Context(), strings.TrimPrefix(b.url, "http://"))
	if err == nil {
		l.Close()
		t.Fatal("listened twice")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}

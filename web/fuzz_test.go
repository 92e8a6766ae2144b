package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape/tapetest"
)

// Whatever is asked, by whatever method, of whatever path, is answered in its kind and is nobody's fault here.
func FuzzRequest(f *testing.F) {
	store := tapetest.NewMemory(nil)
	f.Cleanup(func() { store.Close() })
	b := newBench(f, func(o *Options) {
		o.Tapes, o.Workspace = store, f.TempDir()
		o.InlineWorkflows, o.RunTimeout = true, 20*time.Millisecond // the stepper's runs wait to be told what to do
	})
	b.session("s", "hello")
	f.Cleanup(func() { _ = b.s.Close() })
	for _, seed := range []struct{ method, target, body, name, value string }{
		{"POST", "/v1/runs", `{"workflow":"chat","input":"x"}`, "Accept", "text/event-stream"},
		{"POST", "/v1/runs?done=1&html=1", `{"workflow":"chat","input":{"question":"x"},"filter":{"exclude":["**"]}}`, "Idempotency-Key", "k"},
		{"POST", "/v1/runs", `{"workflow":{"bots":{"w":{"prompt":"{{ input.q }}","root":"a","format":"text"}}},"input":{"q":"x"}}`, "Prefer", "respond-async"},
		{"GET", "/v1/runs?workflow=chat&input=x&format=jsonl", "", "Last-Event-ID", "q6myrp4qkegvdwscbennnkcpyq:17"},
		{"GET", "/v1/runs/q6myrp4qkegvdwscbennnkcpyq/events?after=3&snapshot=1", "", "Accept", "application/x-ndjson"},
		{"POST", "/v1/runs/q6myrp4qkegvdwscbennnkcpyq/approvals/q6myrp4qkegvdwscbennnkcpyq", `{"decision":"approve"}`, "", ""},
		{"POST", "/v1/chat/completions", `{"model":"chat","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "Authorization", "Bearer none"},
		{"POST", "/v1/chat/completions", `{"model":"test:story","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"$ref":"#"}}},"messages":[{"role":"user","content":"x"}]}`, "", ""},
		{"POST", "/v1/ui/chat?v=6", `{"id":"c","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, "", ""},
		{"POST", "/v1/ui/chat/object", `"x"`, "", ""},
		{"POST", "/v1/agui/chat?on_busy=reject", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"x"}],"state":{},"forwardedProps":{"input":"x"}}`, "", ""},
		{"GET", "/v1/agui/chat/t", "", "", ""},
		{"GET", "/v1/sessions?limit=1&after=x", "", "", ""},
		{"GET", "/v1/sessions/s/tape?kinds=message&q=x&after=0&limit=2", "", "Accept", "application/x-ndjson"},
		{"POST", "/v1/sessions/s/handoff", `{"name":"n","state":{"a":1}}`, "", ""},
		{"POST", "/v1/sessions/s/fork", `{"session":"t","at":1}`, "", ""},
		{"DELETE", "/v1/sessions/s%2F", "", "", ""},
		{"OPTIONS", "/v1/runs", "", "Origin", "http://a.test"},
		{"GET", "/v1/workflows/chat", "", "Host", "x"},
		{"HEAD", "/v1/models/test:story", "", "", ""},
	} {
		f.Add(seed.method, seed.target, seed.body, seed.name, seed.value)
	}
	f.Fuzz(func(t *testing.T, method, target, body, name, value string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1/", strings.NewReader(body))
		if err != nil || !strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \x00\r\n") {
			return // net/http has refused it
		}
		if r.URL, err = r.URL.Parse("http://127.0.0.1" + target); err != nil || r.URL.Host != "127.0.0.1" {
			return
		}
		r.RequestURI, r.RemoteAddr = target, "127.0.0.1:1"
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if name != "" {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		defer func() {
			// So an answer is broken off: of a run that took too long, or for who does not wait any more.
			if e := recover(); e != nil && e != http.ErrAbortHandler { //nolint:errorlint // it is the value itself
				panic(e)
			}
		}()
		b.s.Handler().ServeHTTP(w, r)
		if ctx.Err() != nil {
			return // nobody waits for the answer any more
		}
		media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		switch {
		case w.Code == http.StatusInternalServerError || strings.Contains(b.log.String(), "panicked"):
			t.Errorf("%d: %s\n%s", w.Code, w.Body, b.log)
		case method == http.MethodHead || w.Body.Len() == 0:
		case media == "application/json" || media == "application/problem+json":
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%d: %q", w.Code, w.Body)
			}
		case media == "text/event-stream" || media == "application/x-ndjson":
			if strings.ContainsAny(w.Body.String(), "\r\x00\u2028\u2029\u0085") {
				t.Errorf("%d: %q", w.Code, w.Body)
			}
		}
		for name, values := range w.Header() {
			for _, value := range values {
				if strings.ContainsAny(name+value, "\r\n\x00") {
					t.Errorf("header %q: %q", name, value)
				}
			}
		}
	})
}

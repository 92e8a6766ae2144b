package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire"
)

// bare is a server that only reads requests.
func bare(o Options) *Server {
	o = o.withDefaults()
	return &Server{o: o, shed: newShed(o.Limits, o.Log, "")}
}

func TestABodyOfAnotherKindIsRefusedWith415(t *testing.T) {
	for name, header := range map[string]http.Header{
		"text":       {"Content-Type": {"text/plain"}},
		"a form":     {"Content-Type": {"application/x-www-form-urlencoded"}},
		"rubbish":    {"Content-Type": {";;;"}},
		"compressed": {"Content-Encoding": {"gzip"}}, // SE-24
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{}`))
			r.Header = header
			_, p := bare(Options{}).readJSON(httptest.NewRecorder(), new(recorder).request(r))
			if p == nil || p.Status != 415 || p.Code != wire.CodeInvalid {
				t.Errorf("%+v", p)
			}
		})
	}
}

// SE-14
func TestABodyAtTheLimitIsTakenAndOneByteMoreIsNot(t *testing.T) {
	s := bare(Options{MaxBody: 100})
	for size, status := range map[int]int{100: 0, 101: 413, 100_000: 413} {
		body := `{"workflow":"` + strings.Repeat("w", size-15) + `"}`
		_, p := s.readJSON(httptest.NewRecorder(), new(recorder).request(httptest.NewRequest("POST", "/v1/runs", strings.NewReader(body))))
		if status == 0 && p != nil || status != 0 && (p == nil || p.Status != status || p.Code != wire.CodeTooLarge) {
			t.Errorf("%d bytes: %+v", size, p)
		}
	}
}

// DH-06: a photo in a data URL needs no other setting, and the refusal of a larger one names the ways out.
func TestABodyOfAWireMayHaveAFileInIt(t *testing.T) {
	s := bare(Options{})
	photo := (s.o.Files.MaxSize + 2) / 3 * 4 // in base64
	for _, path := range []string{"/v1/runs", "/v1/chat/completions", "/v1/ui/assistant", "/v1/agui/assistant"} {
		for size, status := range map[int64]int{3 << 20: 0, photo + 500: 0, photo + 2<<20: 413} {
			body := io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(endless{}, size), strings.NewReader(`"}`))
			_, p := s.readJSON(httptest.NewRecorder(), new(recorder).request(httptest.NewRequest("POST", path, body)))
			switch {
			case status == 0 && p != nil, status != 0 && (p == nil || p.Status != status):
				t.Errorf("%s of %d bytes: %+v", path, size, p)
			case p != nil && (!strings.Contains(p.Detail, "/v1/files") || !strings.Contains(p.Detail, "files.max_size") || !strings.Contains(p.Detail, "http.max_body")):
				t.Errorf("%s: %s", path, p.Detail)
			}
		}
	}
	r := httptest.NewRequest("POST", "/v1/sessions/s/fork", io.LimitReader(endless{}, 3<<20))
	_, p := s.readJSON(httptest.NewRecorder(), new(recorder).request(r))
	if p == nil || p.Status != 413 || !strings.Contains(p.Detail, "http.max_body") {
		t.Errorf("%+v", p)
	}
}

// endless is a text that has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// DS-10: what is sent back of a body is bounded, whatever its wire.
func TestTheRefusalOfABodyIsShort(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	long := strings.Repeat("n", 128<<10)
	for _, c := range [][2]string{
		{"/v1/runs", `{"` + long + `":1}`},
		{"/v1/runs", `{"workflow":"` + long + `"}`},
		{"/v1/runs", `{"workflow":"chat","input":{"question":"q","` + long + `":1}}`},
		{"/v1/runs", `{"agent":"assistant","input":"q","session":"` + long + `"}`},
		{"/v1/runs", `{"` + long + `":1,"` + long + `":2}`},
		{"/v1/runs", `{"workflow":"chat","filter":{"include":["` + long + `"]}}`},
		{"/v1/runs", `{"workflow":"chat","params":{"a":"{{"},"options":{"` + long + `":1}}`},
		{completions, chatBody(long, "q", "")},
		{completions, chatBody("assistant", "q", `,"user":"`+long+`"`)},
		{completions, chatBody("test:story", "q", `,"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/`+long+`"}}}`)},
		{completions, chatBody("test:story", "q", `,"response_format":{"type":"`+long+`"}`)},
		{"/v1/ui/assistant", `{"id":"t","` + long + `":1,"messages":[{"role":"` + long + `"}]}`},
		{"/v1/agui/assistant", `{"threadId":"` + long + `","` + long + `":1}`},
		{"/v1/sessions/s/fork", `{"` + long + `":1}`},
	} {
		resp := a.do("POST", c[0], c[1])
		if said := text(t, resp); resp.StatusCode < 400 || resp.StatusCode >= 500 || len(said) > 4<<10 {
			t.Errorf("%s %.60s: %d, %d bytes: %.200s", c[0], c[1], resp.StatusCode, len(said), said)
		}
	}
}

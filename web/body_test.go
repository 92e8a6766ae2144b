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
			_, p := bare(Options{}).readJSON(httptest.NewRecorder(), r)
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
		_, p := s.readJSON(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/runs", strings.NewReader(body)))
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
			_, p := s.readJSON(httptest.NewRecorder(), httptest.NewRequest("POST", path, body))
			switch {
			case status == 0 && p != nil, status != 0 && (p == nil || p.Status != status):
				t.Errorf("%s of %d bytes: %+v", path, size, p)
			case p != nil && (!strings.Contains(p.Detail, "/v1/files") || !strings.Contains(p.Detail, "files.max_size") || !strings.Contains(p.Detail, "http.max_body")):
				t.Errorf("%s: %s", path, p.Detail)
			}
		}
	}
	_, p := s.readJSON(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/sessions/s/fork", io.LimitReader(endless{}, 3<<20)))
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

package web

import (
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

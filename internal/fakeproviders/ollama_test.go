package fakeproviders

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOllamaRefusesWhatOllamaRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"a format that is none": `{"model":"m","format":"yaml"}`, "a list as format": `{"model":"m","format":[]}`, "no JSON": `{`,
		"arguments in a string": `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`,
		"an image by address":   `{"model":"m","messages":[{"role":"user","images":["https://example.com/cat.png"]}]}`,
		"parts as content":      `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
	} {
		w := httptest.NewRecorder()
		new(Server).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/chat", strings.NewReader(body)))
		if said, _ := io.ReadAll(w.Result().Body); w.Code != http.StatusBadRequest || !strings.HasPrefix(string(said), `{"error":"`) {
			t.Errorf("%s: %d %s", name, w.Code, said)
		}
	}
}

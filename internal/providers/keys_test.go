package providers

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
)

// DS-08: a key that was rotated in its file counts from the next request on.
func TestKeysOfProvidersAreExchangedWithoutARestart(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"one": "first-key-1", "two": "first-key-2",
		"lingserve.yaml": "providers:\n  openai: {key: {file: one}, base_url: '" + server.URL + "', models: [a]}\n  anthropic: {key: {file: two}, base_url: '" + server.URL + "', models: [a]}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	models, keys, stop, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	ask := func(name string) {
		m, err := models.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		for range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "hi"}}}) {
			continue
		}
	}
	ask("openai:a")
	ask("anthropic:a")
	if err := os.WriteFile("two", []byte("second-key-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := c.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"anthropic"}, keys.Reload(next)); d != "" {
		t.Error(d)
	}
	ask("openai:a")
	ask("anthropic:a")
	if d := cmp.Diff([]string{"Bearer first-key-1", "first-key-2", "Bearer first-key-1", "second-key-2"}, sent); d != "" {
		t.Error(d)
	}
}

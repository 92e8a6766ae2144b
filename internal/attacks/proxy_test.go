//go:build nightly

package attacks

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// DA-08: nothing that the server asks over HTTP goes through the environment's proxy, or all of it, as the setting says.
func TestProxyOfTheEnvironmentIsUsedForEverythingOrNothing(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		var direct, through text
		// It answers nothing that anybody waits for: who has asked is what matters.
		record := func(log *text) *httptest.Server {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = log.Write([]byte(r.Method + " " + r.Host + " " + r.URL.Path + "\n"))
				w.WriteHeader(http.StatusBadGateway)
			}))
			t.Cleanup(s.Close)
			return s
		}
		u, err := url.Parse(record(&direct).URL)
		if err != nil {
			t.Fatal(err)
		}
		at := "http://0.0.0.0:" + u.Port() // no proxy is used for a loopback address; this one leads here, too
		proxy := record(&through).URL
		dir := t.TempDir()
		config := `
model: openai:m
providers: {openai: {key: sk-0123456789, base_url: "` + at + `/model", models: [m]}}
retries: {attempts: 1}
mcp: {tools: {url: "` + at + `/mcp"}}
auth: {keys: ["ann:` + userKey + `:user"], issuer: "https://login.example", audience: [ling], jwks: "https://0.0.0.0:` + u.Port() + `/jwks"}
channels:
  telegram: {token: "4242:abc", api: "` + at + `/telegram", dm: {policy: open}}
  slack: {token: xoxb-1, signing_secret: 0123456789abcdef, api: "` + at + `/slack", dm: {policy: open}}
  feishu: {app_id: cli_a1, app_secret: s, encrypt_key: 0123456789abcdef, api: "` + at + `/feishu", dm: {policy: open}}
`
		if proxied {
			config += "upstream: {proxy_env: true}\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := program.Start(t.Context(), binaryPath(t), dir, &program.Options{Env: []string{
			"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy, "ALL_PROXY=" + proxy,
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + at + "/otlp", "OTEL_BSP_SCHEDULE_DELAY=50",
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
		req, err := http.NewRequestWithContext(t.Context(), "POST", p.URL+"/v1/runs", strings.NewReader(`{"agent":"assistant","input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+userKey)
		req.Header.Set("Content-Type", "application/json")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		want := []string{"/model/", "/mcp", "/telegram/", "/slack/", "/feishu/", "/otlp/"}
		asked := &direct
		if proxied {
			want, asked = append(want, "CONNECT 0.0.0.0:"), &through
		}
		for _, one := range want {
			for !strings.Contains(asked.String(), one) { // until the deadline of the tests
				time.Sleep(time.Millisecond)
			}
		}
		// The issuer's keys are asked for before all of that; without a proxy the answer is no TLS, which the log says.
		if !proxied {
			if _, err := p.Log.Find(t.Context(), regexp.MustCompile(`keys.*(server gave HTTP response|tls:)`)); err != nil {
				t.Errorf("the issuer was not asked: %v", err)
			}
		}
		if other := map[bool]*text{false: &through, true: &direct}[proxied].String(); other != "" {
			t.Errorf("proxy %v: what went the other way:\n%s", proxied, other)
		}
	}
}

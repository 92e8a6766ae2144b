//go:build nightly

package attacks

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// DA-08: nothing that the server asks over HTTP goes through the environment's proxy, or all of it, as the setting says.
func TestDA_08_TheEnvironmentsProxyIsUsedForEverythingOrNothing(t *testing.T) {
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
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
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
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, one := range want {
			for !strings.Contains(asked.String(), one) {
				if ctx.Err() != nil {
					t.Fatalf("proxy %v: nobody has asked for %s:\n%s", proxied, one, asked.String())
				}
				time.Sleep(time.Millisecond)
			}
		}
		// The issuer's keys are asked for before all of that; without a proxy the answer is no TLS, which the log says.
		if !proxied {
			if _, err := p.Log.Find(ctx, regexp.MustCompile(`keys.*(server gave HTTP response|tls:)`)); err != nil {
				t.Errorf("the issuer was not asked: %v", err)
			}
		}
		if other := map[bool]*text{false: &through, true: &direct}[proxied].String(); other != "" {
			t.Errorf("proxy %v: what went the other way:\n%s", proxied, other)
		}
	}
}

// DA-08: one place decides which proxy is used.
func TestDA_08_OnePlaceDecidesOfProxies(t *testing.T) {
	const root, place = "../..", "internal/egress/egress.go"
	// A client without a transport of its own uses the environment's proxy, too.
	elsewhere := regexp.MustCompile(`http\.(ProxyFromEnvironment|DefaultTransport|DefaultClient|Get|Post|PostForm|Head)\b|\bnew\(http\.Client\)|http\.Client\{(}|Timeout|CheckRedirect|Jar)`)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"node_modules", "testdata", "bench", "tools", "examples"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && path != root || strings.HasPrefix(d.Name(), "fake")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if name, _ := filepath.Rel(root, path); filepath.ToSlash(name) != place {
			for _, found := range elsewhere.FindAllString(string(text), -1) {
				t.Errorf("%s has %s; use internal/egress", name, found)
			}
		}
		return nil
	})
	if err != nil || files < 200 {
		t.Errorf("%d files, %v", files, err)
	}
}

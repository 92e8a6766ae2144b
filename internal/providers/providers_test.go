package providers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// modelsOfSettings makes the providers of a configuration file and an environment.
func modelsOfSettings(t *testing.T, file string, environ ...string) *adapter.Registry {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lingserve.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(nil, environ)
	if err != nil {
		t.Fatal(err)
	}
	models, _, stop, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return models
}

// answerOf returns what a model answers to a question.
func answerOf(t *testing.T, models *adapter.Registry, name string) (text, model string) {
	t.Helper()
	m, err := models.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for chunk, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "hi"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(chunk.Text)
		model += chunk.Model
	}
	return b.String(), model
}

func TestEveryProviderIsAskedAtItsAddressWithItsKey(t *testing.T) {
	type request struct{ Path, Query, Auth, APIKey, Model string }
	var asked request
	stand := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		asked.Model = r.Model
		return fakeproviders.Answer{Text: "hello"}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = request{Path: r.URL.Path, Query: r.URL.RawQuery, Auth: r.Header.Get("Authorization"), APIKey: r.Header.Get("Api-Key")}
		stand.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, tc := range []struct {
		name    string
		file    string
		environ []string
		model   string
		want    request
	}{
		{
			name: "OpenAI's variables", environ: []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=" + server.URL + "/v1"},
			model: "openai:gpt", want: request{Path: "/v1/chat/completions", Auth: "Bearer k", Model: "gpt"},
		},
		{
			name: "a compatible server without a key", environ: []string{"OPENAI_BASE_URL=" + server.URL + "/v1"},
			model: "openai:gpt", want: request{Path: "/v1/chat/completions", Model: "gpt"},
		},
		{
			name: "Azure's variables", environ: []string{"AZURE_OPENAI_ENDPOINT=" + server.URL, "AZURE_OPENAI_API_KEY=k", "OPENAI_API_VERSION=2025-01-01-preview"},
			model: "azure:my-gpt", want: request{Path: "/openai/deployments/my-gpt/chat/completions", Query: "api-version=2025-01-01-preview", APIKey: "k", Model: "my-gpt"},
		},
		{
			name: "Azure without a version", environ: []string{"AZURE_OPENAI_ENDPOINT=" + server.URL, "AZURE_OPENAI_API_KEY=k"},
			model: "azure:my-gpt", want: request{Path: "/openai/deployments/my-gpt/chat/completions", Query: "api-version=2024-10-21", APIKey: "k", Model: "my-gpt"},
		},
		{ // MO-31
			name: "Responses by OpenAI's variables", environ: []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=" + server.URL + "/v1"},
			model: "responses:gpt", want: request{Path: "/v1/responses", Auth: "Bearer k", Model: "gpt"},
		},
		{
			name: "Responses by Azure's variables", environ: []string{"AZURE_OPENAI_ENDPOINT=" + server.URL, "AZURE_OPENAI_API_KEY=k", "OPENAI_API_VERSION=2024-10-21"},
			model: "azure-responses:gpt", want: request{Path: "/openai/v1/responses", APIKey: "k", Model: "gpt"},
		},
		{
			name: "Anthropic's variables", environ: []string{"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=" + server.URL},
			model: "anthropic:claude", want: request{Path: "/v1/messages", Model: "claude"},
		},
		{
			name: "Gemini's variables", environ: []string{"GOOGLE_API_KEY=k", "GEMINI_BASE_URL=" + server.URL},
			model: "gemini:flash", want: request{Path: "/v1beta/models/flash:streamGenerateContent", Query: "alt=sse", Model: "flash"},
		},
		{
			name: "Bedrock's variables", environ: []string{"AWS_BEARER_TOKEN_BEDROCK=k", "AWS_REGION=r-1", "BEDROCK_BASE_URL=" + server.URL},
			model: "bedrock:claude", want: request{Path: "/model/claude/converse-stream", Auth: "Bearer k", Model: "claude"},
		},
		{
			name: "Vertex AI of the file", file: "providers: {vertex: {project: p, key: k, base_url: " + server.URL + "}}",
			model: "vertex:flash", want: request{Path: "/v1beta1/projects/p/locations/global/publishers/google/models/flash:streamGenerateContent", Query: "alt=sse", Model: "flash"},
		},
		{
			name: "Coze's variables", environ: []string{"COZE_API_TOKEN=k", "COZE_API_BASE=" + server.URL},
			model: "coze:7428", want: request{Path: "/v3/chat", Auth: "Bearer k", Model: "7428"},
		},
		{
			name: "Ollama's variable", environ: []string{"OLLAMA_HOST=" + strings.TrimPrefix(server.URL, "http://")},
			model: "ollama:llama3.2:3b", want: request{Path: "/api/chat", Model: "llama3.2:3b"},
		},
		{
			name: "DeepSeek's variable", environ: []string{"DEEPSEEK_API_KEY=k", "LINGSERVE_PROVIDERS_DEEPSEEK_BASE_URL=" + server.URL + "/v1"},
			model: "deepseek:deepseek-flash", want: request{Path: "/v1/chat/completions", Auth: "Bearer k", Model: "deepseek-flash"},
		},
		{
			name: "a preset of the file", environ: []string{"MINE=k"}, file: "providers: {qwen: {key: {env: MINE}, base_url: " + server.URL + "/x/v1}}",
			model: "qwen:qwen-plus", want: request{Path: "/x/v1/chat/completions", Auth: "Bearer k", Model: "qwen-plus"},
		},
		{
			name: "Azure of the file", file: "providers: {office: {kind: azure, base_url: " + server.URL + ", key: k, api_version: v9}}",
			model: "office:gpt-4o", want: request{Path: "/openai/deployments/gpt-4o/chat/completions", Query: "api-version=v9", APIKey: "k", Model: "gpt-4o"},
		},
		{
			name: "Ollama of the file", file: "providers: {gpu: {kind: ollama, base_url: " + server.URL + "/behind, key: k}}",
			model: "gpu:llama3.2", want: request{Path: "/behind/api/chat", Auth: "Bearer k", Model: "llama3.2"},
		},
		{
			name: "Coze of the file", file: "providers: {team: {kind: coze, base_url: " + server.URL + ", key: k}}",
			model: "team:7428", want: request{Path: "/v3/chat", Auth: "Bearer k", Model: "7428"},
		},
		{
			name: "a compatible server of the file", file: "providers: {box: {kind: openai, base_url: " + server.URL + "/v1}}",
			model: "box:qwen3-32b", want: request{Path: "/v1/chat/completions", Model: "qwen3-32b"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked = request{}
			text, model := answerOf(t, modelsOfSettings(t, tc.file, tc.environ...), tc.model)
			if text != "hello" || model != tc.model {
				t.Errorf("%q by %q", text, model)
			}
			if diff := cmp.Diff(tc.want, asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheUserOfCozeIsTheConfigured(t *testing.T) {
	var body string
	server := httptest.NewServer(&fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		body = string(r.Body)
		return fakeproviders.Answer{Text: "hello"}
	}})
	defer server.Close()
	answerOf(t, modelsOfSettings(t, "providers: {coze: {base_url: "+server.URL+", key: k, user: web}}"), "coze:7428")
	if !strings.Contains(body, `"user_id":"web"`) {
		t.Errorf("it was asked %s", body)
	}
}

func TestWhatIsConfiguredIsListed(t *testing.T) {
	models := modelsOfSettings(t, "providers:\n  ollama: {models: [\"llama3.2:3b\"]}\n  box: {kind: openai, base_url: http://127.0.0.1:1/v1, models: [a, b]}\n  azure: {models: [never]}\n",
		"OPENAI_API_KEY=k", "MOONSHOT_API_KEY=k")
	want := []string{"box:a", "box:b", "demo:demo", "demo:fast", "moonshot:kimi-k2.6", "ollama:llama3.2:3b", "openai:gpt-6-luna"}
	if diff := cmp.Diff(want, models.Names()); diff != "" {
		t.Error(diff)
	}
	if models.Default != "openai:gpt-6-luna" {
		t.Errorf("the default is %s", models.Default)
	}
}

func TestAModelOfAProviderThatIsNotSetUpSaysWhatIsMissing(t *testing.T) {
	models := modelsOfSettings(t, "")
	c, err := config.Load(nil, []string{"LINGSERVE_CONFIG=" + os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Providers {
		_, err := models.Model(p.Name + ":any")
		missing := p.Missing()
		if e, ok := errors.AsType[*adapter.Error](err); ok != (missing != "") || ok && (e.Code != adapter.CodeAuth || !strings.HasSuffix(e.Message, missing)) {
			t.Errorf("%s: %v, want %s", p.Name, err, missing)
		}
	}
}

// The server of a chat that was left is told so in the background; stop waits for that.
func TestStopWaitsForWhatProvidersStillDo(t *testing.T) {
	stand := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Text: strings.Repeat("hello ", 1000), Pace: 20}
	}}
	server := httptest.NewServer(stand)
	defer server.Close()
	c, err := config.Load(nil, []string{"COZE_API_TOKEN=k", "COZE_API_BASE=" + server.URL, "LINGSERVE_CONFIG="})
	if err != nil {
		t.Fatal(err)
	}
	models, _, stop, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.Model("coze:7428")
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "hi"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Text != "" {
			break
		}
	}
	stop()
	if n := stand.Cancels(); n != 1 {
		t.Errorf("the chat was canceled %d times", n)
	}
}

// MO-22, MO-31: what a provider has beside its address reaches the wire, and options by the place that is nearest to the request.
func TestHeadersProxiesAndOptionsOfProvidersReachTheWire(t *testing.T) {
	var asked *http.Request
	var body string
	stand := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		body = string(r.Body)
		return fakeproviders.Answer{Text: "hello"}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		stand.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, kind := range []string{"openai", "ollama", "coze"} {
		models := modelsOfSettings(t, `
providers:
  x:
    kind: `+kind+`
    base_url: http://models.test
    key: k
    proxy: `+server.URL+`
    timeout: 90s
    headers: {X-Team: docs, user-agent: ours}
    options: {temperature: 0.1, extra_body: {mine: 1}}
models:
  x:m: {options: {temperature: 0.2}}
`)
		if text, _ := answerOf(t, models, "x:m"); text != "hello" {
			t.Errorf("%s: %q", kind, text)
		}
		if strings.TrimSuffix(asked.URL.Host, ":80") != "models.test" || asked.Header.Get("X-Team") != "docs" || asked.Header.Get("User-Agent") != "ours" {
			t.Errorf("%s: %s %v", kind, asked.URL, asked.Header)
		}
		if !strings.Contains(body, `"mine":1`) || kind != "coze" && !strings.Contains(body, `"temperature":0.2`) {
			t.Errorf("%s: %s", kind, body)
		}
		if models.Settings["x"].Total != 90*time.Second {
			t.Errorf("%+v", models.Settings["x"])
		}
	}
}

// A profile of Amazon's programs that cannot be read keeps nobody from starting who has not asked for Bedrock (MO-31).
func TestAForeignProfileOfAmazonStopsNothing(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	models := modelsOfSettings(t, "", "AWS_REGION=eu-west-1", "AWS_PROFILE=no-such")
	_, err := models.Model("bedrock:claude")
	if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeAuth || strings.Contains(e.Message, "no-such") {
		t.Errorf("%v", err)
	}
}

func TestAQueueOfNoneIsNotTheDefaultQueue(t *testing.T) {
	if s := slotsOf(config.Limit{Upstream: 3}); s != (adapter.Slots{Max: 3, Queue: -1}) {
		t.Errorf("%+v", s)
	}
}

package config

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// MO-31: the native providers and the presets work from the variables that people have already.
func TestNewProvidersWorkFromTheVariablesTheirUsersHave(t *testing.T) {
	for _, tc := range []struct {
		name    string
		environ []string
		want    Provider
		model   string // the default
	}{
		{"Anthropic", []string{"ANTHROPIC_API_KEY=k"}, Provider{
			Name: "anthropic", Kind: KindAnthropic, BaseURL: "https://api.anthropic.com", Key: "k", KeyName: "ANTHROPIC_API_KEY", Models: []string{"claude-sonnet-4-6"}, Set: true,
		}, "anthropic:claude-sonnet-4-6"},
		{"a gateway to Anthropic, without a key", []string{"ANTHROPIC_BASE_URL=http://127.0.0.1:1"}, Provider{
			Name: "anthropic", Kind: KindAnthropic, BaseURL: "http://127.0.0.1:1", KeyName: "ANTHROPIC_API_KEY", Models: []string{"claude-sonnet-4-6"}, Set: true,
		}, "anthropic:claude-sonnet-4-6"},
		{"Gemini", []string{"GEMINI_API_KEY=k"}, Provider{
			Name: "gemini", Kind: KindGemini, BaseURL: "https://generativelanguage.googleapis.com", Key: "k", KeyName: "GEMINI_API_KEY", Models: []string{"gemini-flash-latest"}, Set: true,
		}, "gemini:gemini-flash-latest"},
		{"Gemini by Google's key", []string{"GOOGLE_API_KEY=k"}, Provider{
			Name: "gemini", Kind: KindGemini, BaseURL: "https://generativelanguage.googleapis.com", Key: "k", KeyName: "GOOGLE_API_KEY", Models: []string{"gemini-flash-latest"}, Set: true,
		}, "gemini:gemini-flash-latest"},
		{"Vertex AI, which nobody has asked for", []string{"GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=eu"}, Provider{
			Name: "vertex", Kind: KindVertex, Project: "p", Location: "eu",
		}, "demo:demo"},
		{"Amazon, which nobody has asked for", []string{"AWS_DEFAULT_REGION=eu-west-1", "AWS_PROFILE=work"}, Provider{
			Name: "bedrock", Kind: KindBedrock, Region: "eu-west-1", Profile: "work",
		}, "demo:demo"},
		{"Amazon by a key", []string{"AWS_REGION=r", "AWS_DEFAULT_REGION=eu-west-1", "AWS_BEARER_TOKEN_BEDROCK=k"}, Provider{
			Name: "bedrock", Kind: KindBedrock, Region: "r", Key: "k", KeyName: "AWS_BEARER_TOKEN_BEDROCK", Set: true,
		}, "demo:demo"},
		{"Responses by what OpenAI has", []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=http://127.0.0.1:1/v1", "OPENAI_ORG_ID=org"}, Provider{
			Name: "responses", Kind: KindResponses, BaseURL: "http://127.0.0.1:1/v1", Key: "k", KeyName: "OPENAI_API_KEY", Organization: "org",
		}, "openai:gpt-4o-mini"},
		{"Responses with a key of its own", []string{"OPENAI_API_KEY=k", "OPENAI_BASE_URL=http://127.0.0.1:1/v1", "LINGSERVE_PROVIDERS_RESPONSES_KEY=mine"}, Provider{
			Name: "responses", Kind: KindResponses, BaseURL: "https://api.openai.com/v1", Key: "mine", KeyName: "LINGSERVE_PROVIDERS_RESPONSES_KEY", Set: true,
		}, "openai:gpt-4o-mini"},
		{"Responses at Azure", []string{"AZURE_OPENAI_API_KEY=k", "AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com", "OPENAI_API_VERSION=2024-10-21"}, Provider{
			Name: "azure-responses", Kind: KindAzureResponses, BaseURL: "https://x.openai.azure.com", Key: "k", KeyName: "AZURE_OPENAI_API_KEY",
		}, "demo:demo"},
		{"Responses at Azure by its own variables", []string{"LINGSERVE_PROVIDERS_AZURE_RESPONSES_KEY=k", "LINGSERVE_PROVIDERS_AZURE_RESPONSES_BASE_URL=https://x"}, Provider{
			Name: "azure-responses", Kind: KindAzureResponses, BaseURL: "https://x", Key: "k", KeyName: "LINGSERVE_PROVIDERS_AZURE_RESPONSES_KEY", Set: true,
		}, "demo:demo"},
		{"Mistral elsewhere", []string{"MISTRAL_API_KEY=k", "MISTRAL_BASE_URL=http://127.0.0.1:1/v1"}, Provider{
			Name: "mistral", Kind: KindOpenAI, BaseURL: "http://127.0.0.1:1/v1", Key: "k", KeyName: "MISTRAL_API_KEY", Models: []string{"mistral-small-latest"}, Set: true,
		}, "mistral:mistral-small-latest"},
		{"Cohere by its older variable", []string{"CO_API_KEY=k"}, Provider{
			Name: "cohere", Kind: KindOpenAI, BaseURL: "https://api.cohere.ai/compatibility/v1", Key: "k", KeyName: "CO_API_KEY", Models: []string{"command-a-plus-05-2026"}, Set: true,
		}, "cohere:command-a-plus-05-2026"},
		{"vLLM on this machine", nil, Provider{Name: "vllm", Kind: KindOpenAI, BaseURL: "http://127.0.0.1:8000/v1", KeyName: "VLLM_API_KEY"}, "demo:demo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := mustLoad(t, "", tc.environ)
			got := provider(t, c, tc.want.Name)
			if tc.want.Location == "" && got.Kind == KindVertex {
				tc.want.Location = "global"
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if missing := got.Missing(); missing != "" || c.Model != tc.model || len(c.Warnings) > 0 {
				t.Errorf("missing: %q, model %s, warnings %q", missing, c.Model, c.Warnings)
			}
		})
	}
	for name, want := range map[string]string{
		"vertex":  "Vertex AI needs a project; set GOOGLE_CLOUD_PROJECT or providers.vertex.project",
		"bedrock": "Amazon Bedrock needs a region; set AWS_REGION or providers.bedrock.region",
		"zai":     "Z.ai needs a key; set ZAI_API_KEY or providers.zai.key", "responses": "OpenAI Responses needs a key; set OPENAI_API_KEY or providers.responses.key",
	} {
		if got := provider(t, mustLoad(t, "", nil), name).Missing(); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

const manySettings = `
providers:
  groq:
    timeout: 2m
    headers:
      X-Team: docs
      x-gateway-token: {env: TOKEN}
    options: {service_tier: flex, reasoning: {effort: low}}
    proxy: http://me:sesame@127.0.0.1:3128
  claude: {kind: anthropic, key: k, headers: {anthropic-beta: "context-1m-2025-08-07"}, options: {seed: 7}}
  cloud: {kind: vertex, project: p}
  aws: {kind: bedrock, region: r}
  office: {kind: openai, base_url: http://127.0.0.1:1/v1, organization: org-1}
models:
  "groq:openai/gpt-oss-120b":
    options:
      temperature: 0.2
      extra_body: {top_k: 40, nested: {a: [1, true, null]}}
  claude:claude-opus-4.7: {options: {verbosity: low}}
agents:
  assistant: {model: "coze:7", options: {temperature: 1}}
`

// MO-22, MO-31: headers, time, proxy and options of providers; options of models and agents; a warning for what is not sent.
func TestWhatAProviderHasBesideItsAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lingserve.yaml", []byte(manySettings), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(nil, []string{"TOKEN=t-CANARY-1"})
	if err != nil {
		t.Fatal(err)
	}
	groq := provider(t, c, "groq")
	if diff := cmp.Diff(http.Header{"X-Team": {"docs"}, "X-Gateway-Token": {"t-CANARY-1"}}, groq.Header()); diff != "" {
		t.Error(diff)
	}
	if groq.Timeout != 2*time.Minute || groq.Proxy != "http://me:sesame@127.0.0.1:3128" || groq.Options.ServiceTier != "flex" || groq.Options.Reasoning.Effort != "low" {
		t.Errorf("%+v", groq)
	}
	if p := provider(t, c, "claude"); p.BaseURL != "https://api.anthropic.com" || p.Header().Get("Anthropic-Beta") == "" {
		t.Errorf("%+v", p)
	}
	if p := provider(t, c, "cloud"); p.Project != "p" || p.Location != "global" || p.BaseURL != "" {
		t.Errorf("%+v", p)
	}
	if p := provider(t, c, "office"); p.Header().Get("OpenAI-Organization") != "org-1" || provider(t, c, "aws").Header() != nil {
		t.Errorf("%+v", p)
	}
	if len(c.Models) != 2 || *c.Models[0].Options.Temperature != 0.2 || string(c.Models[0].Options.ExtraBody["nested"]) != `{"a":[1,true,null]}` {
		t.Errorf("%+v", c.Models)
	}
	if a, _ := c.Agent(DefaultAgent); *a.Options.Temperature != 1 {
		t.Errorf("%+v", a)
	}
	const lacks = ", because that provider does not support it"
	want := []string{
		"lingserve.yaml:10: providers.claude.options.seed has no effect for models of claude" + lacks,
		`lingserve.yaml:19: models."claude:claude-opus-4.7".options.verbosity has no effect for models of claude` + lacks,
		"lingserve.yaml:21: agents.assistant.options.temperature has no effect for models of coze" + lacks,
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
	if secrets := c.Secrets(); !slices.Contains(secrets, "t-CANARY-1") || slices.Contains(secrets, "docs") {
		t.Errorf("%q", secrets)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"CANARY", "sesame"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s is shown in\n%s", secret, b.String())
		}
	}
	again := mustLoad(t, b.String(), nil)
	if diff := cmp.Diff(c.Models, again.Models); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"groq", "claude", "cloud", "aws", "office"} {
		if diff := cmp.Diff(provider(t, c, name), provider(t, again, name), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Provider{}, "Key", "KeyName", "Proxy"),
			cmp.Comparer(func(a, b Secret) bool { return (a == "") == (b == "") })); diff != "" {
			t.Errorf("%s was read again otherwise: %s", name, diff)
		}
	}
	if strings.Count(b.String(), "\n    timeout: ") != 1 || strings.Count(b.String(), "\n  groq:\n") != 1 {
		t.Errorf("what is not set is shown, or one provider twice:\n%s", b.String())
	}
}

// MO-22: a mistake has its place and says what was meant.
func TestWrongSettingsOfProvidersAndModelsHaveTheirPlaces(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"an unknown option", "providers:\n  groq:\n    options:\n      top_k: 1\n", "lingserve.yaml:4:7: providers.groq.options.top_k: unknown option; did you mean top_p? expected one of extra_body, frequency_penalty, max_tokens, parallel_tool_calls, presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity"},
		{"a value out of its range", "providers:\n  groq: {options: {reasoning: {effort: lots}}}", `lingserve.yaml:2:40: providers.groq.options.reasoning.effort: expected one of "none", "minimal", "low", "medium", "high", "xhigh", "max"`},
		{"an item of a list", "models:\n  openai:a: {options: {stop: [a, 7]}}", `lingserve.yaml:2:34: models.openai:a.options.stop.1: expected a string, got a number`},
		{"options that are none", "agents: {a: {options: 7}}", "lingserve.yaml:1:23: agents.a.options: expected an object, got a number"},
		{"options of a workflow's agent", "agents: {a: {workflow: w, options: {seed: 1}}}", "lingserve.yaml:1:10: agents.a: workflow and options do not go together; remove one of them, because the workflow's bots have their own"},
		{"an alias", "models:\n  openai:a: {options: &o {seed: 1}}\n  openai:b: {options: *o}", "lingserve.yaml:2:23: models.openai:a.options: anchors, aliases and tags are not supported; write the value itself\nlingserve.yaml:3:23: models.openai:b.options: anchors, aliases and tags are not supported; write the value itself"},
		{"no options", "models:\n  openai:a: {options: }", "lingserve.yaml:2:14: models.openai:a.options: the value is missing; expected options"},
		{"a model of nobody", "models:\n  nobody:a: {options: {seed: 1}}", "lingserve.yaml:2: models.nobody:a.options: unknown provider nobody"},
		{"a model without a provider", "models:\n  gpt-5: {options: {seed: 1}}", "lingserve.yaml:2:3: models.gpt-5: invalid name; expected PROVIDER:NAME, such as openai:gpt-6-luna"},
		{"a header that is none", "providers:\n  groq: {headers: {\"a b\": c}}", "lingserve.yaml:2:20: providers.groq.headers: invalid name; a header's name starts with a letter and has only letters, digits, - and _"},
		{"a header of the request's own", "providers:\n  groq: {headers: {content-length: '1'}}", "lingserve.yaml:2:20: providers.groq.headers: the header content-length cannot be set; remove it"},
		{"a header of two lines", "providers:\n  groq: {headers: {A: \"b\\nc\"}}", "lingserve.yaml:2:23: providers.groq.headers.A: contains a control character or a line break; remove it"},
		{"headers that are none", "providers:\n  groq: {headers: 7}", "lingserve.yaml:2:19: providers.groq.headers: expected settings, one per line, such as \"NAME: …\""},
		{"a proxy that is none", "providers:\n  groq: {proxy: 'me:sesame@x'}", "lingserve.yaml:2:17: providers.groq.proxy: is not the address of a proxy; expected one such as http://127.0.0.1:3128"},
		{"no time", "providers:\n  groq: {timeout: 0s}", "lingserve.yaml:2:19: providers.groq.timeout: 0s is too small; expected at least 1ms"},
		{"no project", "providers:\n  x: {kind: vertex}", "lingserve.yaml:2:3: providers.x: x needs a project; set providers.x.project"},
		{"no region", "providers:\n  x: {kind: bedrock}", "lingserve.yaml:2:3: providers.x: x needs a region; set providers.x.region"},
		{"no key for the provider's own address", "providers:\n  x: {kind: anthropic}", "lingserve.yaml:2:3: providers.x: x needs a key; set providers.x.key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.file, nil)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

// DH-08: which models requests may name, in short, in full, and beside options of models.
func TestWhichModelsRequestsMayName(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "listed",
		"models: any":            "any",
		"models: {callers: any}": "any",
		"providers: {openai: {}}\nmodels:\n  callers: any\n  openai:gpt-4.1: {options: {seed: 1}}": "any",
		"providers: {openai: {}}\nmodels:\n  openai:gpt-4.1: {options: {seed: 1}}":                 "listed",
	} {
		if c := mustLoad(t, text, []string{"OPENAI_API_KEY=k"}); c.CallerModels != want || strings.Contains(text, "seed") != (len(c.Models) == 1) {
			t.Errorf("%s: %s, %d models", text, c.CallerModels, len(c.Models))
		}
	}
}

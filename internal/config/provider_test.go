package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func provider(t *testing.T, c *Config, name string) Provider {
	t.Helper()
	p, ok := c.Provider(name)
	if !ok {
		t.Fatalf("unknown provider %q", name)
	}
	return p
}

func TestAProviderWorksFromTheVariablesItsUsersHave(t *testing.T) {
	for _, tc := range []struct {
		name    string
		environ []string
		want    Provider
	}{
		{"OpenAI", []string{"OPENAI_API_KEY=sk-1"}, Provider{
			Name: "openai", Kind: KindOpenAI, BaseURL: "https://api.openai.com/v1", Key: "sk-1", KeyName: "OPENAI_API_KEY", Models: []string{"gpt-6-luna"},
		}},
		{"a compatible server", []string{"OPENAI_BASE_URL=http://127.0.0.1:1234/v1"}, Provider{
			Name: "openai", Kind: KindOpenAI, BaseURL: "http://127.0.0.1:1234/v1", KeyName: "OPENAI_API_KEY",
		}},
		{"Azure", []string{"AZURE_OPENAI_ENDPOINT=https://me.openai.azure.com/", "AZURE_OPENAI_API_KEY=k", "OPENAI_API_VERSION=2025-04-01-preview"}, Provider{
			Name: "azure", Kind: KindAzure, BaseURL: "https://me.openai.azure.com/", Key: "k", KeyName: "AZURE_OPENAI_API_KEY", APIVersion: "2025-04-01-preview",
		}},
		{"Azure without a version", []string{"AZURE_OPENAI_ENDPOINT=https://me.openai.azure.com", "AZURE_OPENAI_API_KEY=k"}, Provider{
			Name: "azure", Kind: KindAzure, BaseURL: "https://me.openai.azure.com", Key: "k", KeyName: "AZURE_OPENAI_API_KEY", APIVersion: "2024-10-21",
		}},
		{"Coze", []string{"COZE_API_TOKEN=pat_1"}, Provider{
			Name: "coze", Kind: KindCoze, BaseURL: "https://api.coze.com", Key: "pat_1", KeyName: "COZE_API_TOKEN", User: "lingserve",
		}},
		{"Coze in China", []string{"COZE_API_TOKEN=pat_1", "COZE_API_BASE=https://api.coze.cn"}, Provider{
			Name: "coze", Kind: KindCoze, BaseURL: "https://api.coze.cn", Key: "pat_1", KeyName: "COZE_API_TOKEN", User: "lingserve",
		}},
		{"Ollama", nil, Provider{
			Name: "ollama", Kind: KindOllama, BaseURL: "http://127.0.0.1:11434", KeyName: "OLLAMA_API_KEY",
		}},
		{"Ollama elsewhere", []string{"OLLAMA_HOST=10.0.0.5"}, Provider{
			Name: "ollama", Kind: KindOllama, BaseURL: "http://10.0.0.5:11434", KeyName: "OLLAMA_API_KEY",
		}},
		{"DeepSeek", []string{"DEEPSEEK_API_KEY=sk-1"}, Provider{
			Name: "deepseek", Kind: KindOpenAI, BaseURL: "https://api.deepseek.com/v1", Key: "sk-1", KeyName: "DEEPSEEK_API_KEY", Models: []string{"deepseek-flash"},
		}},
		{"Qwen", []string{"DASHSCOPE_API_KEY=sk-1"}, Provider{
			Name: "qwen", Kind: KindOpenAI, BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", Key: "sk-1", KeyName: "DASHSCOPE_API_KEY", Models: []string{"qwen-plus"},
		}},
		{"Qwen outside of China", []string{"DASHSCOPE_API_KEY=sk-1", "LINGSERVE_PROVIDERS_QWEN_BASE_URL=https://dashscope-intl.aliyuncs.com/compatible-mode/v1"}, Provider{
			Name: "qwen", Kind: KindOpenAI, BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", Key: "sk-1", KeyName: "DASHSCOPE_API_KEY", Models: []string{"qwen-plus"},
		}},
		{"Moonshot", []string{"MOONSHOT_API_KEY=sk-1"}, Provider{
			Name: "moonshot", Kind: KindOpenAI, BaseURL: "https://api.moonshot.cn/v1", Key: "sk-1", KeyName: "MOONSHOT_API_KEY", Models: []string{"kimi-k2.6"},
		}},
		{"OpenRouter", []string{"OPENROUTER_API_KEY=sk-1"}, Provider{
			Name: "openrouter", Kind: KindOpenAI, BaseURL: "https://openrouter.ai/api/v1", Key: "sk-1", KeyName: "OPENROUTER_API_KEY", Models: []string{"openrouter/auto"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := provider(t, mustLoad(t, "", tc.environ), tc.want.Name)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Provider{}, "Set")); diff != "" {
				t.Error(diff)
			}
			if missing := got.Missing(); missing != "" {
				t.Errorf("it says that something is missing: %s", missing)
			}
		})
	}
}

const added = `
providers:
  deepseek: {key: {env: MINE}}
  office:
    kind: azure
    base_url: https://x.openai.azure.com
    key: {file: azure.key}
    api_version: "2025-01-01-preview"
    models: [gpt-4o]
  gpu: {kind: ollama, base_url: 10.0.0.5, models: ["llama3.2:3b"]}
  coze:
    kind: coze # as it is anyway
    user: web
  team: {kind: coze, base_url: https://api.coze.cn, key: {env: COZE_CN}, models: ["7428"], user: web}
  box: {kind: openai, base_url: http://127.0.0.1:8000/v1}
  proxy_2: {kind: openai, base_url: https://me:sesame@models.example.com/v1, key: sk-text}
`

// loadAdded reads what is added above, with the secrets that it refers to.
func loadAdded(t *testing.T) *Config {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"lingserve.yaml": added, "azure.key": "k-file\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(nil, []string{"MINE=sk-mine", "COZE_CN=pat_cn"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheFileAddsAnyNumberOfProvidersInItsOrder(t *testing.T) {
	c := loadAdded(t)
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Name)
	}
	want := []string{
		"openai", "azure", "coze", "ollama", "deepseek", "qwen", "moonshot", "openrouter", "anthropic", "gemini", "vertex", "responses", "azure-responses", "bedrock",
		"mistral", "groq", "xai", "zai", "minimax", "together", "fireworks", "cerebras", "perplexity", "cohere", "vllm", "lmstudio", "litellm", "office", "gpu", "team", "box", "proxy_2",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, want := range []Provider{
		{Name: "deepseek", Kind: KindOpenAI, BaseURL: "https://api.deepseek.com/v1", Key: "sk-mine", KeyName: "MINE", Models: []string{"deepseek-flash"}},
		{Name: "office", Kind: KindAzure, BaseURL: "https://x.openai.azure.com", Key: "k-file", KeyName: "providers.office.key", APIVersion: "2025-01-01-preview", Models: []string{"gpt-4o"}},
		{Name: "gpu", Kind: KindOllama, BaseURL: "http://10.0.0.5:11434", KeyName: "providers.gpu.key", Models: []string{"llama3.2:3b"}},
		{Name: "coze", Kind: KindCoze, BaseURL: "https://api.coze.com", KeyName: "COZE_API_TOKEN", User: "web"},
		{Name: "team", Kind: KindCoze, BaseURL: "https://api.coze.cn", Key: "pat_cn", KeyName: "COZE_CN", Models: []string{"7428"}, User: "web"},
		{Name: "box", Kind: KindOpenAI, BaseURL: "http://127.0.0.1:8000/v1", KeyName: "providers.box.key"},
	} {
		got := provider(t, c, want.Name)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Provider{}, "Set")); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	if from := c.Source("providers.team.user").String(); from != "lingserve.yaml:14" {
		t.Errorf("it says %s of where the user of team stands", from)
	}
}

// SE-06: keys never leave.
func TestPrintShowsAddedProvidersWithoutTheirSecrets(t *testing.T) {
	c := loadAdded(t)
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		`kind: azure # lingserve.yaml:5`,
		`key: "********" # lingserve.yaml:7 (file azure.key)`,
		`api_version: 2025-01-01-preview # lingserve.yaml:8`,
		`base_url: http://10.0.0.5:11434 # lingserve.yaml:10`,
		`key: "********" # lingserve.yaml:3 (environment MINE)`,
		`base_url: https://me:xxxxx@models.example.com/v1 # lingserve.yaml:16`,
		`models: ["7428"] # lingserve.yaml:14`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	for _, secret := range []string{"sk-mine", "k-file", "pat_cn", "sk-text", "sesame"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if sections := strings.Count(b.String(), "\nproviders:\n"); sections != 1 {
		t.Errorf("providers: stands there %d times", sections)
	}
	again := mustLoad(t, b.String(), nil)
	for i, p := range again.Providers {
		first := c.Providers[i]
		if p.Name != first.Name || p.Kind != first.Kind || p.APIVersion != first.APIVersion || p.User != first.User || !slices.Equal(p.Models, first.Models) {
			t.Errorf("%+v was read again as %+v", first, p)
		}
	}
}

func TestAWrongProviderSaysWhereItStandsAndWhatWasExpected(t *testing.T) {
	for _, tc := range []struct {
		name    string
		file    string
		environ []string
		want    string
	}{
		{name: "unknown kind", file: "providers:\n  x:\n    kind: opnai\n    base_url: http://a/v1\n", want: `lingserve.yaml:3:11: providers.x.kind: "opnai" is invalid; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama; did you mean openai?`},
		{name: "kind like nothing", file: "providers:\n  x: {kind: telephone}", want: `lingserve.yaml:2:13: providers.x.kind: "telephone" is invalid; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama`},
		{name: "kind that is not text", file: "providers:\n  x: {kind: 5}", want: `lingserve.yaml:2:13: providers.x.kind: "5" is invalid; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama`},
		{name: "no kind", file: "providers:\n  box: {base_url: http://a/v1}", want: `lingserve.yaml:2:3: providers.box: needs a kind; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama`},
		{name: "mistyped name", file: "providers:\n  deepsek: {key: k}", want: `lingserve.yaml:2:3: providers.deepsek: needs a kind; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama; did you mean deepseek?`},
		{name: "unknown field", file: "providers:\n  x:\n    kind: openai\n    base_url: http://a/v1\n    modles: [a]\n", want: `lingserve.yaml:5:5: providers.x.modles: unknown setting; did you mean providers.x.models?`},
		{name: "unknown field of a preset", file: "providers:\n  qwen:\n    kee: k\n", want: `lingserve.yaml:3:5: providers.qwen.kee: unknown setting; did you mean providers.qwen.key?`},
		{name: "field of another kind", file: "providers:\n  x: {kind: ollama, base_url: a, user: me}", want: `lingserve.yaml:2:34: providers.x.user: unknown setting`},
		{name: "no address", file: "providers:\n  x: {kind: openai}", want: `lingserve.yaml:2:3: providers.x: x needs an address; set providers.x.base_url`},
		{name: "no address of Coze", file: "providers:\n  x: {kind: coze, key: k}", want: `lingserve.yaml:2:3: providers.x: x needs an address; set providers.x.base_url`},
		{name: "no key", file: "providers:\n  x: {kind: azure, base_url: https://x}", want: `lingserve.yaml:2:3: providers.x: x needs a key; set providers.x.key`},
		{name: "empty key", file: "providers:\n  x: {kind: azure, base_url: https://x, key: ''}", want: `lingserve.yaml:2:3: providers.x: x needs a key; set providers.x.key`},
		{name: "empty address", file: "providers:\n  x: {kind: openai, base_url: ''}", want: `lingserve.yaml:2:3: providers.x: x needs an address; set providers.x.base_url`},
		{name: "name with a colon", file: "providers:\n  \"a:b\": {kind: openai}", want: `lingserve.yaml:2:3: providers.a:b: invalid name; expected only lower-case letters, digits, - and _`},
		{name: "name with a space", file: "providers:\n  my gpu: {kind: ollama}", want: `lingserve.yaml:2:3: providers."my gpu": invalid name; expected only lower-case letters, digits, - and _`},
		{name: "name with a comma", file: "providers:\n  \"a,b\": {kind: openai}", want: `lingserve.yaml:2:3: providers.a,b: invalid name; expected only lower-case letters, digits, - and _`},
		{name: "name with a capital", file: "providers:\n  OpenAI: {key: k}", want: `lingserve.yaml:2:3: providers.OpenAI: invalid name; expected only lower-case letters, digits, - and _`},
		{name: "name with a dot", file: "providers:\n  qwen.key: k", want: `lingserve.yaml:2:3: providers."qwen.key": invalid name; expected only lower-case letters, digits, - and _`},
		{name: "name of the demo", file: "providers:\n  demo: {kind: openai, base_url: http://a/v1}", want: `lingserve.yaml:2:3: providers.demo: demo is the built-in scripted model; choose another name`},
		{name: "preset of another kind", file: "providers:\n  deepseek: {kind: ollama}", want: `lingserve.yaml:2:20: providers.deepseek.kind: "ollama" is invalid; expected one of openai`},
		{name: "name twice", file: "providers:\n  gpu: {kind: ollama, base_url: a}\n  gpu: {kind: ollama, base_url: b}", want: `lingserve.yaml:3:3: providers.gpu: occurs twice, first in line 2; remove one`},
		{name: "preset twice", file: "providers:\n  qwen: {key: a}\n  qwen: {key: b}", want: `lingserve.yaml:3:3: providers.qwen: occurs twice, first in line 2; remove one`},
		{name: "text for a provider", file: "providers:\n  gpu: 10.0.0.5", want: `lingserve.yaml:2:3: providers.gpu: needs a kind; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama`},
		{name: "nothing for a provider", file: "providers:\n  gpu:\n", want: `lingserve.yaml:2:3: providers.gpu: needs a kind; expected one of openai, azure, responses, azure-responses, anthropic, gemini, vertex, bedrock, coze, ollama`},
		{name: "anchor", file: "providers:\n  gpu: &gpu {kind: ollama, base_url: a}\n  more: *gpu", want: "lingserve.yaml:2:8: providers.gpu: anchors, aliases and tags are not supported; write the value itself\nlingserve.yaml:3:9: providers.more: anchors, aliases and tags are not supported; write the value itself"},
		{name: "merge key", file: "providers:\n  <<: {gpu: {kind: ollama}}", want: `lingserve.yaml:2:3: providers: merge keys (<<) are not supported; write out the members`},
		{name: "text for all of them", file: "providers: openai", want: `lingserve.yaml:1:12: providers: expected settings, one per line, such as "openai: …"`},
		{name: "preset outside of providers", file: "openai:\n  key: k", want: `lingserve.yaml:1:1: openai: unknown setting`},
		{name: "dotted key", file: "providers.qwen.key: k", want: `lingserve.yaml:1:1: providers.qwen.key: unknown setting; write each part of the name on its own line`},
		{name: "address is not shown", file: "providers:\n  x: {kind: openai, base_url: 'ftp://me:sesame@a'}", want: `lingserve.yaml:2:31: providers.x.base_url: expected an http or https address, such as http://127.0.0.1:8000/v1`},
		{name: "address of Ollama is not shown", environ: []string{"OLLAMA_HOST=ftp://me:sesame@a"}, want: `OLLAMA_HOST: providers.ollama.base_url: expected an address, such as 127.0.0.1:11434 or http://127.0.0.1:11434`},
		{name: "id of a bot without quotes", file: "providers:\n  coze: {models: [7428123456789012345]}", want: `lingserve.yaml:2:19: providers.coze.models: 7428123456789012345 is not text; put the value in quotes`},
		{name: "models that are no list", file: "providers:\n  gpu: {kind: ollama, base_url: a, models: {a: b}}", want: `lingserve.yaml:2:44: providers.gpu.models: found a mapping; expected a list`},
		{name: "variable of a secret that is not set", file: "providers:\n  x: {kind: coze, base_url: https://a, key: {env: NO_SUCH}}", want: `lingserve.yaml:2:51: providers.x.key: the environment variable NO_SUCH is not set; set it, or use another one`},
		{name: "secret file that is not there", file: "providers:\n  x: {kind: coze, base_url: https://a, key: {file: none}}", want: `lingserve.yaml:2:52: providers.x.key: cannot read the file: none: no such file or directory`},
		{
			name: "two in one provider", file: "providers:\n  x: {kind: azure, modles: [a]}",
			want: "lingserve.yaml:2:20: providers.x.modles: unknown setting; did you mean providers.x.models?\n" +
				"lingserve.yaml:2:3: providers.x: x needs an address; set providers.x.base_url",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.environ)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			slices.Sort(lines)
			if diff := cmp.Diff(tc.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheFirstModelOfTheFirstProviderThatIsSetUpIsTheDefault(t *testing.T) {
	const box = "providers:\n  box: {kind: openai, base_url: http://127.0.0.1:8000/v1, models: [qwen3-32b, other]}\n"
	for _, tc := range []struct {
		name    string
		environ []string
		file    string
		model   string
		source  string
	}{
		{"nothing", nil, "", "demo:demo", "default"},
		{"a key of OpenAI", []string{"OPENAI_API_KEY=sk-1"}, "", "openai:gpt-6-luna", "default, since OPENAI_API_KEY is set"},
		{"the address of a compatible server", []string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1"}, "", "openai:gpt-4o-mini", "default, since OPENAI_BASE_URL is set"},
		{"an empty key", []string{"OPENAI_API_KEY="}, "", "demo:demo", "default"},
		{"OpenAI's own address, without a key", []string{"OPENAI_BASE_URL=https://api.openai.com/v1"}, "", "demo:demo", "default"},
		{"a model that is named", []string{"OPENAI_API_KEY=sk-1"}, "model: demo:demo", "demo:demo", "lingserve.yaml:1"},
		{"a chain that is named", nil, "model: [\"openai:a\", demo:demo]", "openai:a,demo:demo", "lingserve.yaml:1"},
		{"our variable over OpenAI's", []string{"OPENAI_API_KEY=sk-1", "LINGSERVE_PROVIDERS_OPENAI_KEY=sk-2"}, "", "openai:gpt-6-luna", "default, since LINGSERVE_PROVIDERS_OPENAI_KEY is set"},
		{"models of a compatible server", []string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1", "LINGSERVE_PROVIDERS_OPENAI_MODELS=llama3.2, other"}, "", "openai:llama3.2", "default, since OPENAI_BASE_URL is set"},
		{"a compatible server without any models", []string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1"}, "providers: {openai: {models: []}}", "demo:demo", "default"},
		{"models of OpenAI", []string{"OPENAI_API_KEY=sk-1"}, "providers: {openai: {models: [gpt-5, gpt-5-mini]}}", "openai:gpt-5", "default, since OPENAI_API_KEY is set"},
		{"a key of another", []string{"DEEPSEEK_API_KEY=sk-1"}, "", "deepseek:deepseek-flash", "default, since DEEPSEEK_API_KEY is set"},
		{"two keys", []string{"OPENROUTER_API_KEY=sk-1", "DASHSCOPE_API_KEY=sk-2"}, "", "qwen:qwen-plus", "default, since DASHSCOPE_API_KEY is set"},
		{"OpenAI before all others", []string{"DEEPSEEK_API_KEY=sk-1", "OPENAI_API_KEY=sk-2"}, box, "openai:gpt-6-luna", "default, since OPENAI_API_KEY is set"},
		{"a key without any models", []string{"DEEPSEEK_API_KEY=sk-1"}, "providers: {deepseek: {models: []}}", "demo:demo", "default"},
		{"an address without a key", nil, "providers: {qwen: {base_url: https://dashscope-intl.aliyuncs.com/compatible-mode/v1}}", "demo:demo", "default"},
		{"Ollama, of which no model is known", []string{"OLLAMA_HOST=127.0.0.1"}, "", "demo:demo", "default"},
		{"Ollama with models", nil, "providers: {ollama: {models: [\"llama3.2:3b\"]}}", "ollama:llama3.2:3b", "default, since providers.ollama.models is set"},
		{"Azure, of which no deployment is known", []string{"AZURE_OPENAI_ENDPOINT=https://a", "AZURE_OPENAI_API_KEY=k"}, "", "demo:demo", "default"},
		{"Azure with a deployment, but no key", []string{"AZURE_OPENAI_ENDPOINT=https://a", "LINGSERVE_PROVIDERS_AZURE_MODELS=gpt-4o"}, "", "demo:demo", "default"},
		{"Azure with a deployment", []string{"AZURE_OPENAI_ENDPOINT=https://a", "AZURE_OPENAI_API_KEY=k", "LINGSERVE_PROVIDERS_AZURE_MODELS=gpt-4o"}, "", "azure:gpt-4o", "default, since AZURE_OPENAI_API_KEY is set"},
		{"one that the file adds", nil, box, "box:qwen3-32b", "default, since providers.box.base_url is set"},
		{"one that the file adds, behind those that are known", []string{"MOONSHOT_API_KEY=sk-1"}, box, "moonshot:kimi-k2.6", "default, since MOONSHOT_API_KEY is set"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := mustLoad(t, tc.file, tc.environ)
			if c.Model != tc.model || c.Source("model").String() != tc.source {
				t.Errorf("got %s (%s), want %s (%s)", c.Model, c.Source("model"), tc.model, tc.source)
			}
		})
	}
}

func TestAProviderIsSetWhereAnythingOfItIs(t *testing.T) {
	c := mustLoad(t, "providers:\n  box: {kind: openai, base_url: http://a/v1}\n  coze: {user: web}\n  qwen:\n",
		[]string{"OLLAMA_HOST=10.0.0.5", "LINGSERVE_PROVIDERS_DEEPSEEK_MODELS=a"}, "--providers-moonshot-base-url", "http://a/v1")
	var set []string
	for _, p := range c.Providers {
		if p.Set {
			set = append(set, p.Name)
		}
	}
	if diff := cmp.Diff([]string{"coze", "ollama", "deepseek", "moonshot", "box"}, set); diff != "" {
		t.Error(diff)
	}
}

func TestAProviderSaysWhatIsMissing(t *testing.T) {
	for _, tc := range []struct {
		name     string
		environ  []string
		provider string
		want     string
	}{
		{"OpenAI's key", nil, "openai", "OpenAI needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server"},
		{"DeepSeek's key", nil, "deepseek", "DeepSeek needs a key; set DEEPSEEK_API_KEY or providers.deepseek.key"},
		{"DeepSeek's key, wherever it is", []string{"LINGSERVE_PROVIDERS_DEEPSEEK_BASE_URL=http://127.0.0.1:1"}, "deepseek", "DeepSeek needs a key; set DEEPSEEK_API_KEY or providers.deepseek.key"},
		{"Coze's key", nil, "coze", "Coze needs a key; set COZE_API_TOKEN or providers.coze.key"},
		{"Azure's both", nil, "azure", "Azure OpenAI needs an address; set AZURE_OPENAI_ENDPOINT or providers.azure.base_url"},
		{"Azure's address", []string{"AZURE_OPENAI_API_KEY=k"}, "azure", "Azure OpenAI needs an address; set AZURE_OPENAI_ENDPOINT or providers.azure.base_url"},
		{"Azure's key", []string{"AZURE_OPENAI_ENDPOINT=https://a"}, "azure", "Azure OpenAI needs a key; set AZURE_OPENAI_API_KEY or providers.azure.key"},
		{"nothing of Ollama", nil, "ollama", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := provider(t, mustLoad(t, "", tc.environ), tc.provider).Missing(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAKeyInAFileThatEverybodyCanReadIsWarnedOf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such rights")
	}
	for _, tc := range []struct {
		name   string
		file   string
		mode   os.FileMode
		warned bool
	}{
		{"a key, for all", "providers: {openai: {key: sk-1}}", 0o644, true},
		{"a key of several lines, for all", "providers:\n  openai:\n    key: |\n      sk-1\n", 0o644, true},
		{"a key, for the owner", "providers: {openai: {key: sk-1}}", 0o600, false},
		{"a key in a variable", "providers: {openai: {key: {env: MINE}}}", 0o644, false},
		{"no key", "watch: true", 0o644, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(tc.file), tc.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tc.mode); err != nil { // whatever the umask is
				t.Fatal(err)
			}
			c, err := Load(parseFlags(t, "--config", path), []string{"MINE=sk-1"})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "every user of this machine can read the file"); got != tc.warned {
				t.Errorf("warnings: %q", c.Warnings)
			}
			for _, w := range c.Warnings {
				if strings.Contains(w, "sk-1") {
					t.Errorf("%q shows the key", w)
				}
			}
		})
	}
}

func TestAProviderThatIsSetUpInPartIsWarnedOf(t *testing.T) {
	c := mustLoad(t, "", []string{"AZURE_OPENAI_ENDPOINT=https://a", "COZE_API_BASE=https://api.coze.cn", "OPENAI_API_VERSION=2024-10-21", "DEEPSEEK_API_KEY=k"})
	want := []string{"Azure OpenAI needs a key; set AZURE_OPENAI_API_KEY or providers.azure.key", "Coze needs a key; set COZE_API_TOKEN or providers.coze.key"}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
	if c := mustLoad(t, "", []string{"OPENAI_API_VERSION=2024-10-21"}); len(c.Warnings) > 0 { // it is of use to other programs alone
		t.Errorf("warnings: %q", c.Warnings)
	}
}

func TestThePresetsAreSound(t *testing.T) {
	if presets[0].Name != "openai" {
		t.Errorf("the first one is %s", presets[0].Name)
	}
	for _, p := range presets {
		if !providerName.MatchString(p.Name) || !slices.Contains(kinds, p.Kind) || p.Title == "" {
			t.Errorf("%+v", p)
		}
		if p.BaseURL != "" && checkURL(p.BaseURL) != nil {
			t.Errorf("%s is at %s", p.Name, p.BaseURL)
		}
		if p.Kind != KindVertex && p.variable("key") == "" {
			t.Errorf("%s has no variable for its key", p.Name)
		}
	}
}

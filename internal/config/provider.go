package config

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/egress"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Kinds of providers: what their servers speak.
const (
	KindOpenAI         = "openai"    // chat completions, of OpenAI and of everything compatible
	KindAzure          = "azure"     // the same under Azure's own addresses
	KindResponses      = "responses" // OpenAI's Responses
	KindAzureResponses = "azure-responses"
	KindAnthropic      = "anthropic" // Messages
	KindGemini         = "gemini"    // generateContent
	KindVertex         = "vertex"    // the same in Google's cloud
	KindBedrock        = "bedrock"   // Amazon's Converse
	KindCoze           = "coze"
	KindOllama         = "ollama"
)

var kinds = []string{
	KindOpenAI, KindAzure, KindResponses, KindAzureResponses, KindAnthropic, KindGemini, KindVertex, KindBedrock, KindCoze, KindOllama,
}

// Provider is a server that has models. There is one for each of the [Presets], whether it is set up or not, and then those that
// the configuration file adds, in its order.
type Provider struct {
	Name         string // what stands before the colon of its models' names
	Kind         string
	BaseURL      string // empty where Missing says so, and where the project, the location or the region says which it is
	Key          Secret
	KeyName      string        // where the key comes from or would be put: a variable, a flag or a setting, as errors name it
	Models       []string      // what is listed; the first one can be the default model
	APIVersion   string        // of KindAzure, and of KindAzureResponses, where it may be empty
	User         string        // of KindCoze: whom its server takes the questions to come from
	Organization string        // of KindOpenAI and KindResponses
	Project      string        // of KindVertex
	Location     string        // of KindVertex
	Region       string        // of KindBedrock
	Profile      string        // of KindBedrock
	Headers      []Header      // of each request
	Timeout      time.Duration // of a whole answer; 0 is upstream.total
	Proxy        string        // address of the proxy for its requests; empty is what upstream.proxy_env says
	Options      adapter.Options
	Set          bool // something of it stands in a setting: somebody wants it
}

// Header is a header of the requests to a provider.
type Header struct {
	Name  string
	Value Secret
}

// Header returns the headers of each request; nil is none.
func (p Provider) Header() http.Header {
	h := http.Header{}
	if p.Organization != "" {
		h.Set("OpenAI-Organization", p.Organization)
	}
	for _, one := range p.Headers {
		h.Set(one.Name, one.Value.Reveal())
	}
	if len(h) == 0 {
		return nil
	}
	return h
}

// Model is what the configuration file says of one model.
type Model struct {
	Name    string // "provider:name"
	Options adapter.Options
}

// Preset is a provider that is known by name, so that a key is all it needs, or less.
type Preset struct {
	Name  string
	Title string // as people call it
	Kind  string
	// BaseURL is the provider's own address; empty where every customer has another.
	BaseURL string
	// Models are those listed where nothing else is set, separated by commas.
	Models string
	// Keyless says that it is asked without a key where none is set.
	Keyless bool
	// As is the preset whose key, address and organization it has where none of its own are set; empty is none.
	As string
	// Env has, by the last part of a setting's key, the variables that users of the provider have set for other programs already.
	Env map[string][]string
}

// Presets returns the providers that are known by name, in the order in which the default model is looked for.
func Presets() []Preset { return slices.Clone(presets) }

// presets: the newer ones are behind the older ones, so that nobody's default model changes.
var presets = slices.Concat([]Preset{
	{
		Name: "openai", Title: "OpenAI", Kind: KindOpenAI, BaseURL: "https://api.openai.com/v1", Models: "gpt-6-luna",
		Env: env("OPENAI_API_KEY", "OPENAI_BASE_URL", "organization", "OPENAI_ORG_ID"),
	},
	{
		Name: "azure", Title: "Azure OpenAI", Kind: KindAzure,
		Env: env("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "api_version", "OPENAI_API_VERSION"),
	},
	{Name: "coze", Title: "Coze", Kind: KindCoze, BaseURL: "https://api.coze.com", Env: env("COZE_API_TOKEN", "COZE_API_BASE")},
	{Name: "ollama", Title: "Ollama", Kind: KindOllama, BaseURL: "http://127.0.0.1:11434", Keyless: true, Env: env("OLLAMA_API_KEY", "OLLAMA_HOST")},
	compatible("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "deepseek-flash", "DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL"),
	compatible("qwen", "Qwen", "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen-plus", "DASHSCOPE_API_KEY", "DASHSCOPE_BASE_URL"),
	compatible("moonshot", "Moonshot", "https://api.moonshot.cn/v1", "kimi-k2.6", "MOONSHOT_API_KEY", "MOONSHOT_BASE_URL"),
	compatible("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "openrouter/auto", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
	{
		Name: "anthropic", Title: "Anthropic", Kind: KindAnthropic, BaseURL: "https://api.anthropic.com", Models: "claude-sonnet-4-6",
		Env: env("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
	},
	{
		Name: "gemini", Title: "Gemini", Kind: KindGemini, BaseURL: "https://generativelanguage.googleapis.com", Models: "gemini-flash-latest",
		Env: env("GEMINI_API_KEY GOOGLE_API_KEY", "GEMINI_BASE_URL GOOGLE_GEMINI_BASE_URL"),
	},
	{ // GOOGLE_APPLICATION_CREDENTIALS is read where Google's other programs look for it
		Name: "vertex", Title: "Vertex AI", Kind: KindVertex, Keyless: true,
		Env: env("", "VERTEX_BASE_URL GOOGLE_VERTEX_BASE_URL", "project", "GOOGLE_CLOUD_PROJECT", "location", "GOOGLE_CLOUD_LOCATION"),
	},
	{Name: "responses", Title: "OpenAI Responses", Kind: KindResponses, BaseURL: "https://api.openai.com/v1", As: "openai"},
	{Name: "azure-responses", Title: "Azure OpenAI Responses", Kind: KindAzureResponses, As: "azure"},
	{ // the keys of an account are read where Amazon's other programs look for them
		Name: "bedrock", Title: "Amazon Bedrock", Kind: KindBedrock, Keyless: true,
		Env: env("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_BASE_URL AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "region", "AWS_REGION AWS_DEFAULT_REGION", "profile", "AWS_PROFILE"),
	},
	compatible("mistral", "Mistral", "https://api.mistral.ai/v1", "mistral-small-latest", "MISTRAL_API_KEY", "MISTRAL_BASE_URL"),
	compatible("groq", "Groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "GROQ_API_KEY", "GROQ_BASE_URL"),
	compatible("xai", "xAI", "https://api.x.ai/v1", "grok-4.3", "XAI_API_KEY", "XAI_BASE_URL"),
	compatible("zai", "Z.ai", "https://api.z.ai/api/paas/v4", "glm-5.2", "ZAI_API_KEY Z_AI_API_KEY", "ZAI_BASE_URL"),
	compatible("minimax", "MiniMax", "https://api.minimax.io/v1", "MiniMax-M2.7", "MINIMAX_API_KEY", "MINIMAX_BASE_URL"),
	compatible("together", "Together AI", "https://api.together.xyz/v1", "openai/gpt-oss-120b", "TOGETHER_API_KEY", "TOGETHER_BASE_URL"),
	compatible("fireworks", "Fireworks AI", "https://api.fireworks.ai/inference/v1", "accounts/fireworks/models/gpt-oss-120b", "FIREWORKS_API_KEY", "FIREWORKS_BASE_URL"),
	compatible("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "gpt-oss-120b", "CEREBRAS_API_KEY", "CEREBRAS_BASE_URL"),
	compatible("perplexity", "Perplexity", "https://api.perplexity.ai", "sonar", "PERPLEXITY_API_KEY PPLX_API_KEY", "PERPLEXITY_BASE_URL"),
	compatible("cohere", "Cohere", "https://api.cohere.ai/compatibility/v1", "command-a-plus-05-2026", "COHERE_API_KEY CO_API_KEY", "COHERE_BASE_URL"),
}, local(
	compatible("vllm", "vLLM", "http://127.0.0.1:8000/v1", "", "VLLM_API_KEY", "VLLM_BASE_URL"),
	compatible("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", "", "LMSTUDIO_API_KEY LM_STUDIO_API_KEY", "LMSTUDIO_BASE_URL LM_STUDIO_API_BASE"),
	compatible("litellm", "LiteLLM", "http://127.0.0.1:4000/v1", "", "LITELLM_API_KEY LITELLM_MASTER_KEY", "LITELLM_BASE_URL"),
))

// env makes a Preset's Env of the variables of its key, of its address, and of other settings by name; there may be several of each.
func env(key, address string, others ...string) map[string][]string {
	m := map[string][]string{"key": strings.Fields(key), "base_url": strings.Fields(address)}
	for i := 0; i < len(others); i += 2 {
		m[others[i]] = strings.Fields(others[i+1])
	}
	return m
}

// compatible is a preset of a server that speaks OpenAI's chat completions.
func compatible(name, title, address, models, key, addressVariable string) Preset {
	return Preset{Name: name, Title: title, Kind: KindOpenAI, BaseURL: address, Models: models, Env: env(key, addressVariable)}
}

// local are presets of servers that people run themselves, mostly without a key.
func local(list ...Preset) []Preset {
	for i := range list {
		list[i].Keyless = true
	}
	return list
}

// Variables are those of a setting, by the last part of its key, that count for the preset.
func (p Preset) Variables(field string) []string {
	if as, ok := preset(p.As); ok {
		return as.Env[field]
	}
	return p.Env[field]
}

// variable is the first one, as errors name it; empty is none.
func (p Preset) variable(field string) string {
	if names := p.Variables(field); len(names) > 0 {
		return names[0]
	}
	return ""
}

func preset(name string) (Preset, bool) {
	return lookup(presets, func(p Preset) bool { return p.Name == name })
}

// Provider returns the provider of this name.
func (c *Config) Provider(name string) (Provider, bool) {
	return lookup(c.Providers, func(p Provider) bool { return p.Name == name })
}

// provider is where the settings of a provider go.
func (c *Config) provider(name string) *Provider {
	return element(&c.Providers, func(e *Provider) bool { return e.Name == name }, Provider{Name: name})
}

// Missing says what the provider still needs before it can be asked, as a sentence for people; empty is nothing.
func (p Provider) Missing() string {
	known, ok := preset(p.Name)
	if !ok {
		return "" // what the file adds is checked when it is read
	}
	noURL, noKey := p.BaseURL == "" && needsURL(p.Kind), p.Key == "" && p.needsKey(known)
	switch {
	case noURL && noKey:
		return fmt.Sprintf("%s needs an address and a key; set %s and %s, or both under providers.%s", known.Title, known.variable("base_url"), known.variable("key"), p.Name)
	case noURL:
		return fmt.Sprintf("%s needs an address; set %s or providers.%s.base_url", known.Title, known.variable("base_url"), p.Name)
	case noKey && p.Name == "openai":
		return "OpenAI needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server"
	case noKey:
		return fmt.Sprintf("%s needs a key; set %s or providers.%s.key", known.Title, known.variable("key"), p.Name)
	case p.Kind == KindVertex && p.Project == "" && p.Key == "":
		return fmt.Sprintf("%s needs a project; set GOOGLE_CLOUD_PROJECT or providers.%s.project", known.Title, p.Name)
	case p.Kind == KindBedrock && p.Region == "" && p.Profile == "" && p.BaseURL == "":
		return fmt.Sprintf("%s needs a region; set AWS_REGION or providers.%s.region", known.Title, p.Name)
	}
	return ""
}

// needsKey: behind the address of some there may be a gateway or any compatible server, and many of those ask for no key.
func (p Provider) needsKey(known Preset) bool {
	switch {
	case known.Keyless:
		return false
	case p.Name == "openai", p.Kind == KindResponses, p.Kind == KindAnthropic, p.Kind == KindGemini:
		return p.BaseURL == known.BaseURL
	}
	return true
}

// needsURL says whether the address of a provider is only known to its user.
func needsURL(kind string) bool {
	switch kind {
	case KindOpenAI, KindAzure, KindAzureResponses, KindCoze, KindOllama:
		return true
	}
	return false
}

// defaultAPIVersion is the last one that Azure has declared generally available before it made versions unnecessary under
// /openai/v1. It has all that is sent: streamed usage, tools, JSON Schema.
const defaultAPIVersion = "2024-10-21"

// presetSettings are the settings of all presets, which are flags and variables as most settings are.
func presetSettings() (all []Setting) {
	for _, p := range presets {
		for _, s := range providerSettings(p.Name, p.Title, p.Kind) {
			field := s.Key[strings.LastIndex(s.Key, ".")+1:]
			s.Env = p.Env[field]
			switch field {
			case "base_url":
				s.Default = p.BaseURL
			case "models":
				s.Default = p.Models
			case "organization":
				s.fileOnly = len(s.Env) == 0
			}
			all = append(all, s)
		}
	}
	return all
}

// addedSettings are the settings of a provider that the file adds. They stand nowhere else.
func addedSettings(name, kind string) []Setting {
	all := append([]Setting{kindSetting(name)}, providerSettings(name, name, kind)...)
	for i := range all {
		all[i].fileOnly = true
		all[i].required = strings.HasSuffix(all[i].Key, ".base_url") && needsURL(kind) || all[i].Secret && mustHaveKey(kind) || all[i].required
	}
	return all
}

// mustHaveKey says whether the servers of a kind answer nobody without a key.
func mustHaveKey(kind string) bool {
	return kind == KindAzure || kind == KindAzureResponses || kind == KindCoze
}

func kindSetting(name string) Setting {
	of := func(c *Config) *Provider { return c.provider(name) }
	return bind(providers+name+".", of, []Setting{{Key: "kind", OneOf: kinds, Help: "the server's protocol"}})[0]
}

// providerSettings are the settings that a provider of this kind has.
func providerSettings(name, title, kind string) []Setting {
	base := Setting{Key: "base_url", check: unlessEmpty(checkURL), Help: "address of " + title}
	switch {
	case kind == KindOllama:
		base.check, base.parse = nil, parseHost
		base.Help += ", in any form of OLLAMA_HOST"
	case name == "openai":
		base.Help += ", or of a compatible server, which may need no key"
	case kind == KindAzure || kind == KindAzureResponses:
		base.Help += ", such as https://NAME.openai.azure.com"
	}
	first := []Setting{
		{Key: "key", Secret: true, provider: name, Help: "key for " + title},
		base,
		{Key: "models", Help: "listed models of " + title + ", without the prefix; the first can be the default model"},
	}
	of := func(c *Config) *Provider { return c.provider(name) }
	return append(bind(providers+name+".", of, append(first, kindTable(kind, title)...)), bindInFile(providers+name+".", of, providerTable)...)
}

// kindTable has the settings that only providers of one kind have.
func kindTable(kind, title string) []Setting {
	switch kind {
	case KindAzure:
		return []Setting{{Key: "api_version", Default: defaultAPIVersion, check: checkAPIVersion, Help: "API version of " + title}}
	case KindAzureResponses:
		help := "API version of " + title + "; unset: paths below /openai/v1, without a version"
		return []Setting{{Key: "api_version", check: unlessEmpty(checkAPIVersion), Help: help}}
	case KindCoze:
		return []Setting{{Key: "user", Default: "lingserve", required: true, Help: "user_id for " + title}}
	case KindVertex:
		return []Setting{
			{Key: "project", Help: "project of " + title},
			{Key: "location", Default: "global", Help: "region of " + title + ", us, eu or global"},
		}
	case KindBedrock:
		return []Setting{
			{Key: "region", Help: "region of " + title},
			{Key: "profile", Help: "AWS profile with the keys and the default region"},
		}
	case KindOpenAI, KindResponses:
		return []Setting{{Key: "organization", optional: true, Help: "organization (header OpenAI-Organization)"}}
	}
	return nil
}

// providerTable has the settings of every provider that are in the file alone. There are headers beside them, a setting each.
var providerTable = []Setting{
	{Key: "timeout", Min: "1ms", optional: true, Help: "timeout of a whole answer, instead of upstream.total"},
	{Key: "proxy", check: checkProxy, optional: true, Help: "proxy (http, https or socks5), instead of upstream.proxy_env"},
	{Key: "options", optional: true, Help: "options of its models; a model's own options override them"},
}

func checkProxy(s string) error {
	_, err := egress.Through(s)
	return err
}

// headerName is what a header can be called. Those that say how a request is sent are not for settings.
var (
	headerName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	ownedHeader = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection"}
)

// headerSetting is one header of the requests to a provider.
func headerSetting(name, header string) Setting {
	return Setting{
		Key: providers + name + ".headers." + header, Secret: true, fileOnly: true,
		Help: "header of each request",
		field: func(c *Config) any {
			p := c.provider(name)
			i := slices.IndexFunc(p.Headers, func(h Header) bool { return h.Name == header })
			if i < 0 {
				i, p.Headers = len(p.Headers), append(p.Headers, Header{Name: header})
			}
			return &p.Headers[i].Value
		},
	}
}

// headers reads the headers of a provider.
func (r *fileReader) headers(n *yaml.Node, name string) {
	key := providers + name + ".headers"
	for k, v := range r.members(n, key, "headers, one per line, such as \"X-Team: …\"") {
		switch {
		case !headerName.MatchString(k.Text):
			r.Errorf(k, key, "invalid name; a header's name starts with a letter and has only letters, digits, - and _")
		case slices.Contains(ownedHeader, http.CanonicalHeaderKey(k.Text)):
			r.Errorf(k, key, "the header %s cannot be set; remove it", k.Text)
		default:
			s := headerSetting(name, k.Text)
			r.added = append(r.added, s)
			r.setting(s, v)
		}
	}
}

// modelName is "provider:name".
var modelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*:[^\s,]+$`)

var modelNames = named{"models", "models", "a model", modelName, "the form PROVIDER:NAME, such as openai:gpt-6-luna", "openai:gpt-6-luna: {options: …}", modelSettings}

// model is where the settings of a model go.
func (c *Config) model(name string) *Model {
	return element(&c.Models, func(e *Model) bool { return e.Name == name }, Model{Name: name})
}

// modelSettings are the settings of one model. They stand in the file alone.
func modelSettings(name string) []Setting {
	return []Setting{{
		Key: yaml.Path("models", name, "options"), path: []string{"models", name, "options"}, fileOnly: true, optional: true,
		Help:  "options of the model; workflow, agent and request override them",
		field: func(c *Config) any { return &c.model(name).Options },
	}}
}

// finishModels checks that the models are of providers that there are, and warns of options that the wire of a provider has no place for.
func (l *loader) finishModels() {
	warn := func(key string, lacking []string) {
		for _, name := range lacking {
			l.warn("%s: %s.%s has no effect, because the model's provider does not support it", l.c.sources[key].Name, key, name)
		}
	}
	for _, p := range l.c.Providers {
		warn(providers+p.Name+".options", adapter.Lacking(p.Kind, p.Options))
	}
	for _, m := range l.c.Models {
		key := yaml.Path("models", m.Name, "options")
		prefix, _, _ := strings.Cut(m.Name, ":")
		if _, ok := l.c.Provider(prefix); !ok && prefix != "demo" && l.c.sources[key].Kind != Default {
			l.wrong(key, "unknown provider %s", prefix)
			continue
		}
		warn(key, l.c.Lacking(m.Name, m.Options))
	}
	for _, a := range l.c.Agents {
		warn(agents+a.Name+".options", l.c.Lacking(a.Model, a.Options))
	}
}

// Lacking lists the options among o that do not reach a model of a chain, since its provider has no place for them. "" is the default model.
func (c *Config) Lacking(chain string, o adapter.Options) (names []string) {
	for _, link := range adapter.Links(cmp.Or(chain, c.Model)) {
		prefix, _, _ := strings.Cut(link, ":")
		if p, ok := c.Provider(prefix); ok {
			for _, name := range adapter.Lacking(p.Kind, o) {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// providerName is what may stand before the colon of a model's name. Capitals would only make two names of one.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// exampleURL shows what an address looks like.
func exampleURL(kind string) string {
	switch kind {
	case KindAzure, KindAzureResponses:
		return "https://NAME.openai.azure.com"
	case KindCoze:
		return "https://api.coze.cn"
	case KindOllama:
		return "http://127.0.0.1:11434"
	default:
		return "http://127.0.0.1:8000/v1"
	}
}

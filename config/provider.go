package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kinds of providers: what their servers speak.
const (
	KindOpenAI = "openai" // chat completions, of OpenAI and of everything compatible
	KindAzure  = "azure"  // the same under Azure's own addresses
	KindCoze   = "coze"
	KindOllama = "ollama"
)

var kinds = []string{KindOpenAI, KindAzure, KindCoze, KindOllama}

// Provider is a server that has models. There is one for each of the [Presets], whether it is set up or not, and then those that
// the configuration file adds, in its order.
type Provider struct {
	Name       string // what stands before the colon of its models' names
	Kind       string
	BaseURL    string // empty only where Missing says so
	Key        Secret
	KeyName    string   // where the key comes from or would be put: a variable, a flag or a setting, as errors name it
	Models     []string // what is listed; the first one can be the default model
	APIVersion string   // of KindAzure
	User       string   // of KindCoze: whom its server takes the questions to come from
	Set        bool     // something of it stands in a setting: somebody wants it
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
	// Variables that users of the provider have set for other programs already; empty where there is none.
	KeyVariable, BaseURLVariable, APIVersionVariable string
}

// Presets returns the providers that are known by name, in the order in which the default model is looked for.
func Presets() []Preset { return slices.Clone(presets) }

var presets = []Preset{
	{
		Name: "openai", Title: "OpenAI", Kind: KindOpenAI, BaseURL: "https://api.openai.com/v1", Models: "gpt-4o-mini",
		KeyVariable: "OPENAI_API_KEY", BaseURLVariable: "OPENAI_BASE_URL",
	},
	{
		Name: "azure", Title: "Azure OpenAI", Kind: KindAzure,
		KeyVariable: "AZURE_OPENAI_API_KEY", BaseURLVariable: "AZURE_OPENAI_ENDPOINT", APIVersionVariable: "OPENAI_API_VERSION",
	},
	{
		Name: "coze", Title: "Coze", Kind: KindCoze, BaseURL: "https://api.coze.com",
		KeyVariable: "COZE_API_TOKEN", BaseURLVariable: "COZE_API_BASE",
	},
	{
		Name: "ollama", Title: "Ollama", Kind: KindOllama, BaseURL: "http://127.0.0.1:11434",
		KeyVariable: "OLLAMA_API_KEY", BaseURLVariable: "OLLAMA_HOST",
	},
	{
		Name: "deepseek", Title: "DeepSeek", Kind: KindOpenAI, BaseURL: "https://api.deepseek.com/v1", Models: "deepseek-flash",
		KeyVariable: "DEEPSEEK_API_KEY",
	},
	{
		Name: "qwen", Title: "Qwen", Kind: KindOpenAI, BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", Models: "qwen-plus",
		KeyVariable: "DASHSCOPE_API_KEY",
	},
	{
		Name: "moonshot", Title: "Moonshot", Kind: KindOpenAI, BaseURL: "https://api.moonshot.cn/v1", Models: "kimi-k2.6",
		KeyVariable: "MOONSHOT_API_KEY",
	},
	{
		Name: "openrouter", Title: "OpenRouter", Kind: KindOpenAI, BaseURL: "https://openrouter.ai/api/v1", Models: "openrouter/auto",
		KeyVariable: "OPENROUTER_API_KEY",
	},
}

func preset(name string) (Preset, bool) {
	for _, p := range presets {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

// Provider returns the provider of this name.
func (c *Config) Provider(name string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// provider is where the settings of a provider go.
func (c *Config) provider(name string) *Provider {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return &c.Providers[i]
		}
	}
	c.Providers = append(c.Providers, Provider{Name: name})
	return &c.Providers[len(c.Providers)-1]
}

// Missing says what the provider still needs before it can be asked, as a sentence for people; empty is nothing.
func (p Provider) Missing() string {
	known, ok := preset(p.Name)
	if !ok {
		return "" // what the file adds is checked when it is read
	}
	noURL, noKey := p.BaseURL == "", p.Key == "" && p.needsKey(known)
	switch {
	case noURL && noKey:
		return fmt.Sprintf("%s needs an address and a key; set %s and %s, or both under providers.%s", known.Title, known.BaseURLVariable, known.KeyVariable, p.Name)
	case noURL:
		return fmt.Sprintf("%s needs an address; set %s or providers.%s.base_url", known.Title, known.BaseURLVariable, p.Name)
	case noKey && p.Name == "openai":
		return "OpenAI needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server"
	case noKey:
		return fmt.Sprintf("%s needs a key; set %s or providers.%s.key", known.Title, known.KeyVariable, p.Name)
	}
	return ""
}

// needsKey: behind openai's address there may be any server, and many of those ask for no key.
func (p Provider) needsKey(known Preset) bool {
	switch {
	case p.Kind == KindOllama:
		return false
	case p.Name == "openai":
		return p.BaseURL == known.BaseURL
	}
	return true
}

// defaultAPIVersion is the last one that Azure has declared generally available before it made versions unnecessary under
// /openai/v1. It has all that is sent: streamed usage, tools, JSON Schema.
const defaultAPIVersion = "2024-10-21"

// presetSettings are the settings of all presets, which are flags and variables as all settings are.
func presetSettings() (all []Setting) {
	for _, p := range presets {
		for _, s := range providerSettings(p.Name, p.Title, p.Kind) {
			switch {
			case strings.HasSuffix(s.Key, ".key"):
				s.Env = variables(p.KeyVariable)
			case strings.HasSuffix(s.Key, ".base_url"):
				s.Default, s.Env = p.BaseURL, variables(p.BaseURLVariable)
			case strings.HasSuffix(s.Key, ".models"):
				s.Default = p.Models
			case strings.HasSuffix(s.Key, ".api_version"):
				s.Env = variables(p.APIVersionVariable)
			}
			all = append(all, s)
		}
	}
	return all
}

func variables(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// addedSettings are the settings of a provider that the file adds. They stand nowhere else.
func addedSettings(name, kind string) []Setting {
	all := append([]Setting{kindSetting(name)}, providerSettings(name, name, kind)...)
	for i := range all {
		all[i].fileOnly = true
		all[i].required = strings.HasSuffix(all[i].Key, ".base_url") || all[i].Secret && mustHaveKey(kind) || all[i].required
	}
	return all
}

// mustHaveKey says whether the servers of a kind answer nobody without a key.
func mustHaveKey(kind string) bool { return kind == KindAzure || kind == KindCoze }

func kindSetting(name string) Setting {
	return Setting{
		Key: "providers." + name + ".kind", OneOf: kinds, Help: "what the server speaks",
		field: func(c *Config) any { return &c.provider(name).Kind },
	}
}

// providerSettings are the settings that a provider of this kind has.
func providerSettings(name, title, kind string) []Setting {
	section := "providers." + name + "."
	base := Setting{
		Key: section + "base_url", check: checkURL,
		Help:  "address of " + title,
		field: func(c *Config) any { return &c.provider(name).BaseURL },
	}
	switch {
	case kind == KindOllama:
		base.check, base.parse = nil, parseHost
		base.Help += ", in any of the forms that OLLAMA_HOST can have"
	case name == "openai":
		base.Help += ", or of any server that is compatible with it and may need no key"
	case kind == KindAzure:
		base.Help += ", such as https://NAME.openai.azure.com"
	}
	list := []Setting{
		{
			Key: section + "key", Secret: true, provider: name,
			Help:  "key for " + title,
			field: func(c *Config) any { return &c.provider(name).Key },
		},
		base,
		{
			Key:   section + "models",
			Help:  "models of " + title + " to list as available, without the prefix; the first one can be the default model",
			field: func(c *Config) any { return &c.provider(name).Models },
		},
	}
	switch kind {
	case KindAzure:
		list = append(list, Setting{
			Key: section + "api_version", Default: defaultAPIVersion, check: checkAPIVersion,
			Help:  "version of the API of " + title,
			field: func(c *Config) any { return &c.provider(name).APIVersion },
		})
	case KindCoze:
		list = append(list, Setting{
			Key: section + "user", Default: "lingserve", required: true,
			Help:  "whom " + title + " takes the questions to come from (user_id)",
			field: func(c *Config) any { return &c.provider(name).User },
		})
	}
	return list
}

// providerName is what may stand before the colon of a model's name. Capitals would only make two names of one.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// exampleURL shows what an address looks like.
func exampleURL(kind string) string {
	switch kind {
	case KindAzure:
		return "https://NAME.openai.azure.com"
	case KindCoze:
		return "https://api.coze.cn"
	case KindOllama:
		return "http://127.0.0.1:11434"
	default:
		return "http://127.0.0.1:8000/v1"
	}
}

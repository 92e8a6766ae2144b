package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
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

// providers begins the keys of settings of providers.
const providers = "providers."

var kinds = []string{
	KindOpenAI, KindAzure, KindResponses, KindAzureResponses, KindAnthropic, KindGemini, KindVertex, KindBedrock, KindCoze, KindOllama,
}

// Provider is a server that has models. There is one for each of the presets, whether it is set up or not, and then those that
// the configuration file adds, in its order. A setting without kinds is one of all providers. TITLE is the name for people.
type Provider struct {
	Name         string          // what is before the colon of its models' names
	Kind         string          // not a setting of the presets
	Key          Secret          `key:"key" help:"key for TITLE"`
	BaseURL      string          `key:"base_url" check:"url" help:"address of TITLE"` // empty where Missing says so, or the project, location or region decides
	KeyName      string          // where the key comes from, for errors: a variable, a flag or a setting
	Models       []string        `key:"models" help:"listed models of TITLE, without the prefix; the first can be the default model"`
	APIVersion   string          `key:"api_version" kinds:"azure azure-responses" check:"version" help:"API version of TITLE"`
	User         string          `key:"user" kinds:"coze" default:"lingserve" required:"true" help:"user_id for TITLE"`
	Organization string          `key:"organization" kinds:"openai responses" optional:"true" help:"organization (header OpenAI-Organization)"`
	Project      string          `key:"project" kinds:"vertex" help:"project of TITLE"`
	Location     string          `key:"location" kinds:"vertex" default:"global" help:"region of TITLE, us, eu or global"`
	Region       string          `key:"region" kinds:"bedrock" help:"region of TITLE"`
	Profile      string          `key:"profile" kinds:"bedrock" help:"AWS profile with the keys and the default region"`
	Timeout      time.Duration   `key:"timeout" file:"true" optional:"true" min:"1ms" help:"timeout of a whole answer, instead of upstream.total"`
	Proxy        string          `key:"proxy" file:"true" optional:"true" required:"true" check:"proxy" help:"proxy (http, https or socks5), instead of upstream.proxy_env"`
	Options      adapter.Options `key:"options" file:"true" optional:"true" help:"options of its models; a model's own options override them"`
	Headers      []*Header       // of each request
	Set          bool            // a setting of it is not its default
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

// Model has the settings of one model.
type Model struct {
	Name    string          // "provider:name"
	Options adapter.Options `key:"options" optional:"true" help:"options of the model; workflow, agent and request override them"`
}

// preset is a provider that is known by name, so that a key is all it needs, or less.
type preset struct {
	Name    string
	Title   string // as people call it
	Kind    string
	BaseURL string `json:"base_url"` // empty where every customer has another
	Models  string // the default models, separated by commas
	Keyless bool   // it works without a key
	As      string // the preset whose key, address and organization it uses if it has no other; may be empty

	// Env has, by the last part of a setting's key, the variables that users of the provider have set for other programs already. Vertex AI and
	// Bedrock also read the keys of an account where Google's and Amazon's other programs look for them.
	Env map[string][]string
}

//go:embed presets.json
var presetsFile []byte

// presets are the providers that are known by name, in the order in which the default model is looked for. Newer ones come after older ones, so
// that no default model changes.
var presets = func() (list []preset) {
	if err := json.Unmarshal(presetsFile, &list); err != nil {
		panic("config: presets.json: " + err.Error()) // it is ours
	}
	return list
}()

// variables are those of a setting, by the last part of its key, that count for the preset.
func (p preset) variables(field string) []string {
	if as, ok := findPreset(p.As); ok {
		return as.Env[field]
	}
	return p.Env[field]
}

// variable is the first one, as errors name it; empty is none.
func (p preset) variable(field string) string {
	if names := p.variables(field); len(names) > 0 {
		return names[0]
	}
	return ""
}

func findPreset(name string) (preset, bool) {
	return lookup(presets, func(p preset) bool { return p.Name == name })
}

// Provider returns the provider of this name.
func (c *Config) Provider(name string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.Name == name {
			return *p, true
		}
	}
	return Provider{}, false
}

// provider returns the provider of this name. It adds one if there is none.
func (c *Config) provider(name string) *Provider {
	return element(&c.Providers, func(p *Provider) *string { return &p.Name }, name)
}

// Missing says what the provider still needs before it can be asked, as a sentence for people; empty is nothing.
func (p Provider) Missing() string {
	known, ok := findPreset(p.Name)
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
func (p Provider) needsKey(known preset) bool {
	switch {
	case known.Keyless:
		return false
	case p.Name == "openai", p.Kind == KindResponses, p.Kind == KindAnthropic, p.Kind == KindGemini:
		return p.BaseURL == known.BaseURL
	}
	return true
}

// exampleURLs shows, for each kind of providers whose address only their users know, what it looks like.
var exampleURLs = map[string]string{
	KindOpenAI: "http://127.0.0.1:8000/v1", KindAzure: "https://NAME.openai.azure.com", KindAzureResponses: "https://NAME.openai.azure.com",
	KindCoze: "https://api.coze.cn", KindOllama: "http://127.0.0.1:11434",
}

func needsURL(kind string) bool { return exampleURLs[kind] != "" }

// defaultAPIVersion is the last one that Azure has declared generally available before it made versions unnecessary under
// /openai/v1. It has all that is sent: streamed usage, tools, JSON Schema.
const defaultAPIVersion = "2024-10-21"

// addPreset adds the provider of a preset. It returns its settings, which are flags and variables as most settings are.
func (c *Config) addPreset(p preset) []Setting {
	added := c.provider(p.Name)
	added.Kind, added.KeyName = p.Kind, providers+p.Name+".key"
	if names := p.Env["key"]; len(names) > 0 {
		added.KeyName = names[0]
	}
	all := providerSettings(added, p.Title)
	for i := range all {
		s := &all[i]
		field := s.path[2]
		s.Env = p.Env[field]
		switch field {
		case "base_url":
			s.Default = p.BaseURL
		case "models":
			s.Default = p.Models
		case "organization":
			s.fileOnly = len(s.Env) == 0
		}
	}
	return all
}

// addedSettings are the settings of a provider that the file adds. The kind is one of them.
func addedSettings(p *Provider) []Setting {
	all := providerSettings(p, p.Name)
	for i, s := range all {
		all[i].fileOnly = true
		all[i].required = s.required || s.path[2] == "base_url" && needsURL(p.Kind) || s.Secret && mustHaveKey(p.Kind)
	}
	return append([]Setting{kindSetting(p)}, all...)
}

// mustHaveKey reports whether the servers of a kind always need a key.
func mustHaveKey(kind string) bool {
	return kind == KindAzure || kind == KindAzureResponses || kind == KindCoze
}

func kindSetting(p *Provider) Setting {
	s := fileSetting([]string{"providers", p.Name, "kind"}, "the server's protocol", &p.Kind)
	s.OneOf = kinds
	return s
}

// providerSettings are the settings that a provider of its kind has. title is its name for people.
func providerSettings(p *Provider, title string) (all []Setting) {
	name, kind := p.Name, p.Kind
	for _, s := range settingsOf([]string{"providers", name}, p) {
		if len(s.kinds) > 0 && !slices.Contains(s.kinds, kind) {
			continue
		}
		s.Help = strings.ReplaceAll(s.Help, "TITLE", title)
		switch field := s.path[2]; {
		case field == "base_url" && kind == KindOllama:
			s.check = "host"
			s.Help += ", in any form of OLLAMA_HOST"
		case field == "base_url" && name == "openai":
			s.Help += ", or of a compatible server, which may need no key"
		case field == "base_url" && (kind == KindAzure || kind == KindAzureResponses):
			s.Help += ", such as https://NAME.openai.azure.com"
		case field == "api_version" && kind == KindAzure:
			s.Default, s.required = defaultAPIVersion, true
		case field == "api_version":
			s.Help += "; unset: paths below /openai/v1, without a version"
		}
		all = append(all, s)
	}
	return all
}

// headerName is what a header can be called. Those that say how a request is sent are not for settings.
var (
	headerName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	ownedHeader = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection"}
)

// headerSetting is one header of the requests to a provider.
func headerSetting(provider string, h *Header) Setting {
	return fileSetting([]string{"providers", provider, "headers", h.Name}, "header of each request", &h.Value)
}

// headers reads the headers of a provider.
func (l *loader) headers(n *yaml.Node, name string) {
	path := []string{"providers", name, "headers"}
	for k, v := range l.members(n, path, "headers, one per line, such as \"X-Team: …\"") {
		switch {
		case !headerName.MatchString(k.Text):
			l.Errorf(k, yaml.Path(path...), "invalid name; a header's name starts with a letter and has only letters, digits, - and _")
		case slices.Contains(ownedHeader, http.CanonicalHeaderKey(k.Text)):
			l.Errorf(k, yaml.Path(path...), "the header %s cannot be set; remove it", k.Text)
		default:
			header := &Header{Name: k.Text}
			p := l.c.provider(name)
			p.Headers = append(p.Headers, header)
			s := headerSetting(name, header)
			l.c.settings = append(l.c.settings, s)
			l.setting(s, v)
		}
	}
}

// finishModels checks that the providers of the models with settings exist.
func (l *loader) finishModels() {
	for _, m := range l.c.Models {
		key := yaml.Path("models", m.Name, "options")
		prefix, _, _ := strings.Cut(m.Name, ":")
		if _, ok := l.c.Provider(prefix); !ok && prefix != "demo" && l.c.sources[key].Kind != Default {
			l.wrong(key, "unknown provider %s", prefix)
		}
	}
}

// presetKind allows a preset's kind to be set, but not to be another: its name would no longer say what it is.
func (l *loader) presetKind(n *yaml.Node, name string) {
	p := l.c.provider(name)
	s := kindSetting(p)
	if kind, ok := l.oneOf(s, n); ok && kind != p.Kind {
		l.Errorf(n, s.Key, "the name %s is reserved for the provider of kind %s; choose another name", name, p.Kind)
	}
}

// oneOf reads a text that decides which other settings there are.
func (l *loader) oneOf(s Setting, n *yaml.Node) (string, bool) {
	v, ok := l.value(s, n)
	if ok && !slices.Contains(s.OneOf, v.text) {
		l.Errorf(n, s.Key, "%v", noneOf(v.text, s.OneOf))
		ok = false
	}
	return v.text, ok
}

// provider reads a provider that is no preset.
func (l *loader) provider(at, n *yaml.Node) {
	name := at.Text
	key, path := providers+name, []string{"providers", name}
	switch {
	case name == "demo":
		l.Errorf(at, key, "demo is the built-in scripted model; choose another name")
		return
	case !providerName.MatchString(name):
		l.Errorf(at, key, "invalid name; a provider's name has only lower-case letters, digits, - and _")
		return
	case n.Kind != yaml.Mapping && n.Kind != yaml.Null:
		l.Errorf(n, key, "expected settings, one per line, such as \"kind: …\"")
		return
	}
	kindNode := n.Get("kind")
	if kindNode == nil {
		var names []string
		for _, p := range presets {
			names = append(names, p.Name)
		}
		l.Errorf(at, key, "needs a kind; expected one of %s%s", strings.Join(kinds, ", "), didYouMean(name, names))
		return
	}
	kind, ok := l.oneOf(kindSetting(&Provider{Name: name}), kindNode)
	if !ok {
		return
	}
	p := l.c.provider(name)
	p.Kind, p.KeyName = kind, key+".key"
	known := addedSettings(p)
	l.c.settings = append(l.c.settings, known...)
	l.applyElsewhere(known)
	l.readSettings(n, path, known, func(k, v *yaml.Node, path []string) {
		if k.Text == "headers" {
			l.headers(v, name)
		} else {
			l.unknownOf("a provider of kind "+kind, k, path, 2, known)
		}
	})
	has := func(field string) bool { return n.Get(field) != nil }
	switch {
	case kind == KindVertex && !has("project") && !has("key"):
		l.Errorf(at, key, "needs a project; set project")
	case kind == KindBedrock && !has("region") && !has("profile") && !has("base_url"):
		l.Errorf(at, key, "needs a region; set region")
	case !has("base_url") && needsURL(kind):
		l.Errorf(at, key, "needs base_url, the server's address, such as %s", exampleURLs[kind])
	}
	if !has("key") && (mustHaveKey(kind) || !has("base_url") && (kind == KindAnthropic || kind == KindGemini || kind == KindResponses)) {
		l.Errorf(at, key, "needs a key; expected key: {env: NAME} or {file: PATH}")
	}
}

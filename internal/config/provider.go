package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/ollama/host"
	"github.com/lingserve/lingserve/internal/edits"
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
	APIVersion   string          `key:"api_version" kinds:"azure azure-responses" help:"API version of TITLE; of azure-responses mostly none"`
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
	needs := func(what, field string) string {
		where := providers + p.Name + "." + field
		if variable := known.variable(field); variable != "" {
			where = variable + " or " + where
		}
		if p.Name == "openai" {
			where = "OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server"
		}
		return fmt.Sprintf("%s needs %s; set %s", cmp.Or(known.Title, p.Name), what, where)
	}
	switch {
	case p.BaseURL == "" && needsURL(p.Kind):
		return needs("an address", "base_url")
	case p.Key == "" && !known.Keyless && p.needsKey(ok):
		return needs("a key", "key")
	case p.Kind == KindVertex && p.Project == "" && p.Key == "":
		return needs("a project", "project")
	case p.Kind == KindBedrock && p.Region == "" && p.Profile == "" && p.BaseURL == "":
		return needs("a region", "region")
	}
	return ""
}

// needsKey: behind the address of some there may be a gateway or any compatible server, and many of those ask for no key.
func (p Provider) needsKey(isPreset bool) bool {
	switch p.Kind {
	case KindAzure, KindAzureResponses, KindCoze:
		return true
	case KindAnthropic, KindGemini, KindResponses:
		own, _ := findPreset(p.Kind) // of the same name
		return p.BaseURL == own.BaseURL
	case KindOpenAI:
		return isPreset && (p.Name != "openai" || p.BaseURL == presets[0].BaseURL)
	}
	return false
}

// needsURL reports whether only the users of a kind know its address.
func needsURL(kind string) bool {
	return slices.Contains([]string{KindOpenAI, KindAzure, KindAzureResponses, KindCoze, KindOllama}, kind)
}

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
	all := append(providerSettings(added, p.Title), kindSetting(added))
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

// kindSetting is the protocol of a provider's server. A preset has only one.
func kindSetting(p *Provider) Setting {
	s := fileSetting([]string{"providers", p.Name, "kind"}, "the server's protocol", &p.Kind)
	s.OneOf = kinds
	if known, ok := findPreset(p.Name); ok {
		s.OneOf, s.optional = []string{known.Kind}, true
	}
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
		case field == "api_version" && kind == KindAzure:
			s.Default, s.required = defaultAPIVersion, true
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

// addHeaders adds the headers of a provider.
func (l *loader) addHeaders(provider string, n *yaml.Node) {
	path := yaml.Path("providers", provider, "headers")
	l.sections[path] = true
	for k := range n.Members() {
		switch {
		case !headerName.MatchString(k.Text):
			l.Errorf(k, path, "invalid name; a header's name starts with a letter and has only letters, digits, - and _")
		case slices.Contains(ownedHeader, http.CanonicalHeaderKey(k.Text)):
			l.Errorf(k, path, "the header %s cannot be set; remove it", k.Text)
		default:
			header := &Header{Name: k.Text}
			p := l.c.provider(provider)
			p.Headers = append(p.Headers, header)
			l.add(headerSetting(provider, header))
			continue
		}
		l.invalid[yaml.Path("providers", provider, "headers", k.Text)] = true
	}
}

// finishModels checks that the providers of models exist, and warns of options that a provider does not support (MO-22).
func (l *loader) finishModels() {
	for _, p := range l.c.Providers {
		l.warnOfOptions(providers+p.Name+".options", p.Name+":", p.Options)
	}
	for _, m := range l.c.Models {
		key := yaml.Path("models", m.Name, "options")
		prefix, _, _ := strings.Cut(m.Name, ":")
		if _, ok := l.c.Provider(prefix); !ok && prefix != "demo" && l.c.sources[key].Kind != Default {
			l.wrong(key, "unknown provider %s", prefix)
			continue
		}
		l.warnOfOptions(key, m.Name, m.Options)
	}
	for _, a := range l.c.Agents {
		l.warnOfOptions("agents."+a.Name+".options", cmp.Or(a.Model, l.c.Model), a.Options)
	}
}

// warnOfOptions warns of the options that a provider of a chain of models does not support.
func (l *loader) warnOfOptions(key, chain string, o adapter.Options) {
	for _, link := range adapter.Links(chain) {
		prefix, _, _ := strings.Cut(link, ":")
		p, ok := l.c.Provider(prefix)
		if !ok {
			continue
		}
		for _, name := range adapter.Lacking(p.Kind, o) {
			l.warn("%s: %s.%s has no effect for models of %s, because that provider does not support it", l.c.sources[key].Name, key, name, prefix)
		}
	}
}

// addProvider adds a provider that is no preset.
func (l *loader) addProvider(at, n *yaml.Node) bool {
	name, key := at.Text, providers+at.Text
	kind := n.Get("kind")
	switch {
	case name == "demo":
		l.Errorf(at, key, "demo is the built-in scripted model; choose another name")
		return false
	case kind == nil:
		var names []string
		for _, p := range presets {
			names = append(names, p.Name)
		}
		l.Errorf(at, key, "needs a kind; expected one of %s%s", strings.Join(kinds, ", "), edits.Suggest(name, names, ""))
		return false
	case !slices.Contains(kinds, kind.Text):
		l.Errorf(kind, key+".kind", "%v", noneOf(kind.Text, kinds))
		return false
	}
	p := l.c.provider(name)
	p.Kind, p.KeyName = kind.Text, key+".key"
	l.add(kindSetting(p))
	for _, s := range providerSettings(p, name) {
		s.fileOnly = true
		l.add(s)
	}
	return true
}

// checkProvider refuses a provider of the file's that cannot be asked. What a preset lacks is no error, because it may not be used.
func (l *loader) checkProvider(at *yaml.Node, key string) {
	p := l.c.provider(at.Text)
	if l.invalid[key+".base_url"] || l.invalid[key+".key"] {
		return
	}
	if missing := p.Missing(); missing != "" && !slices.ContainsFunc(presets, func(known preset) bool { return known.Name == p.Name }) {
		l.Errorf(at, key, "%s", missing)
	}
}

// noteProvider records what a setting that is not the default says of its provider.
func (l *loader) noteProvider(s Setting, v value) {
	p, field := l.c.provider(s.path[1]), s.path[2]
	// Some variables of other programs do not mean that the user wants the provider.
	p.Set = p.Set || !slices.Contains(s.Env, v.from.Name) || !slices.Contains([]string{"region", "profile", "project", "location", "organization"}, field)
	switch { // the name of the key for errors that are shown to callers: not a path
	case field != "key":
	case v.variable != "":
		p.KeyName = v.variable
	case v.from.Kind == Flag:
		p.KeyName = v.from.Name
	default:
		p.KeyName = s.Key
	}
}

const (
	defaultModel = "demo:demo"
	// compatibleModel is a name that many servers with OpenAI's protocol accept, whichever model they run.
	compatibleModel = "gpt-4o-mini"
	openAIModels    = providers + "openai.models"
)

// finishProviders puts in what follows from several settings together.
func (l *loader) finishProviders() {
	for _, own := range l.c.Providers {
		known, ok := findPreset(own.Name)
		if !ok && !needsURL(own.Kind) {
			known, _ = findPreset(own.Kind) // of the same name
		}
		own.BaseURL = cmp.Or(own.BaseURL, known.BaseURL)
		if u, err := host.Parse(own.BaseURL); own.Kind == KindOllama && err == nil {
			own.BaseURL = u.String()
		}
		if own.Key == "" && (own.Kind == KindVertex || own.Kind == KindBedrock) {
			own.KeyName = "" // they are asked with what their other programs know
		}
		if known.As != "" && ok {
			l.shareKey(own, known.As)
		}
	}
	for _, p := range presets {
		if missing := l.c.provider(p.Name).Missing(); missing != "" && l.setBy(p.Name) != "" {
			l.warn("%s", missing)
		}
	}
	// Another server has other models, and we do not know which.
	if p := l.c.provider("openai"); p.BaseURL != presets[0].BaseURL && l.c.sources[openAIModels].Kind == Default {
		p.Models = nil
		l.c.sources[openAIModels] = Source{Name: "since the address is not OpenAI's"}
	}
}

// shareKey gives a preset without a key and an address those of another one, which comes before it.
func (l *loader) shareKey(own *Provider, other string) {
	if l.c.sources[providers+own.Name+".key"].Kind != Default || l.c.sources[providers+own.Name+".base_url"].Kind != Default {
		return
	}
	as := l.c.provider(other)
	own.Key, own.KeyName, own.BaseURL, own.Organization = as.Key, as.KeyName, as.BaseURL, cmp.Or(own.Organization, as.Organization)
	for _, field := range []string{".key", ".base_url"} {
		if l.c.sources[providers+other+field].Kind != Default {
			l.c.sources[providers+own.Name+field] = Source{Name: "that of providers." + other}
		}
	}
}

// chooseModel takes the first model of the first provider that is set up, so that a key is all that a real model needs.
func (l *loader) chooseModel() {
	if l.c.Model != "" {
		return
	}
	l.c.Model = defaultModel
	for _, p := range l.c.Providers {
		models := p.Models
		if p.Name == "openai" && len(models) == 0 && l.c.sources[openAIModels].Kind == Default {
			models = []string{compatibleModel}
		}
		if p.Missing() != "" || len(models) == 0 {
			continue
		}
		l.c.Model = p.Name + ":" + models[0]
		l.c.sources["model"] = Source{Name: "since " + cmp.Or(l.setBy(p.Name), "providers."+p.Name) + " is set"}
		return
	}
}

// setBy names the first of the settings that set the provider up; "" is none.
func (l *loader) setBy(name string) string {
	for _, field := range []string{"key", "base_url", "models"} {
		key := providers + name + "." + field
		switch from := l.c.sources[key]; from.Kind {
		case Environment, Flag:
			return from.Name
		case File:
			return key
		}
	}
	return ""
}

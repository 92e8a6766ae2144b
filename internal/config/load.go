package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter/ollama/host"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Error is a wrong setting: where it stands, which it is, and what was expected.
type Error struct {
	Where   string // "lingserve.yaml:3:7", "LINGSERVE_ADDR", "--addr"
	Key     string // empty where the file as a whole is meant
	Message string
}

func (e *Error) Error() string {
	if e.Key == "" || strings.HasPrefix(e.Where, "--") {
		return e.Where + ": " + e.Message
	}
	return e.Where + ": " + e.Key + ": " + e.Message
}

// wrong makes the error of a setting, at the place where its value comes from.
func (c *Config) wrong(key, format string, args ...any) *Error {
	return &Error{Where: c.sources[key].where(key), Key: key, Message: fmt.Sprintf(format, args...)}
}

// wrong records that the value of a setting is wrong.
func (l *loader) wrong(key, format string, args ...any) {
	l.errs = append(l.errs, l.c.wrong(key, format, args...))
}

// warn records what was probably not meant.
func (l *loader) warn(format string, args ...any) {
	l.c.Warnings = append(l.c.Warnings, fmt.Sprintf(format, args...))
}

// where names the source in an error; a default is named by the flag that would change it.
func (s Source) where(key string) string {
	if s.Kind == Default {
		if s, ok := find(key); ok {
			return "--" + s.Flag()
		}
		return "--" + Setting{Key: key}.Flag()
	}
	return s.Name
}

const (
	defaultModel = "demo:demo"
	// compatibleModel is a name that many servers with OpenAI's protocol accept, whichever model they run.
	compatibleModel = "gpt-4o-mini"
	openAIModels    = providers + "openai.models"
)

// Load puts the settings together. environ is as os.Environ gives it; flags may be nil. The error joins an [*Error] for each
// wrong setting.
func Load(flags *Flags, environ []string) (*Config, error) {
	l := newLoader(flags, environ)
	known := slices.Clone(l.c.settings) // without those that the file adds
	l.readFile()
	l.applyElsewhere(slices.DeleteFunc(known, func(s Setting) bool { return l.c.sources[s.Key].Kind == File }))
	if l.noFile {
		l.c.sources["config"] = Source{Name: "not there"}
	}
	l.finishChannels()
	l.finishProviders()
	l.finishAuth()
	l.finishDatabase()
	l.finishFiles()
	l.chooseModel()
	l.finishModels()
	l.warnOfVariables(environ)
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	return l.c, nil
}

// loader reads the configuration file and puts the settings together.
type loader struct {
	yaml.Reader // of the configuration file

	c     *Config
	flags *Flags
	env   map[string]string
	errs  []error

	noFile bool   // the default file is not there
	dir    string // of the file; {file: …} is relative to it
	hasKey bool   // a secret is in the file itself
}

func newLoader(flags *Flags, environ []string) *loader {
	l := &loader{c: newConfig(), flags: flags, env: map[string]string{}}
	l.c.flags, l.c.environ = flags, environ
	for _, kv := range environ {
		if name, text, ok := strings.Cut(kv, "="); ok {
			l.env[name] = text
		}
	}
	l.applyElsewhere(l.c.agentSettings(DefaultAgent))
	return l
}

// applyElsewhere takes settings that the file does not have from flags, variables, or their defaults.
func (l *loader) applyElsewhere(settings []Setting) {
	for _, s := range settings {
		if v := l.find(s); v != nil {
			l.apply(s, *v)
		} else if s.Default != "" && !s.optional {
			l.apply(s, value{text: s.Default})
		}
	}
}

// apply stores a value.
func (l *loader) apply(s Setting, v value) {
	l.c.sources[s.Key] = v.from
	if err := s.set(v); err != nil {
		l.errs = append(l.errs, &Error{Where: cmp.Or(v.from.at, v.from.Name, "default"), Key: s.Key, Message: err.Error()})
	}
	if s.Secret && v.from.Kind == Flag && v.text != "" {
		l.warn("%s contains a secret, which every user of this machine can read in the list of processes; %s", v.from.Name, s.otherSources())
	}
	if (s.Secret || s.Key == "database") && v.file != "" {
		l.c.secretsFrom = append(l.c.secretsFrom, secretFile{"the file of this secret", v.file, s.Key, false})
	}
	if s.path[0] != "providers" || v.from.Kind == Default {
		return
	}
	p := l.c.provider(s.path[1])
	// Some variables of other programs do not mean that the user wants the provider.
	p.Set = p.Set || !slices.Contains(s.Env, v.from.Name) || !slices.Contains([]string{"region", "profile", "project", "location", "organization"}, s.path[2])
	if s.path[2] == "key" {
		p.KeyName = keyName(s, v)
	}
}

// otherSources names the sources of a secret other than the flag.
func (s Setting) otherSources() string {
	variables := strings.Join(s.Variables(), " or ")
	if file, ok := find(s.Key + "_file"); ok {
		return fmt.Sprintf("use --%s, or the environment variable %s", file.Flag(), variables)
	}
	return fmt.Sprintf("use the environment variable %s, or %s: {file: PATH} in the configuration file", variables, s.Key)
}

// finishProviders puts in what follows from several settings together.
func (l *loader) finishProviders() {
	for _, own := range l.c.Providers {
		known, ok := findPreset(own.Name)
		if !ok && !needsURL(own.Kind) {
			known, _ = findPreset(own.Kind) // of the same name
		}
		if own.BaseURL == "" {
			own.BaseURL = known.BaseURL
		}
		if u, err := host.Parse(own.BaseURL); own.Kind == KindOllama && err == nil {
			own.BaseURL = u.String()
		}
		if own.Key == "" && (own.Kind == KindVertex || own.Kind == KindBedrock) {
			own.KeyName = "" // they are asked with what their other programs know
		}
	}
	for _, p := range presets {
		if p.As == "" || l.c.sources[providers+p.Name+".key"].Kind != Default || l.c.sources[providers+p.Name+".base_url"].Kind != Default {
			continue
		}
		own, as := l.c.provider(p.Name), l.c.provider(p.As)
		own.Key, own.KeyName, own.BaseURL, own.Organization = as.Key, as.KeyName, as.BaseURL, cmp.Or(own.Organization, as.Organization)
		for _, field := range []string{".key", ".base_url"} {
			if l.c.sources[providers+p.As+field].Kind != Default {
				l.c.sources[providers+p.Name+field] = Source{Name: "that of providers." + p.As}
			}
		}
	}
	for _, p := range l.c.Providers {
		if missing := p.Missing(); missing != "" && l.setBy(p.Name) != "" {
			l.warn("%s", missing)
		}
	}
	// Another server has other models, and we do not know which.
	if p := l.c.provider("openai"); p.BaseURL != presets[0].BaseURL && l.c.sources[openAIModels].Kind == Default {
		p.Models = nil
		l.c.sources[openAIModels] = Source{Name: "since the address is not OpenAI's"}
	}
}

// keyName is how an error that is shown to callers names the place of a key: not by a path.
func keyName(s Setting, v value) string {
	switch {
	case v.variable != "":
		return v.variable
	case v.from.Kind == Flag:
		return v.from.Name
	}
	return s.Key
}

// find looks on the command line and in the environment. An empty variable counts as unset, as it does for most programs.
func (l *loader) find(s Setting) *value {
	if s.fileOnly {
		return nil
	}
	if l.flags != nil {
		if given := l.flags.given[s.Key]; len(given) > 0 {
			name := "--" + s.Flag()
			v := &value{text: given[len(given)-1], from: Source{Kind: Flag, Name: name}}
			if s.kind.list {
				v.text = strings.Join(given, ",")
			}
			return v
		}
	}
	for _, name := range s.Variables() {
		if text := l.env[name]; text != "" {
			return &value{text: text, from: Source{Kind: Environment, Name: name}, variable: name}
		}
	}
	return nil
}

// readFile reads the configuration file. The default file may be missing, one that is named may not.
func (l *loader) readFile() {
	path, at, named := "lingserve.yaml", "lingserve.yaml", false
	s, _ := find("config")
	if v := l.find(s); v != nil {
		path, at, named = v.text, v.from.Name, true
	}
	if path == "" { // --config "" reads none
		return
	}
	text, err := readLimited(path, 64<<10)
	if errors.Is(err, os.ErrNotExist) && !named {
		l.noFile = true
		return
	}
	if err != nil {
		l.errs = append(l.errs, &Error{Where: at, Message: fmt.Sprintf("cannot read the configuration file: %s", plain(err))})
		return
	}
	l.File, l.dir, l.c.fileRead = path, filepath.Dir(path), path
	l.read(string(text))
	l.errs = append(l.errs, problems(&l.Reader)...)
	l.c.settings = group(l.c.settings)
	if l.hasKey && readableByAll(path) {
		l.warn("%s contains a key, and every user of this machine can read the file; use {env: NAME} or {file: PATH} for the key, or change the file's permissions (chmod o-r)", path)
	}
}

// readableByAll is asked of configuration files only. The files behind {file: …} are not looked at: container platforms mount
// secrets readable for everybody in the container.
func readableByAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// readLimited reads a file of at most limit bytes: a configuration is small, and a device or a pipe given by mistake is not.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; expected a file", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is larger than %s", path, Size(limit))
	}
	return os.ReadFile(path)
}

// plain is the error without the name of the system call.
func plain(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Path + ": " + pe.Err.Error()
	}
	return err.Error()
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
		key := "providers." + name + "." + field
		switch from := l.c.sources[key]; from.Kind {
		case Environment, Flag:
			return from.Name
		case File:
			return key
		}
	}
	return ""
}

// warnOfVariables tells of variables that look like a mistyped setting. They are not refused: container platforms put
// variables of their own beginning with a service's name into the environment.
func (l *loader) warnOfVariables(environ []string) {
	known := []string{ClientKey}
	for _, s := range Settings() {
		known = append(known, s.Variables()...)
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "LINGSERVE_") || slices.Contains(known, name) {
			continue
		}
		if added := l.addedBy(name); added != "" {
			l.warn("the environment variable %s has no effect; set providers.%s in the configuration file, where {env: NAME} reads a variable", name, added)
			continue
		}
		if near := edits.Nearest(name, known); near != "" {
			l.warn("the environment variable %s has no effect; did you mean %s?", name, near)
		}
	}
}

// addedBy is the provider of the file that a variable seems to be meant for.
func (l *loader) addedBy(variable string) string {
	for _, p := range l.c.Providers[len(presets):] {
		if strings.HasPrefix(variable, "LINGSERVE_PROVIDERS_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))+"_") {
			return p.Name
		}
	}
	return ""
}

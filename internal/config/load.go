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

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
)

// wrong makes the error of a setting, at the place where its value comes from.
func (c *Config) wrong(key, format string, args ...any) *yaml.Error {
	return settingError(c.sources[key].where(key), key, fmt.Sprintf(format, args...))
}

// settingError is the error of a value from a file, with its line, or from a variable or a flag. A flag's name is enough without the key.
func settingError(source, key, message string) *yaml.Error {
	if strings.HasPrefix(source, "--") {
		key = ""
	}
	return &yaml.Error{File: source, Path: key, Message: message}
}

// where names the source in an error; a default is named by the flag that would change it.
func (s Source) where(key string) string {
	if s.Kind == Default {
		return "--" + Setting{Key: key}.Flag()
	}
	return s.Name
}

// Load puts the settings together. environ is as os.Environ gives it; flags may be nil. The error joins a [*yaml.Error] for each
// wrong setting.
func Load(flags *Flags, environ []string) (*Config, error) {
	l := newLoader(flags, environ)
	l.read(l.readFile())
	l.finishChannels()
	l.finishDatabase()
	l.chooseModel()
	l.finishModels()
	l.warnOfVariables(environ)
	if err := l.Err(); err != nil {
		return nil, err
	}
	return l.c, nil
}

// loader puts the settings together. It first makes a setting of everything that can be set, also below the names that the file has, then
// finds the value of each in the file, and at last applies all in their order.
type loader struct {
	yaml.Reader // of the configuration file; it also has the errors of variables and flags

	c     *Config
	flags *Flags
	env   map[string]string

	dir      string                // of the file; {file: …} is relative to it
	hasKey   bool                  // a secret is in the file itself
	known    map[string]bool       // the keys of the settings
	sections map[string]bool       // the keys below which settings are
	invalid  map[string]bool       // the keys of values and sections whose error is reported
	nodes    map[string]*yaml.Node // the values in the file, by key
	later    []func()              // called when all settings are applied
}

func newLoader(flags *Flags, environ []string) *loader {
	l := &loader{
		c: newConfig(), flags: flags, env: map[string]string{},
		known: map[string]bool{}, sections: map[string]bool{}, invalid: map[string]bool{}, nodes: map[string]*yaml.Node{},
	}
	l.c.flags, l.c.environ = flags, environ
	for _, kv := range environ {
		if name, text, ok := strings.Cut(kv, "="); ok {
			l.env[name] = text
		}
	}
	l.index(l.c.settings)
	l.add(l.c.agentSettings(DefaultAgent)...)
	return l
}

// wrong records that the value of a setting is wrong.
func (l *loader) wrong(key, format string, args ...any) {
	l.Add(l.c.wrong(key, format, args...))
}

// warn records what was probably not meant.
func (l *loader) warn(format string, args ...any) {
	l.c.Warnings = append(l.c.Warnings, fmt.Sprintf(format, args...))
}

// add adds settings.
func (l *loader) add(settings ...Setting) {
	l.c.settings = append(l.c.settings, settings...)
	l.index(settings)
}

// index records the keys of settings.
func (l *loader) index(settings []Setting) {
	for _, s := range settings {
		l.known[s.Key] = true
		for depth := range s.path {
			l.sections[yaml.Path(s.path[:depth]...)] = true
		}
	}
}

// read reads the text of the configuration file, and applies all settings.
func (l *loader) read(text string) {
	if root := l.Parse(text); root != nil {
		l.expand(root)
		l.collect(root, nil)
	}
	for _, s := range l.c.settings {
		l.apply(s)
	}
	l.finishProviders()
	for _, do := range l.later {
		do()
	}
	l.c.settings = group(l.c.settings)
}

// apply stores the value of a setting: that of the command line, the environment or the file, or else the default.
func (l *loader) apply(s Setting) {
	v, ok := l.given(s)
	if n := l.nodes[s.Key]; n != nil && !ok {
		l.c.sources[s.Key] = l.source(n)
		if s.Key == pricesKey && n.Kind == yaml.Mapping {
			l.prices(n)
			return
		}
		if v, ok = l.value(s, n); !ok {
			l.invalid[s.Key] = true
			return
		}
	}
	switch {
	case ok:
	case s.inherits != nil:
		s.field.Set(s.inherits.field)
		l.c.sources[s.Key] = l.c.sources[s.inherits.Key]
		return
	case s.Default == "" || s.optional || s.verify != nil:
		return
	default:
		v = value{text: s.Default}
	}
	l.c.sources[s.Key] = v.from
	if err := s.set(v); err != nil {
		l.invalid[s.Key] = true
		l.Add(settingError(cmp.Or(v.from.at, v.from.Name, "default"), s.Key, err.Error()))
	}
	secret := s.Secret || s.Key == "database" && l.c.databasePassword() != ""
	if secret && v.from.Kind == Flag && v.text != "" {
		l.warn("%s contains a secret, which every user of this machine can read in the list of processes; use the environment variable %s",
			v.from.Name, s.Variables()[0])
	}
	if secret && v.file != "" {
		l.c.secretsFrom = append(l.c.secretsFrom, secretFile{"the file of this secret", v.file, s.Key, false})
	}
	if s.path[0] == "providers" && v.from.Kind != Default {
		l.noteProvider(s, v)
	}
}

// given looks on the command line and in the environment. An empty variable counts as unset, as it does for most programs.
func (l *loader) given(s Setting) (v value, ok bool) {
	if s.fileOnly {
		return v, false
	}
	if l.flags != nil {
		if given := l.flags.given[s.Key]; len(given) > 0 {
			v := value{text: given[len(given)-1], from: Source{Kind: Flag, Name: "--" + s.Flag()}}
			if s.isList() {
				v.text = strings.Join(given, ",")
			}
			return v, true
		}
	}
	for _, name := range s.Variables() {
		if text := l.env[name]; text != "" {
			return value{text: text, from: Source{Kind: Environment, Name: name}, variable: name}, true
		}
	}
	return v, false
}

// readFile returns the text of the configuration file. The default file may be missing, one that is named may not.
func (l *loader) readFile() string {
	path, where := "lingserve.yaml", "lingserve.yaml"
	s, _ := find("config")
	v, named := l.given(s)
	if named {
		path, where = v.text, v.from.Name
	}
	if path == "" { // --config "" reads none
		return ""
	}
	text, err := readLimited(path, 64<<10)
	if errors.Is(err, os.ErrNotExist) && !named {
		l.later = append(l.later, func() { l.c.sources["config"] = Source{Name: "not there"} })
		return ""
	}
	if err != nil {
		l.Add(&yaml.Error{File: where, Message: "cannot read the configuration file: " + plain(err)})
		return ""
	}
	l.File, l.dir, l.c.fileRead = path, filepath.Dir(path), path
	l.later = append(l.later, func() {
		// The files behind {file: …} are not looked at: container platforms mount secrets readable for everybody in the container.
		if info, err := os.Stat(path); l.hasKey && err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 {
			l.warn("%s contains a key, and every user of this machine can read the file; use {env: NAME} or {file: PATH} for the key, or change the "+
				"file's permissions (chmod o-r)", path)
		}
	})
	return string(text)
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
		if near := edits.Nearest(name, known); near != "" {
			l.warn("the environment variable %s has no effect; did you mean %s?", name, near)
		}
	}
}

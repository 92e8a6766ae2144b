package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/lingserve/lingserve/internal/yaml"
)

// load runs Load in a folder of its own, with a lingserve.yaml of this text where there is one.
func load(t *testing.T, file string, environ []string, args ...string) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		if err := os.WriteFile("lingserve.yaml", []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(parseFlags(t, args...), environ)
}

func parseFlags(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

func mustLoad(t *testing.T, file string, environ []string, args ...string) *Config {
	t.Helper()
	c, err := load(t, file, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWithoutAnythingTheDefaultsAreInForce(t *testing.T) {
	c := mustLoad(t, "", nil)
	if c.Addr != "127.0.0.1:8080" || c.Data != "./data" || c.Workflows != "./workflows" || c.Model != "demo:demo" {
		t.Errorf("got %+v", c)
	}
	if c.Run.Retention != 24*time.Hour || c.Run.MaxLog != 8<<20 || c.HTTP.MaxBody != 1<<20 || c.Log.Level != slog.LevelInfo {
		t.Errorf("got %+v", c)
	}
	for _, s := range Settings() {
		want := "default"
		if s.Key == "config" {
			want = "default, not there"
		}
		if got := c.Source(s.Key).String(); got != want {
			t.Errorf("%s comes from %s", s.Key, got)
		}
	}
}

// openAI is the provider that most tests of settings use.
func openAI(c *Config) Provider {
	p, _ := c.Provider("openai")
	return p
}

// settingIn is the setting of c with a key.
func settingIn(c *Config, key string) Setting {
	s, _ := lookup(c.settings, func(s Setting) bool { return s.Key == key })
	return s
}

// sample is a value of the setting's kind that is not its default; n tells three of them apart.
func sample(s Setting, n int) string {
	switch {
	case s.check == "addr":
		return fmt.Sprintf("127.0.0.1:900%d", n)
	case strings.HasSuffix(s.Key, ".base_url"):
		return fmt.Sprintf("http://127.0.0.1:900%d/v1", n)
	case s.Key == "database":
		return fmt.Sprintf("sqlite:x%d.db", n)
	case s.Key == "media":
		return fmt.Sprintf("mine:m%d=image+pdf", n)
	case s.Key == "files.types":
		return []string{"image", "pdf", "audio", "file", "text"}[n]
	case s.Key == "auth.keys":
		return fmt.Sprintf("ann:%d-a-random-text-of-theirs:user", n)
	case s.Key == "auth.roles":
		return fmt.Sprintf("staff%d=operator", n)
	case s.check == "domain":
		return fmt.Sprintf("chat%d.example.com", n)
	case s.Key == "http.origins":
		return fmt.Sprintf("https://app%d.example.com", n)
	case s.Key == "http.proxies":
		return fmt.Sprintf("10.0.0.%d", n)
	case s.Key == "model":
		return fmt.Sprintf("openai:m%d", n)
	case len(s.OneOf) > 0:
		return s.OneOf[n%len(s.OneOf)]
	}
	switch s.Kind() {
	case "true or false":
		return fmt.Sprint(n%2 == 0)
	case "duration":
		return fmt.Sprintf("%ds", 31+n)
	case "size":
		return fmt.Sprintf("%dKiB", 101+n)
	case "whole number", "number":
		return fmt.Sprint(20 + n)
	}
	return fmt.Sprintf("x%d", n)
}

// PROTOCOL 6: every setting is a flag, an environment variable and a key, in that order of precedence.
func TestEverySettingIsFlagVariableAndKeyInThatOrder(t *testing.T) {
	for _, s := range Settings() {
		if s.Key == "config" {
			continue // has a test of its own
		}
		t.Run(s.Key, func(t *testing.T) {
			flagText, envText, fileText := sample(s, 2), sample(s, 3), sample(s, 4)
			path := strings.Split(s.Key, ".")
			line, file := len(path), ""
			for depth, name := range path {
				file += strings.Repeat("  ", depth) + name + ":\n"
			}
			file = strings.TrimSuffix(file, "\n") + " " + fileText
			if s.isList() {
				file = strings.Replace(file, fileText, "["+fileText+"]", 1)
			}
			variable := s.Variables()[0]
			for _, step := range []struct {
				name    string
				environ []string
				args    []string
				want    string
				source  string
			}{
				{"file", nil, nil, fileText, fmt.Sprintf("lingserve.yaml:%d", line)},
				{"environment over file", []string{variable + "=" + envText}, nil, envText, "environment " + variable},
				{"flag over both", []string{variable + "=" + envText}, []string{"--" + s.Flag() + "=" + flagText}, flagText, "flag --" + s.Flag()},
			} {
				t.Run(step.name, func(t *testing.T) {
					c := mustLoad(t, file, step.environ, step.args...)
					s := settingIn(c, s.Key)
					got := s.text()
					switch v := s.field.Interface().(type) {
					case Secret:
						got = v.Reveal()
					case []Secret:
						got = v[0].Reveal()
					}
					if got != step.want {
						t.Errorf("value is %q, want %q", got, step.want)
					}
					if got := c.Source(s.Key).String(); got != step.source {
						t.Errorf("source is %q, want %q", got, step.source)
					}
				})
			}
		})
	}
}

func TestOnlyTheValueInForceIsChecked(t *testing.T) {
	c := mustLoad(t, "run: {retention: soon}", nil, "--run-retention", "7m")
	if c.Run.Retention != 7*time.Minute {
		t.Errorf("got %v", c.Run.Retention)
	}
}

// PROTOCOL 6: a wrong setting stops the start with file, line and what was expected.
func TestAWrongSettingSaysWhereItStandsAndWhatWasExpected(t *testing.T) {
	for _, tc := range []struct {
		name    string
		file    string
		environ []string
		args    []string
		want    string
	}{
		{name: "duration in the file", file: "addr: 127.0.0.1:1\nrun:\n  retention: soon\n", want: `lingserve.yaml:3:14: run.retention: "soon" is invalid; expected a duration, such as 30s or 5m`},
		{name: "duration without a unit", file: "grace: 5", want: `lingserve.yaml:1:8: grace: "5" is invalid; expected a duration, such as 30s or 5m`},
		{name: "negative duration", args: []string{"--grace=-3s"}, want: `--grace: -3s is negative; expected 0 or more`},
		{name: "duration that is too small", args: []string{"--http-keepalive=0s"}, want: `--http-keepalive: 0s is too small; expected at least 1ms`},
		{name: "variable", environ: []string{"LINGSERVE_RUN_MAX=many"}, want: `LINGSERVE_RUN_MAX: run.max: "many" is invalid; expected a whole number`},
		{name: "flag", args: []string{"--run-max-log", "big"}, want: `--run-max-log: "big" is invalid; expected a size, such as 512KiB or 8MiB`},
		{name: "size that overflows", args: []string{"--run-max-log", "9223372036854775807KiB"}, want: `--run-max-log: "9223372036854775807KiB" is invalid; expected a size, such as 512KiB or 8MiB`},
		{name: "size below the least", args: []string{"--run-max-log", "1KiB"}, want: `--run-max-log: 1KiB is too small; expected at least 4KiB`},
		{name: "not a number", file: "demo: {pace: .nan}", want: `lingserve.yaml:1:14: demo.pace: infinity and not-a-number are not supported; expected a number`},
		{name: "bool", file: "watch: sometimes", want: `lingserve.yaml:1:8: watch: "sometimes" is invalid; expected true or false`},
		{name: "choice", file: "log:\n  level: loud", want: `lingserve.yaml:2:10: log.level: "loud" is invalid; expected one of debug, info, warn, error`},
		{name: "address without a port", file: "addr: localhost", want: `lingserve.yaml:1:7: addr: "localhost" is no address; expected HOST:PORT, such as 127.0.0.1:8080`},
		{name: "address with a wrong port", file: "addr: localhost:99999", want: `lingserve.yaml:1:7: addr: "localhost:99999" has an invalid port; expected 0 to 65535, such as 127.0.0.1:8080`},
		{name: "model without a provider", file: "model: gpt-4o", want: `lingserve.yaml:1:8: model: "gpt-4o" is no model; expected PROVIDER:NAME, such as openai:gpt-6-luna`},
		{name: "base URL is not shown", environ: []string{"OPENAI_BASE_URL=ftp://user:sesame@host"}, want: `OPENAI_BASE_URL: providers.openai.base_url: expected an http or https address, such as http://127.0.0.1:8000/v1`},
		{name: "line break in a key", environ: []string{"OPENAI_API_KEY=sk-1\n2"}, want: `OPENAI_API_KEY: providers.openai.key: contains a control character or a line break; remove it`},
		{name: "unknown key", file: "adr: 127.0.0.1:1", want: `lingserve.yaml:1:1: adr: unknown setting; did you mean addr?`},
		{name: "unknown key of a section", file: "run:\n  retenton: 5m", want: `lingserve.yaml:2:3: run.retenton: unknown setting; did you mean run.retention?`},
		{name: "key outside its section", file: "retention: 5m", want: `lingserve.yaml:1:1: retention: unknown setting; did you mean run.retention?`},
		{name: "dotted key", file: "run.retention: 5m", want: `lingserve.yaml:1:1: run.retention: unknown setting; write each part of the name on its own line`},
		{name: "key like nothing", file: "telephone: 5", want: `lingserve.yaml:1:1: telephone: unknown setting`},
		{name: "number for text", file: "providers: {openai: {key: 12345}}", want: `lingserve.yaml:1:27: providers.openai.key: 12345 is not text; put the value in quotes`},
		{name: "mapping for a duration", file: "grace: {seconds: 5}", want: `lingserve.yaml:1:8: grace: found a mapping; expected a duration, such as 30s or 5m`},
		{name: "list for a size", file: "http: {max_body: [1]}", want: `lingserve.yaml:1:18: http.max_body: found a list; expected a size, such as 512KiB or 8MiB`},
		{name: "number in a list", file: "providers: {openai: {models: [a, 1]}}", want: `lingserve.yaml:1:34: providers.openai.models: 1 is not text; put the value in quotes`},
		{name: "no value", file: "grace:", want: `lingserve.yaml:1:1: grace: the value is missing; expected a duration, such as 30s or 5m`},
		{name: "text for a section", file: "run: fast", want: `lingserve.yaml:1:6: run: expected settings, one per line, such as "retention: …"`},
		{name: "text for the whole", file: "hello", want: `lingserve.yaml:1:1: expected settings, one per line, such as "addr: …"`},
		{name: "config in the file", file: "config: other.yaml", want: `lingserve.yaml:1:9: config: this setting does not work in the configuration file; use --config or LINGSERVE_CONFIG`},
		{name: "alias", file: "addr: &a 127.0.0.1:1", want: `lingserve.yaml:1:7: addr: anchors, aliases and tags are not supported; write the value itself`},
		{name: "second document", file: "addr: 127.0.0.1:1\n---\nwatch: true\n", want: `lingserve.yaml:3:1: a second document starts here; expected only one`},
		{name: "repeated key", file: "watch: true\nwatch: false", want: `lingserve.yaml:2:1: watch: occurs twice, first in line 1; remove one`},
		{name: "repeated key beside another mistake", file: "watch: true\nwatch: false\nadr: x", want: "lingserve.yaml:2:1: watch: occurs twice, first in line 1; remove one\nlingserve.yaml:3:1: adr: unknown setting; did you mean addr?"},
		{name: "variable that is not set", file: "providers:\n openai:\n  key: {env: NO_SUCH}", want: `lingserve.yaml:3:14: providers.openai.key: the environment variable NO_SUCH is not set; set it, or use another one`},
		{name: "secret file that is not there", file: "providers:\n openai:\n  key: {file: none}", want: `lingserve.yaml:3:15: providers.openai.key: cannot read the file: none: no such file or directory`},
		{name: "neither variable nor file", file: "providers:\n openai:\n  key: {vault: x}", want: `lingserve.yaml:3:8: providers.openai.key: expected {env: NAME} or {file: PATH}`},
		{name: "file that is not there", args: []string{"--config", "none.yaml"}, want: `--config: cannot read the configuration file: none.yaml: no such file or directory`},
		{name: "folder instead of a file", environ: []string{"LINGSERVE_CONFIG=."}, want: `LINGSERVE_CONFIG: cannot read the configuration file: . is a folder; expected a file`},
		{name: "too many brackets", file: strings.Repeat("[", 1000), want: `lingserve.yaml:1:65: values are nested too deeply here; expected at most 64 levels`},
		{name: "an address to have a certificate for", args: []string{"--tls-acme", "10.0.0.1"}, want: `--tls-acme: "10.0.0.1" cannot have a certificate; expected a host name, such as chat.example.com`},
		{name: "a redirect from nowhere", args: []string{"--tls-redirect-addr", "80"}, want: `--tls-redirect-addr: "80" is no address; expected HOST:PORT, such as 127.0.0.1:8080`},
		{name: "no port", args: []string{"--tls-redirect-port", "70000"}, want: `--tls-redirect-port: expected at most 65535, got 70000`},
		{name: "two at once", file: "grace: soon\nwatch: maybe", want: "lingserve.yaml:1:8: grace: \"soon\" is invalid; expected a duration, such as 30s or 5m\nlingserve.yaml:2:8: watch: \"maybe\" is invalid; expected true or false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.environ, tc.args...)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			slices.Sort(lines)
			if diff := cmp.Diff(tc.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
			if e, ok := errors.AsType[*yaml.Error](err); !ok || e.File == "" {
				t.Errorf("%v names no place", err)
			}
		})
	}
}

func TestSecretsComeFromVariablesAndFiles(t *testing.T) {
	t.Setenv("UNUSED", "") // no parallel tests: the folder is process-wide
	t.Chdir(t.TempDir())
	if err := os.Mkdir("conf", 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join("conf", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key", "sk-from-file\n")
	write("a.yaml", "providers: {openai: {key: {file: key}}}")
	c, err := Load(parseFlags(t, "--config", "conf/a.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if openAI(c).Key.Reveal() != "sk-from-file" || c.Source("providers.openai.key").String() != "conf/a.yaml:1 (file key)" {
		t.Errorf("got %q from %s", openAI(c).Key.Reveal(), c.Source("providers.openai.key"))
	}
	write("a.yaml", "providers: {openai: {key: {env: MINE}}}")
	c, err = Load(nil, []string{"MINE=sk-mine", "LINGSERVE_CONFIG=conf/a.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if openAI(c).Key.Reveal() != "sk-mine" || c.Source("providers.openai.key").String() != "conf/a.yaml:1 (environment MINE)" {
		t.Errorf("got %q from %s", openAI(c).Key.Reveal(), c.Source("providers.openai.key"))
	}
}

// SE-06: keys never leave.
func TestSecretsAreNeverShown(t *testing.T) {
	c := mustLoad(t, "", []string{"OPENAI_API_KEY=sk-CANARY", "OPENAI_BASE_URL=http://me:CANARY@127.0.0.1:1/v1"})
	var printed, logged bytes.Buffer
	if err := c.Print(&printed); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "key", openAI(c).Key)
	encoded, err := json.Marshal(openAI(c).Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Print": printed.String(), "slog": logged.String(), "json": string(encoded),
		"%v": fmt.Sprintf("%v", openAI(c).Key), "%+v": fmt.Sprintf("%+v", openAI(c).Key), "%#v": fmt.Sprintf("%#v", openAI(c).Key), "%q": fmt.Sprintf("%q", openAI(c).Key),
	} {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%s shows it: %s", name, text)
		}
	}
}

func TestPrintShowsValuesAndWhereTheyComeFrom(t *testing.T) {
	c := mustLoad(t, "grace: 90s\nproviders: {openai: {models: [a, \"b c\"]}}\nlog: {level: warn}\n", []string{"OPENAI_API_KEY=sk-1"}, "--run-max-log=1024KiB", "--database", "memory")
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		`addr: 127.0.0.1:8080 # default`,
		`database: memory # flag --database`,
		`grace: 1m30s # lingserve.yaml:1`,
		`model: openai:a # default, since OPENAI_API_KEY is set`,
		`key: "********" # environment OPENAI_API_KEY`,
		`models: [a, "b c"] # lingserve.yaml:2`,
		`max_log: 1MiB # flag --run-max-log`,
		`level: warn # lingserve.yaml:3`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

func TestWhatPrintShowsCanBeReadAgain(t *testing.T) {
	environ := []string{}
	for _, s := range Settings() {
		if s.Key != "config" && !s.Secret {
			environ = append(environ, s.Variables()[0]+"="+sample(s, 2))
		}
	}
	first := mustLoad(t, "", environ)
	var b strings.Builder
	if err := first.Print(&b); err != nil {
		t.Fatal(err)
	}
	second := mustLoad(t, b.String(), nil)
	for _, s := range Settings() {
		if was, is := settingIn(first, s.Key).text(), settingIn(second, s.Key).text(); !s.Secret && s.Key != "config" && was != is {
			t.Errorf("%s was %s and is %s", s.Key, was, is)
		}
	}
}

func TestWithoutAuthenticationOnlyALoopbackAddressIsListenedOn(t *testing.T) {
	for addr, fine := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]:8080": true, "localhost:8080": true, "[::ffff:127.0.0.1]:80": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.168.0.1:80": false, "example.org:80": false, "127.0.0.1.example.org:80": false,
	} {
		t.Run(addr, func(t *testing.T) {
			c := mustLoad(t, "", nil, "--addr", addr)
			err := c.CheckListen()
			if (err == nil) != fine {
				t.Errorf("got %v", err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "--addr: other machines can reach "+addr+", but there is no authentication") {
				t.Errorf("got %v", err)
			}
			c = mustLoad(t, "", nil, "--addr", addr, "--insecure")
			if err := c.CheckListen(); err != nil {
				t.Errorf("with --insecure: %v", err)
			}
		})
	}
}

func TestAMistypedVariableIsWarnedOf(t *testing.T) {
	c := mustLoad(t, "", []string{"LINGSERVE_RUN_RETENTON=5m", "LINGSERVE_PORT_8080_TCP_ADDR=10.0.0.1", "OTHER=1"})
	want := []string{"the environment variable LINGSERVE_RUN_RETENTON has no effect; did you mean LINGSERVE_RUN_RETENTION?"}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestSizesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, tc := range []struct {
		text string
		size Size
		back string
	}{
		{"8MiB", 8 << 20, "8MiB"},
		{"512 KiB", 512 << 10, "512KiB"},
		{"2GiB", 2 << 30, "2GiB"},
		{"5MB", 5e6, "5000000B"},
		{"1000", 1000, "1000B"},
		{"1024B", 1024, "1KiB"},
		{"0", 0, "0B"},
	} {
		got, err := sizeOf(tc.text)
		if err != nil || got != tc.size || got.String() != tc.back {
			t.Errorf("%s: got %d (%s), %v", tc.text, got, got, err)
		}
	}
}

func TestTheTableIsSound(t *testing.T) {
	flags, variables := map[string]bool{}, map[string]bool{}
	for _, s := range Settings() {
		if flags[s.Flag()] {
			t.Errorf("two settings have the flag --%s", s.Flag())
		}
		flags[s.Flag()] = true
		for _, name := range s.Variables() {
			if variables[name] {
				t.Errorf("two settings have the variable %s", name)
			}
			variables[name] = true
		}
		if s.Help == "" || strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: help is %q", s.Key, s.Help)
		}
		if s.Secret != strings.HasPrefix(s.Kind(), "secret") {
			t.Errorf("%s: a secret must have the type Secret", s.Key)
		}
	}
}

// Configuration files have the bounds of all YAML: what would take long, or a deep stack, is refused in a moment and with its place.
func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 15000), "dashes": strings.Repeat("- ", 15000), "question marks": strings.Repeat("? ", 15000), "colons": strings.Repeat("a: ", 5000),
		"anchors": strings.Repeat("&a ", 5000), "words": strings.Repeat("- a\n", 60000), "bytes": strings.Repeat("#", yaml.MaxBytes+1), "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
	} {
		l := newLoader(nil, nil)
		l.File = "f.yaml"
		l.read(text)
		r := &yaml.Reader{File: "f.yaml"}
		readPriceFile(r, text)
		for _, r := range []*yaml.Reader{&l.Reader, r} {
			if r.NumProblems() == 0 || !strings.HasPrefix(r.Problems()[0].Error(), "f.yaml:1:") {
				t.Errorf("%s: %v", name, r.Err())
			}
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"addr: 127.0.0.1:1\nrun:\n  retention: 5m\n", "providers: {openai: {key: {env: X}, models: [a, b]}}", "providers:\n  gpu: {kind: ollama, base_url: a:1}\n  a b: {kind: coze}\n  x: {kind: opnai, key: a}", "a: &b c\nd: *b", "<<: {a: b}", "? a\n: b",
		"run:\n", "- a\n- b", "|\n x", "---\n...\n---", "\ufeffwatch: true", "grace: !!str 5m", "\"", "{", "log: {level: \"\\u0000\"}", "demo:\n\tpace: 1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		l := newLoader(nil, []string{"X=y"})
		l.File, l.dir = "f.yaml", "/nonexistent"
		l.read(text)
		for _, err := range l.Problems() {
			if !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Errorf("%v names no place", err)
			}
		}
		for i, s := range l.c.settings {
			if slices.ContainsFunc(l.c.settings[:i], func(o Setting) bool { return o.Key == s.Key }) {
				t.Errorf("there are two of %s", s.Key)
			}
			if l.NumProblems() == 0 && s.Min != "" && strings.HasPrefix(s.text(), "-") {
				t.Errorf("%s is %s", s.Key, s.text())
			}
		}
		for _, p := range l.c.Providers[len(presets):] {
			if _, ok := findPreset(p.Name); ok || p.Name == "demo" || !providerName.MatchString(p.Name) {
				t.Errorf("a provider %q of its own", p.Name)
			}
			if l.NumProblems() == 0 && (p.Kind == "" || p.BaseURL == "" && needsURL(p.Kind)) {
				t.Errorf("the provider %s has no kind or address", p.Name)
			}
		}
	})
}

// SE-06
func TestKeysAreNeverShown(t *testing.T) {
	const one, two = "ann:the-first-secret-of-20-letters:user", "bob:another-secret-of-20-letters:admin"
	for name, tt := range map[string]struct {
		file    string
		environ []string
	}{
		"environment": {"", []string{"LINGSERVE_API_KEYS=" + one + ", " + two}},
		"file":        {"auth:\n  keys:\n    - " + one + "\n    - " + two + "\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, tt.file, tt.environ)
			if len(c.Auth.Keys) != 2 || c.Auth.Keys[1].Reveal() != two || !c.Auth.On() {
				t.Fatalf("%d keys", len(c.Auth.Keys))
			}
			var b strings.Builder
			if err := c.Print(&b); err != nil {
				t.Fatal(err)
			}
			if text := b.String() + fmt.Sprintf("%v %+v %#v", c.Auth, c.Auth, c.Auth); strings.Contains(text, "secret-of") || !strings.Contains(b.String(), `keys: ["********"]`) {
				t.Errorf("%s", b.String())
			}
			c.Addr = "0.0.0.0:8080"
			if err := c.CheckListen(); err != nil {
				t.Errorf("with keys, any address may be listened on: %v", err)
			}
		})
	}
	if _, err := Load(nil, []string{"LINGSERVE_CONFIG=", "LINGSERVE_API_KEYS=ann:the-first-secret-of-20-letters:king"}); err == nil || strings.Contains(err.Error(), "secret-of") {
		t.Errorf("%v", err)
	}
}

package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter/ollama/host"
)

// Setting describes one setting.
type Setting struct {
	Key     string   // in the file: "run.retention" is retention under run
	Help    string   // one sentence without a full stop
	Default string   // as it would be written
	Env     []string // other environment variables that set it, after LINGSERVE_…
	OneOf   []string // the only values allowed
	Min     string   // the smallest value allowed
	Secret  bool

	check    func(string) error
	parse    func(string) (string, error) // check, for text that can be written in several ways
	field    func(*Config) any            // a pointer to where the value goes; its type is the kind of the setting
	provider string                       // whose key it is
	fileOnly bool                         // it is no flag and no variable
	optional bool                         // it is shown only where it is set
	required bool                         // what is written for it may not be empty
	flag     string                       // its name on the command line, where that is not the key's
	example  string                       // of an element, where it is a list
	chain    bool                         // text that may be a list in the file, joined with commas
	path     []string                     // the parts of the key, where one of them has a dot; else nil
}

// Settings returns the settings that are flags and variables, too, in the order in which they are shown.
func Settings() []Setting {
	return slices.DeleteFunc(slices.Clone(table), func(s Setting) bool { return s.fileOnly })
}

// Flag is the name on the command line, without dashes: run-retention.
func (s Setting) Flag() string {
	if s.flag != "" {
		return s.flag
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// parts are those of the key.
func (s Setting) parts() []string {
	if s.path != nil {
		return s.path
	}
	return strings.Split(s.Key, ".")
}

// Variables are the environment variables that set it; the first one that is not empty counts.
func (s Setting) Variables() []string {
	name := "LINGSERVE_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.Key))
	return append([]string{name}, s.Env...)
}

// atMost4MiB is a check for what has to fit an entry of a session, escaped.
func atMost4MiB(text string) error {
	if size, err := parseSize(text); err == nil && size > 4<<20 {
		return fmt.Errorf("expected at most 4MiB, got %s", text)
	}
	return nil
}

// callerModels is the key of which models requests may name.
const callerModels = "models.callers"

// atMost30Days is how long a run may wait for people.
func atMost30Days(text string) error {
	if d, err := time.ParseDuration(text); err == nil && d > 30*24*time.Hour {
		return fmt.Errorf("expected at most 720h, got %s", text)
	}
	return nil
}

// unlessEmpty is a check that allows text to be empty.
func unlessEmpty(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

// bind completes the rows of a table: prefix comes before their keys, and the value of a setting goes to the field of a struct that its key
// names, as max_log names MaxLog. in returns the struct.
func bind[T any](prefix string, in func(*Config) *T, rows []Setting) []Setting {
	rows = slices.Clone(rows)
	for i := range rows {
		s := &rows[i]
		if s.field == nil {
			index := fieldOf(reflect.TypeFor[T](), s.Key)
			s.field = func(c *Config) any { return reflect.ValueOf(in(c)).Elem().FieldByIndex(index).Addr().Interface() }
		}
		s.Key = prefix + s.Key
	}
	return rows
}

// bindInFile is bind for settings that are in the file alone.
func bindInFile[T any](prefix string, in func(*Config) *T, rows []Setting) []Setting {
	rows = bind(prefix, in, rows)
	for i := range rows {
		rows[i].fileOnly = true
	}
	return rows
}

// fieldOf returns the index of the field that a key names.
func fieldOf(t reflect.Type, key string) (index []int) {
	for name := range strings.SplitSeq(strings.ReplaceAll(key, "_", ""), ".") {
		f, ok := t.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
		if !ok {
			panic(fmt.Sprintf("config: %s has no field for the setting %s", t, key))
		}
		index, t = append(index, f.Index...), f.Type
	}
	return index
}

// table is ordered as the file would be written: sections stand together.
var table = slices.Concat(top, presetSettings(), sections)

func whole(c *Config) *Config { return c }

var top = bind("", whole, []Setting{
	{
		Key: "addr", Default: "127.0.0.1:8080", check: checkAddr,
		Help: "listen address; without authentication localhost only, unless insecure is set",
	},
	{
		Key: "database", check: unlessEmpty(checkDatabase),
		Help: "where data is stored: sqlite:FILE, postgres://user:password@host/database (which replicas share) or memory; unset: sqlite:lingserve.db in data",
	},
	{
		Key: "internal_addr", check: unlessEmpty(checkAddr),
		Help: "with PostgreSQL: listen address for the other replicas, which must reach it; unset: a free port at the address that reaches the database",
	},
	{Key: "data", Default: "./data", Help: "folder of the database and of other files; not used with database memory"},
	{
		Key: "durability", Default: DurabilityNormal, OneOf: []string{DurabilityNormal, DurabilityFull},
		Help: "what a power failure may take from SQLite: normal (the last moments) or full (nothing; slower)",
	},
	{
		Key: "workflows", Default: "./workflows", required: true,
		Help: "folder of workflow files; unset: ./workflows, added to the shipped workflows",
	},
	{
		Key: "workspace", Default: "./workspace", required: true,
		Help: "folder that agents can read; data, configuration and key files must be outside",
	},
	{
		Key: "config", Default: "lingserve.yaml", field: func(c *Config) any { return &c.File },
		Help: "configuration file; the default one may be missing",
	},
	{Key: "insecure", Default: "false", Help: "listen on any address without authentication"},
	{
		Key: "model", check: unlessEmpty(checkModel), chain: true,
		Help: "default model or fallback chain; unset: the first configured provider's first model, else demo:demo",
	},
	{
		Key:  "media",
		Help: "corrections of models' inputs: provider:name=image+pdf, with image, pdf, audio, file or none; * matches any text",
	},
	{Key: "inline_workflows", Default: "false", Help: "allow workflows inside requests"},
	{Key: "watch", Default: "false", Help: "reload workflows when files change; SIGHUP always reloads them"},
	{Key: "grace", Default: "20s", Help: "time to finish running work after SIGTERM"},
	{Key: "prices", Help: "file of model prices, which override the built-in ones", field: func(c *Config) any { return &c.PriceFile }},
})

// sections are groups of settings, one below the other.
var sections = bind("", whole, slices.Concat(
	coreSettings,
	authSettings,
	limitSettings,
	callerSettings,
	costSettings,
	filesSettings,
	adminSettings,
	traceSettings,
	tlsSettings,
))

var coreSettings = []Setting{
	{
		Key: callerModels, Default: "listed", OneOf: []string{"listed", "any"}, field: func(c *Config) any { return &c.CallerModels },
		Help: "models that requests may name: listed (those of GET /v1/models) or any; in short: \"models: any\"",
	},
	{Key: "demo.pace", Default: "50", Min: "0", Help: "the demo model's tokens per second; 0: no pause"},
	{Key: "run.retention", Default: "24h", Min: "1ms", Help: "how long an ended run is kept"},
	{Key: "run.key_retention", Default: "24h", Min: "1ms", Help: "how long an Idempotency-Key is kept"},
	{Key: "run.timeout", Default: "30m", Min: "1ms", Help: "timeout of a run"},
	{Key: "run.max", Default: "10000", Min: "1", Help: "concurrent runs; more are refused"},
	{Key: "run.max_log", Default: "8MiB", Min: "4KiB", Help: "memory of a run's events; slower readers resume from a snapshot"},
	{Key: "run.max_result", Default: "16MiB", Min: "1KiB", Help: "size of a run's result"},
	{Key: "run.max_bots", Default: "256", Min: "1", Help: "bots of a run"},
	{Key: "run.max_tasks", Default: "1024", Min: "1", Help: "tasks of a run"},
	{Key: "run.ended_memory", Default: "8MiB", Min: "1KiB", Help: "memory for ended runs; others are read from the database"},
	{Key: "run.max_disk", Default: "4GiB", Min: "64KiB", Help: "stored events of ended runs, in bytes; the oldest are removed first"},
	{Key: "sessions.keep", Default: "0s", Help: "how long a session is kept after its last use; 0: for ever"},
	{Key: "sessions.keep_unnamed", Default: "24h", Help: "the same of sessions that no request has named; 0: for ever"},
	{Key: "turn.timeout", Default: "0s", Help: "timeout of a turn, approvals included; 0: only run.timeout"},
	{Key: "turn.concurrency", Default: "256", Min: "1", Help: "concurrent turns; more wait"},
	{Key: "turn.max_reply", Default: "1MiB", Min: "1KiB", check: atMost4MiB, Help: "size of one answer of an agent's model, calls and reasoning included; a longer one is cut off"},
	{Key: "turn.queue", Default: "16", Min: "1", Help: "waiting messages of a session; more are refused"},
	{Key: "turn.queue_total", Default: "4096", Min: "1", Help: "waiting messages of all sessions; more are refused"},
	{Key: "http.keepalive", Default: "10s", Min: "1ms", Help: "heartbeat interval of idle streams"},
	{Key: "http.write_timeout", Default: "30s", Min: "1ms", Help: "timeout of a client that stops reading; its run continues"},
	{Key: "http.max_body", Default: "1MiB", Min: "1KiB", Help: "maximum size of a request body; a run or message may also have a file of files.max_size in it"},
	{Key: "http.hosts", Help: "accepted Host names, such as *.example.com; unset: localhost and IP addresses, or any with keys"},
	{Key: "http.origins", Help: "sites whose pages may call the server, such as https://app.example.com"},
	{Key: "http.proxies", Help: "addresses or networks of proxies whose X-Forwarded-For is trusted"},
	{Key: "upstream.connect", Default: "10s", Help: "timeout to connect to a provider; 0: none"},
	{Key: "upstream.first_token", Default: "1m", Help: "timeout of a model's first token; 0: none"},
	{Key: "upstream.idle", Default: "1m", Help: "timeout between a model's tokens; 0: none"},
	{Key: "upstream.total", Default: "10m", Help: "timeout of a model's whole answer; 0: none"},
	{
		Key: "upstream.proxy_env", Default: "false",
		Help: "use HTTPS_PROXY, HTTP_PROXY and NO_PROXY for outgoing requests, except webhook callbacks",
	},
	{Key: "retries.attempts", Default: "3", Min: "1", Help: "attempts of a model request before its first output; 1: no retry"},
	{Key: "log.level", Default: "info", OneOf: []string{"debug", "info", "warn", "error"}, Help: "lowest logged level"},
	{Key: "log.format", Default: "text", OneOf: []string{"text", "json"}, Help: "log format on stderr"},
	{
		Key: "log.access", Default: "runs", OneOf: []string{"off", "runs", "all"},
		Help: "logged requests: off, runs (those for runs, and failed ones) or all",
	},
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is no address; expected HOST:PORT, such as 127.0.0.1:8080", s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has an invalid port; expected 0 to 65535, such as 127.0.0.1:8080", s)
	}
	return nil
}

func checkModel(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		provider, model, ok := strings.Cut(strings.TrimSpace(name), ":")
		if !ok || provider == "" || model == "" {
			return fmt.Errorf("%q is no model; expected PROVIDER:NAME, such as openai:gpt-6-luna", s)
		}
	}
	return nil
}

// checkURL never repeats the value: a base URL may carry a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("expected an http or https address, such as http://127.0.0.1:8000/v1")
	}
	return nil
}

// parseHost understands what OLLAMA_HOST can be. It does not repeat the value either.
func parseHost(s string) (string, error) {
	u, err := host.Parse(s)
	if err != nil {
		return "", errors.New("expected an address, such as 127.0.0.1:11434 or http://127.0.0.1:11434")
	}
	return u.String(), nil
}

// checkAPIVersion takes what can stand in a query as it is.
func checkAPIVersion(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '_')
	}) {
		return fmt.Errorf("%q is no API version; expected one such as %s", s, defaultAPIVersion)
	}
	return nil
}

package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// table is ordered as the file would be written: sections stand together.
var table = slices.Concat(top, priceSettings, presetSettings(), sections)

var top = []Setting{
	{
		Key: "addr", Default: "127.0.0.1:8080", check: checkAddr,
		Help:  "listen address; without authentication localhost only, unless insecure is set",
		field: func(c *Config) any { return &c.Addr },
	},
	{
		Key: "data", Default: "./data",
		Help:  "folder of data that survives a restart; empty: memory only",
		field: func(c *Config) any { return &c.Data },
	},
	{
		Key: "workflows", Default: "./workflows", required: true,
		Help:  "folder of workflow files; unset: ./workflows, added to the shipped workflows",
		field: func(c *Config) any { return &c.Workflows },
	},
	{
		Key: "workspace", Default: "./workspace", required: true,
		Help:  "folder that agents can read; data, configuration and key files must be outside",
		field: func(c *Config) any { return &c.Workspace },
	},
	{
		Key: "config", Default: "lingserve.yaml",
		Help:  "configuration file; the default one may be missing",
		field: func(c *Config) any { return &c.File },
	},
	{
		Key: "insecure", Default: "false",
		Help:  "listen on any address without authentication",
		field: func(c *Config) any { return &c.Insecure },
	},
	{
		Key: "model", Default: "", check: checkModel, chain: true,
		Help:  "default model or fallback chain; unset: the first configured provider's first model, else demo:demo",
		field: func(c *Config) any { return &c.Model },
	},
	{
		Key: "media", Default: "",
		Help:  "corrections of models' inputs: provider:name=image+pdf, with image, pdf, audio, file or none; * matches any text",
		field: func(c *Config) any { return &c.Media },
	},
	{
		Key: "inline_workflows", Default: "false",
		Help:  "allow workflows inside requests",
		field: func(c *Config) any { return &c.InlineWorkflows },
	},
	{
		Key: "watch", Default: "false",
		Help:  "reload workflows when files change; SIGHUP always reloads them",
		field: func(c *Config) any { return &c.Watch },
	},
	{
		Key: "grace", Default: "20s",
		Help:  "time to finish running work after SIGTERM",
		field: func(c *Config) any { return &c.Grace },
	},
}

// sections are groups of settings, one below the other.
var sections = slices.Concat(
	engineSettings,
	natsSettings,
	postgresSettings,
	coreSettings,
	authSettings,
	limitSettings,
	callerSettings,
	costSettings,
	filesSettings,
	adminSettings,
	traceSettings,
	tlsSettings,
)

var coreSettings = []Setting{
	{
		Key: "demo.pace", Default: "50", Min: "0",
		Help:  "the demo model's tokens per second; 0: no pause",
		field: func(c *Config) any { return &c.Demo.Pace },
	},
	{
		Key: "run.retention", Default: "5m", Min: "1ms",
		Help:  "how long an ended run is kept",
		field: func(c *Config) any { return &c.Run.Retention },
	},
	{
		Key: "run.key_retention", Default: "24h", Min: "1ms",
		Help:  "how long an Idempotency-Key is kept",
		field: func(c *Config) any { return &c.Run.KeyRetention },
	},
	{
		Key: "run.timeout", Default: "30m", Min: "1ms",
		Help:  "timeout of a run",
		field: func(c *Config) any { return &c.Run.Timeout },
	},
	{
		Key: "run.max", Default: "10000", Min: "1",
		Help:  "concurrent runs; more are refused",
		field: func(c *Config) any { return &c.Run.Max },
	},
	{
		Key: "run.max_log", Default: "8MiB", Min: "4KiB",
		Help:  "memory of a run's events; slower readers resume from a snapshot",
		field: func(c *Config) any { return &c.Run.MaxLog },
	},
	{
		Key: "run.max_result", Default: "16MiB", Min: "1KiB",
		Help:  "size of a run's result",
		field: func(c *Config) any { return &c.Run.MaxResult },
	},
	{
		Key: "run.max_bots", Default: "256", Min: "1",
		Help:  "bots of a run",
		field: func(c *Config) any { return &c.Run.MaxBots },
	},
	{
		Key: "run.max_tasks", Default: "1024", Min: "1",
		Help:  "tasks of a run",
		field: func(c *Config) any { return &c.Run.MaxTasks },
	},
	{
		Key: "run.ended_memory", Default: "8MiB", Min: "1KiB",
		Help:  "memory for ended runs; older ones go to the data folder",
		field: func(c *Config) any { return &c.Run.EndedMemory },
	},
	{
		Key: "run.max_disk", Default: "4GiB", Min: "64KiB",
		Help:  "disk space for ended runs; the first to expire are deleted",
		field: func(c *Config) any { return &c.Run.MaxDisk },
	},
	{
		Key: "turn.timeout", Default: "0s",
		Help:  "timeout of a turn, approvals included; 0: only run.timeout",
		field: func(c *Config) any { return &c.Turn.Timeout },
	},
	{
		Key: "turn.concurrency", Default: "256", Min: "1",
		Help:  "concurrent turns; more wait",
		field: func(c *Config) any { return &c.Turn.Concurrency },
	},
	{
		Key: "turn.queue", Default: "16", Min: "1",
		Help:  "waiting messages of a session; more are refused",
		field: func(c *Config) any { return &c.Turn.Queue },
	},
	{
		Key: "turn.queue_total", Default: "4096", Min: "1",
		Help:  "waiting messages of all sessions; more are refused",
		field: func(c *Config) any { return &c.Turn.QueueTotal },
	},
	{
		Key: "tape.store", Default: "file", OneOf: []string{"file", "postgres", EngineNATS},
		Help:  "storage of sessions: file (data folder), postgres, or nats (the default with engine nats)",
		field: func(c *Config) any { return &c.Tape.Store },
	},
	{
		Key: "tape.sync", Default: "interval", OneOf: []string{"none", "interval", "turn", "always"},
		Help:  "fsync of session files: none (by the system), interval (within a second), turn (at its end), always (before each next step)",
		field: func(c *Config) any { return &c.Tape.Sync },
	},
	{
		Key: "tape.postgres.url", Secret: true,
		Help:  "database, such as postgres://user:password@host:5432/database",
		field: func(c *Config) any { return &c.Tape.Postgres.URL },
	},
	{
		Key: "tape.postgres.schema", Default: "lingserve", required: true,
		Help:  "schema; different for each installation in a database",
		field: func(c *Config) any { return &c.Tape.Postgres.Schema },
	},
	{
		Key: "tape.postgres.connections", Default: "16", Min: "2",
		Help:  "connections to the database",
		field: func(c *Config) any { return &c.Tape.Postgres.Connections },
	},
	{
		Key: "http.keepalive", Default: "10s", Min: "1ms",
		Help:  "heartbeat interval of idle streams",
		field: func(c *Config) any { return &c.HTTP.KeepAlive },
	},
	{
		Key: "http.write_timeout", Default: "30s", Min: "1ms",
		Help:  "timeout of a client that stops reading; its run continues",
		field: func(c *Config) any { return &c.HTTP.WriteTimeout },
	},
	{
		Key: "http.max_body", Default: "1MiB", Min: "1KiB",
		Help:  "maximum size of a request body",
		field: func(c *Config) any { return &c.HTTP.MaxBody },
	},
	{
		Key:   "http.hosts",
		Help:  "accepted Host names, such as *.example.com; unset: localhost and IP addresses, or any with keys",
		field: func(c *Config) any { return &c.HTTP.Hosts },
	},
	{
		Key:   "http.origins",
		Help:  "sites whose pages may call the server, such as https://app.example.com",
		field: func(c *Config) any { return &c.HTTP.Origins },
	},
	{
		Key:   "http.proxies",
		Help:  "addresses or networks of proxies whose X-Forwarded-For is trusted",
		field: func(c *Config) any { return &c.HTTP.Proxies },
	},
	{
		Key: "upstream.connect", Default: "10s",
		Help:  "timeout to connect to a provider; 0: none",
		field: func(c *Config) any { return &c.Upstream.Connect },
	},
	{
		Key: "upstream.first_token", Default: "1m",
		Help:  "timeout of a model's first token; 0: none",
		field: func(c *Config) any { return &c.Upstream.FirstToken },
	},
	{
		Key: "upstream.idle", Default: "1m",
		Help:  "timeout between a model's tokens; 0: none",
		field: func(c *Config) any { return &c.Upstream.Idle },
	},
	{
		Key: "upstream.total", Default: "10m",
		Help:  "timeout of a model's whole answer; 0: none",
		field: func(c *Config) any { return &c.Upstream.Total },
	},
	{
		Key: "upstream.proxy_env", Default: "false",
		Help:  "use HTTPS_PROXY, HTTP_PROXY and NO_PROXY for outgoing requests, except webhook callbacks",
		field: func(c *Config) any { return &c.Upstream.ProxyEnv },
	},
	{
		Key: "retries.attempts", Default: "3", Min: "1",
		Help:  "attempts of a model request before its first output; 1: no retry",
		field: func(c *Config) any { return &c.Retries.Attempts },
	},
	{
		Key: "log.level", Default: "info", OneOf: []string{"debug", "info", "warn", "error"},
		Help:  "lowest logged level",
		field: func(c *Config) any { return &c.Log.Level },
	},
	{
		Key: "log.format", Default: "text", OneOf: []string{"text", "json"},
		Help:  "log format on stderr",
		field: func(c *Config) any { return &c.Log.Format },
	},
	{
		Key: "log.access", Default: "runs", OneOf: []string{"off", "runs", "all"},
		Help:  "logged requests: off, runs (those for runs, and failed ones) or all",
		field: func(c *Config) any { return &c.Log.Access },
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
	if s == "" {
		return nil
	}
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
	if s == "" {
		return nil
	}
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

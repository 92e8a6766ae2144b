package config

import (
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/web"
)

// The tags of a field describe a setting: key is its name in the file, below the key of the struct that it is in; default, env (more variables),
// oneof, min, max, check, and help are what [Setting] says. required settings may not be empty, optional ones are listed only where they are set, a
// chain may also be a list in the file.

// Config is what is in force. [Load] makes it.
type Config struct {
	Addr            string        `key:"addr" required:"true" default:"127.0.0.1:8080" check:"addr" help:"listen address; without authentication localhost only, unless insecure is set"`
	Database        string        `key:"database" check:"database" help:"where data is stored: sqlite:FILE, postgres://user:password@host/database (which replicas share) or memory; unset: sqlite:lingserve.db in data"`
	InternalAddr    string        `key:"internal_addr" check:"addr" help:"with PostgreSQL: listen address for the other replicas, which must reach it; unset: a free port at the address that reaches the database"`
	Data            string        `key:"data" default:"./data" help:"folder of the database and of other files; not used with database memory"`
	Durability      string        `key:"durability" default:"normal" oneof:"normal full" help:"what a power failure may take from SQLite: normal (the last moments) or full (nothing; slower)"`
	Workflows       string        `key:"workflows" default:"./workflows" required:"true" help:"folder of workflow files; unset: ./workflows, added to the shipped workflows"`
	Workspace       string        `key:"workspace" default:"./workspace" required:"true" help:"folder that agents can read; data, configuration and key files must be outside"`
	File            string        `key:"config" default:"lingserve.yaml" help:"configuration file; the default one may be missing"`
	Insecure        bool          `key:"insecure" default:"false" help:"listen on any address without authentication"`
	Model           string        `key:"model" short:"m" check:"model" chain:"true" help:"default model or fallback chain; unset: the first configured provider's first model, else demo:demo"`
	Media           []string      `key:"media" check:"media" help:"corrections of models' inputs: provider:name=image+pdf, with image, pdf, audio, file or none; * matches any text"`
	InlineWorkflows bool          `key:"inline_workflows" default:"false" help:"allow workflows inside requests"`
	Watch           bool          `key:"watch" default:"false" help:"reload workflows when files change; SIGHUP always reloads them"`
	Grace           time.Duration `key:"grace" default:"20s" help:"time to finish running work after SIGTERM"`
	PriceFile       string        `key:"prices" help:"file of model prices, which override the built-in ones"`

	CallerModels string    `key:"models.callers" default:"listed" oneof:"listed any" help:"models that requests may name: listed (those of GET /v1/models) or any; in short: \"models: any\""`
	Demo         Demo      `key:"demo"`
	Run          Run       `key:"run"`
	Sessions     Sessions  `key:"sessions"`
	Turn         Turn      `key:"turn"`
	HTTP         HTTP      `key:"http"`
	Upstream     Upstream  `key:"upstream"`
	Retries      Retries   `key:"retries"`
	Log          Log       `key:"log"`
	Auth         Auth      `key:"auth"`
	Limit        Limit     `key:"limit"`
	Files        web.Files `key:"files"`
	Admin        Admin     `key:"admin"`
	Traces       Traces    `key:"traces"`
	TLS          TLS       `key:"tls"`

	Providers []*Provider
	Models    []*Model
	Agents    []*Agent
	MCP       []*MCPServer
	Channels  []Channel // that run; the web and the terminal, which are always there, only if the file has settings of them

	// Access is who may talk on which channel, and who answers.
	Access channel.Configuration

	// Warnings are things that were probably not meant; they do not stop the start.
	Warnings []string

	prices   *price.Table // of the configuration file; nil where it has none
	settings []Setting    // the table, and those of what the file adds
	sources  map[string]Source

	fileRead    string       // the configuration file; "" if none was read
	secretsFrom []secretFile // that settings name by {file: …}

	flags   *Flags // for Reload
	environ []string
}

// Demo is the scripted model behind "demo:".
type Demo struct {
	Pace float64 `key:"pace" default:"50" min:"0" help:"the demo model's tokens per second; 0: no pause"`
}

// Run has the limits of a run.
type Run struct {
	Retention    time.Duration `key:"retention" default:"24h" min:"1ms" help:"how long an ended run is kept"`
	KeyRetention time.Duration `key:"key_retention" default:"24h" min:"1ms" help:"how long an Idempotency-Key is kept"`
	Timeout      time.Duration `key:"timeout" default:"30m" min:"1ms" help:"timeout of a run"`
	Max          int           `key:"max" default:"10000" min:"1" help:"concurrent runs; more are refused"`
	MaxLog       Size          `key:"max_log" default:"8MiB" min:"4KiB" help:"memory of a run's events; slower readers resume from a snapshot"`
	MaxResult    Size          `key:"max_result" default:"16MiB" min:"1KiB" help:"size of a run's result"`
	MaxBots      int           `key:"max_bots" default:"256" min:"1" help:"bots of a run"`
	MaxTasks     int           `key:"max_tasks" default:"1024" min:"1" help:"tasks of a run"`
	EndedMemory  Size          `key:"ended_memory" default:"8MiB" min:"1KiB" help:"memory for ended runs; others are read from the database"`
	MaxDisk      Size          `key:"max_disk" default:"4GiB" min:"64KiB" help:"stored events of ended runs, in bytes; the oldest are removed first"`
}

// Sessions says how long sessions are kept after their last use. An unnamed session has the id of its only turn.
type Sessions struct {
	Keep        time.Duration `key:"keep" default:"0s" help:"how long a session is kept after its last use; 0: for ever"`
	KeepUnnamed time.Duration `key:"keep_unnamed" default:"24h" help:"the same of sessions that no request has named; 0: for ever"`
}

// Turn has the limits of turns, which are the messages of sessions and their answers.
type Turn struct {
	Timeout     time.Duration `key:"timeout" default:"0s" help:"timeout of a turn, approvals included; 0: only run.timeout"`
	Concurrency int           `key:"concurrency" default:"256" min:"1" help:"concurrent turns; more wait"`
	MaxReply    Size          `key:"max_reply" default:"1MiB" min:"1KiB" max:"4MiB" help:"size of one answer of an agent's model, calls and reasoning included; a longer one is cut off"`
	Queue       int           `key:"queue" default:"16" min:"1" help:"waiting messages of a session; more are refused"`
	QueueTotal  int           `key:"queue_total" default:"4096" min:"1" help:"waiting messages of all sessions; more are refused"`
}

// HTTP has what concerns connections of clients.
type HTTP struct {
	KeepAlive    time.Duration `key:"keepalive" default:"10s" min:"1ms" help:"heartbeat interval of idle streams"`
	WriteTimeout time.Duration `key:"write_timeout" default:"30s" min:"1ms" help:"timeout of a client that stops reading; its run continues"`
	MaxBody      Size          `key:"max_body" default:"1MiB" min:"1KiB" help:"maximum size of a request body; a run or message may also have a file of files.max_size in it"`
	Hosts        []string      `key:"hosts" check:"server name" help:"accepted Host names, such as *.example.com; unset: localhost and IP addresses, or any with keys"`
	Origins      []string      `key:"origins" check:"origin" help:"sites whose pages may call the server, such as https://app.example.com"`
	Proxies      []string      `key:"proxies" check:"addresses" help:"addresses or networks of proxies whose X-Forwarded-For is trusted"`
}

// Upstream says how models are reached, and has the time limits for waiting on them; 0 is none.
type Upstream struct {
	Connect    time.Duration `key:"connect" default:"10s" help:"timeout to connect to a provider; 0: none"`
	FirstToken time.Duration `key:"first_token" default:"1m" help:"timeout of a model's first token; 0: none"`
	Idle       time.Duration `key:"idle" default:"1m" help:"timeout between a model's tokens; 0: none"`
	Total      time.Duration `key:"total" default:"10m" help:"timeout of a model's whole answer; 0: none"`
	ProxyEnv   bool          `key:"proxy_env" default:"false" help:"use HTTPS_PROXY, HTTP_PROXY and NO_PROXY for outgoing requests, except webhook callbacks"`
}

// Retries of a request to a model.
type Retries struct {
	Attempts int `key:"attempts" default:"3" min:"1" help:"attempts of a model request before its first output; 1: no retry"`
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level `key:"level" default:"info" oneof:"debug info warn error" help:"lowest logged level"`
	Format string     `key:"format" default:"text" oneof:"text json" help:"log format on stderr"`
	Access string     `key:"access" default:"runs" oneof:"off runs all" help:"logged requests: off, runs (those for runs, and failed ones) or all"`
}

// Auth says how callers authenticate. Its zero value is no authentication.
type Auth struct {
	Keys                 []Secret `key:"keys" check:"key" env:"LINGSERVE_API_KEYS" help:"API keys, each NAME:KEY:ROLE; then every request needs one"`
	KeysFile             string   `key:"keys_file" help:"file of API keys, one per line; reloaded on change"`
	access.TokensOptions `key:""`
	Roles                []string      `key:"roles" check:"role" help:"roles for values of that claim, each CLAIM=ROLE; unset: user, operator, admin"`
	TicketLife           time.Duration `key:"ticket_life" default:"1m" min:"1s" help:"lifetime of an unused ticket"`
}

// Limit bounds what all callers together may use of the machine. A limit never ends running work: the server refuses new work, and says
// when to retry.
type Limit struct {
	web.Limits        `key:""`
	Upstream          int           `key:"upstream" default:"10000" min:"0" help:"concurrent requests to one provider; more wait; 0: no limit"`
	UpstreamQueue     int           `key:"upstream_queue" default:"1000" min:"0" help:"waiting requests for one provider; more are refused"`
	UpstreamWait      time.Duration `key:"upstream_wait" default:"30s" min:"1ms" help:"how long they wait"`
	Sessions          int           `key:"sessions" default:"0" min:"0" help:"stored sessions; more are refused; 0: no limit"`
	SessionsPerCaller int           `key:"sessions_per_caller" default:"0" min:"0" help:"stored sessions of one caller; 0: half of limit.sessions"`
	Caller            `key:""`
	Cost              Cost `key:"cost"`
}

// Caller bounds what each caller may use.
type Caller struct {
	Requests int `key:"requests" default:"600" min:"0" help:"a caller's requests per minute; 0: no limit"`
	Burst    int `key:"burst" default:"120" min:"1" help:"a caller's requests at once"`
	Failures int `key:"failures" default:"30" min:"0" help:"wrong keys from one address per minute; 0: no limit"`
	Tokens   int `key:"tokens" default:"0" min:"0" help:"a caller's model tokens per minute; 0: no limit"`
	Runs     int `key:"runs" default:"100" min:"0" help:"a caller's concurrent runs; 0: no limit"`
}

// Cost bounds what models may cost, in dollars; 0 is no limit.
type Cost struct {
	Run     float64 `key:"run" default:"0" min:"0" help:"dollars for one run; 0: no limit"`
	Session float64 `key:"session" default:"0" min:"0" help:"dollars for one session; 0: no limit"`
	Caller  float64 `key:"caller" default:"0" min:"0" help:"dollars for one caller per UTC day; 0: no limit"`
	Day     float64 `key:"day" default:"0" min:"0" help:"dollars for all callers per UTC day; 0: no limit"`
}

// Admin is the listener for operators: metrics, profiles and health. Without an address it is off.
type Admin struct {
	Addr        string `key:"addr" check:"addr" help:"second listener with metrics and profiles, such as 127.0.0.1:9090; with keys, for admins only"`
	OpenMetrics bool   `key:"open_metrics" default:"false" help:"serve its metrics without a key"`
}

// Traces says who gets the ids of traces. OpenTelemetry's own variables say whether traces are recorded, and where they go.
type Traces struct {
	Propagate []string `key:"propagate" help:"providers and MCP servers that get a request's trace (traceparent); name only your own"`
}

// TLS says how connections of clients are encrypted: with the files Cert and Key, or with certificates for the names in ACME.
type TLS struct {
	Cert          string        `key:"cert" help:"PEM file of the certificate chain; reloaded on change"`
	Key           string        `key:"key" help:"PEM file of its key"`
	HSTS          time.Duration `key:"hsts" default:"8760h" help:"max-age of Strict-Transport-Security; 0: no header"`
	ACME          []string      `key:"acme" check:"domain" help:"host names for ACME certificates, instead of files; you agree to the authority's terms"`
	ACMEEmail     string        `key:"acme_email" help:"your e-mail address, for the authority"`
	ACMEDirectory string        `key:"acme_directory" default:"https://acme-v02.api.letsencrypt.org/directory" help:"the authority's address"`
	ACMECache     string        `key:"acme_cache" help:"folder of certificates and the account key; unset: acme in the data folder"`
	RedirectAddr  string        `key:"redirect_addr" check:"addr" help:"plain HTTP address for redirects and the authority's check, such as :80"`
	RedirectPort  int           `key:"redirect_port" default:"0" max:"65535" help:"https port of redirects; 0: port of addr"`
}

// Agent is an agent that runs and sessions name. [DefaultAgent] comes first, then those that the configuration file adds, in its order.
type Agent struct {
	Name            string
	Model           string          `key:"model" check:"model" chain:"true" help:"model that answers, or a fallback chain; unset: the default model"`
	Workflow        string          `key:"workflow" help:"workflow that answers in place of a model, with its own bots and tools"`
	Instructions    string          `key:"instructions" help:"instructions, as text or {file: PATH}"`
	Tools           []string        `key:"tools" help:"tools of MCP servers, by name or as mcp.search.*; unset: all"`
	Skills          []string        `key:"skills" help:"skills by name; unset: all"`
	AskAlways       []string        `key:"ask_always" help:"tools that always need approval, such as tape.*"`
	AskNever        []string        `key:"ask_never" help:"tools that never need approval"`
	MaxSteps        int             `key:"max_steps" default:"50" min:"1" help:"calls of the model for one message"`
	ToolTimeout     time.Duration   `key:"tool_timeout" default:"1m" min:"1ms" help:"timeout of a tool call, if the tool has none"`
	ApprovalTimeout time.Duration   `key:"approval_timeout" default:"24h" min:"1ms" max:"720h" help:"how long a call waits for approval before it is denied, at most 720h; in chats at most 5m"`
	OnUnknown       string          `key:"on_unknown" default:"tell" oneof:"tell ask" help:"if a crash stops a call that must not run twice: tell the model that its outcome is unknown, or ask a person if it runs again"`
	Summarize       bool            `key:"summarize" default:"true" help:"summarize the old part of a session that is too long"`
	MaxContext      int             `key:"max_context" default:"0" min:"0" help:"estimated tokens of a request above which a session is too long; 0: when the model refuses it"`
	Timezone        string          `key:"timezone" check:"timezone" help:"time zone of dates, such as Europe/Berlin, if the channel has none; unset: UTC"`
	Options         adapter.Options `key:"options" optional:"true" help:"options of the model; the request overrides them"`
}

// MCPServer is a server whose tools the agents can use (Model Context Protocol): a program that is started, or an address.
type MCPServer struct {
	Name          string        // the second part of its tools' names: mcp.NAME.…
	Command       string        `key:"command" help:"program to start, without a shell; it speaks MCP on standard input and output"`
	Args          []string      `key:"args" help:"its arguments"`
	Env           []string      `key:"env" help:"names of variables that it gets beside PATH, HOME and the like"`
	URL           string        `key:"url" check:"url" help:"address of a server with streamable HTTP, instead of command"`
	Authorization Secret        `key:"authorization" help:"header Authorization, such as \"Bearer …\""`
	Timeout       time.Duration `key:"timeout" default:"1m" min:"1ms" help:"timeout of a tool call"`
}

// Package config reads the settings: flags, environment variables and the configuration file, in that order of precedence,
// over defaults. Every setting is all three; one table, [Settings], describes each once and drives the flags, the environment,
// the file, the listing of what is in force and the tables of the guides. Only agents, MCP servers, and providers of models that are not among
// the [Presets], are in the file alone: their names are the user's.
//
// Every value knows where it came from. A wrong one is an error that says where it stands and what was expected there; all
// wrong ones are reported together.
package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/lingserve/lingserve/adapter/price"
	"github.com/lingserve/lingserve/channel"
)

// Config is what is in force. [Load] makes it.
type Config struct {
	Addr            string
	Database        string // sqlite:FILE, postgres://… or InMemory
	InternalAddr    string // of the listener for other replicas; "" is a free port
	Data            string // "" with InMemory
	Durability      string // DurabilityNormal or DurabilityFull
	Workflows       string
	Workspace       string
	File            string
	Insecure        bool
	Model           string
	Media           []string // rules of adapter.ParseMediaRule
	InlineWorkflows bool
	CallerModels    string // "listed" or "any"
	Watch           bool
	Grace           time.Duration
	Providers       []Provider
	Models          []Model
	Agents          []Agent
	MCP             []MCPServer
	Channels        []Channel // that run; the web and the terminal, which are always there, only where something is said of them
	Demo            Demo
	Run             Run
	Sessions        Sessions
	Turn            Turn
	HTTP            HTTP
	TLS             TLS
	Upstream        Upstream
	Retries         Retries
	Limit           Limit
	PriceFile       string
	Files           Files
	Auth            Auth
	Admin           Admin
	Log             Log
	Traces          Traces

	// Access is who may talk on which channel, and who answers.
	Access channel.Configuration

	// Warnings are things that were probably not meant; they do not stop the start.
	Warnings []string

	prices   *price.Table // of the configuration file; nil where it has none
	settings []Setting    // the table, and those of the providers that the file adds
	sources  map[string]Source
	logins   []Channel      // all that settings go to: a channel with accounts, too
	places   map[string]any // what is written of places, by key, until Access is made of it

	fileRead    string       // the configuration file; "" if none was read
	secretsFrom []secretFile // that settings name by {file: …}

	flags   *Flags // for Reload
	environ []string
}

// Demo is the scripted model behind "demo:".
type Demo struct {
	Pace float64 // tokens per second; 0 is as fast as it can
}

// Run has the limits of a run.
type Run struct {
	Retention    time.Duration
	KeyRetention time.Duration
	Timeout      time.Duration
	Max          int
	MaxLog       Size
	MaxResult    Size
	MaxBots      int
	MaxTasks     int
	EndedMemory  Size
	MaxDisk      Size
}

// Sessions says how long sessions are kept after their last use; 0 is for ever.
type Sessions struct {
	Keep        time.Duration
	KeepUnnamed time.Duration // those whose id is that of their only turn
}

// Turn has the limits of turns, which are the messages of sessions and their answers.
type Turn struct {
	Timeout     time.Duration // 0 is none
	Concurrency int
	MaxReply    Size
	Queue       int // that wait in a session
	QueueTotal  int // that wait in all
}

// HTTP has what concerns connections of clients.
type HTTP struct {
	KeepAlive    time.Duration
	WriteTimeout time.Duration
	MaxBody      Size
	Hosts        []string
	Origins      []string
	Proxies      []string
}

// Upstream says how models are reached, and has the time limits for waiting on them; 0 is none.
type Upstream struct {
	Connect    time.Duration
	FirstToken time.Duration
	Idle       time.Duration
	Total      time.Duration
	ProxyEnv   bool
}

// Retries of a request to a model.
type Retries struct{ Attempts int }

// Log says what is logged and how.
type Log struct {
	Level  slog.Level
	Format string // text or json
	Access string // which requests have a line: off, runs or all
}

// Secret is text that is never shown: it prints, logs and encodes as stars.
type Secret string

const stars = "********"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return stars
}

func (s Secret) GoString() string             { return `"` + s.String() + `"` }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.String()) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// Size is a number of bytes.
type Size int64

// String writes the size as it may stand in a configuration file: the largest binary unit that leaves no rest.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if u.binary && s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

// Source is where a value came from.
type Source struct {
	Kind SourceKind
	Name string // the flag, the variable, file:line, or why a default is what it is
}

// SourceKind is a place that settings come from.
type SourceKind uint8

const (
	Default SourceKind = iota
	File
	Environment
	Flag
)

func (s Source) String() string {
	switch s.Kind {
	case Flag:
		return "flag " + s.Name
	case Environment:
		return "environment " + s.Name
	case File:
		return s.Name
	default:
		if s.Name != "" {
			return "default, " + s.Name
		}
		return "default"
	}
}

// Source returns where the value of the setting with this key came from.
func (c *Config) Source(key string) Source { return c.sources[key] }

// CheckListen refuses an Addr that other machines reach if there is no authentication, unless Insecure is set.
func (c *Config) CheckListen() error {
	if c.Insecure || c.Auth.On() || c.Local() {
		return nil
	}
	_, port, _ := net.SplitHostPort(c.Addr)
	return c.wrong("addr", "other machines can reach %s, but there is no authentication; create API keys (lingserve keys new) and "+
		"set --auth-keys-file, use 127.0.0.1:%s, or set --insecure to serve without authentication", c.Addr, port)
}

// Local reports whether only this machine can reach Addr.
func (c *Config) Local() bool { return loopback(c.Addr) }

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

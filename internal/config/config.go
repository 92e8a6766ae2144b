// Package config reads the settings: flags, environment variables and the configuration file, in that order of precedence,
// over defaults. Every setting is all three; one table, [Settings], describes each once and drives the flags, the environment,
// the file, the listing of what is in force and the tables of the guides. Only agents, MCP servers, and providers of models that are not among
// the presets, are in the file alone: their names are the user's.
//
// Every value has its source. The error of an invalid value has its position and what was expected; all errors are reported together.
package config

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/lingserve/lingserve/channel/platform"
)

// Secret is text that is never shown: it prints, logs and encodes as stars.
type Secret = platform.Secret

const stars = "********"

// Size is a number of bytes.
type Size int64

// String writes the size for a configuration file, in the largest binary unit without a remainder.
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
	at   string // for errors about a value in a file: file:line:column
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

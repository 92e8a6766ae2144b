package config

import (
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Engines store runs, sessions and the rest of the data.
const (
	EngineLocal = "local"
	EngineNATS  = "nats"
)

// Embedded is the only one of NATS.Servers where the server runs in this process.
const Embedded = "embedded"

// NATS is the engine that several replicas share.
type NATS struct {
	Servers       []string // addresses, or [Embedded] alone
	Name          string
	Routes        []string // of the cluster that an embedded server is one of
	Listen        string   // of an embedded server, for clients; "" is none
	ClusterListen string   // likewise, for the other servers
	User          string
	Password      Secret
	Token         Secret
	Creds         string // file
	NKey          string // file
	TLS           NATSTLS
	Prefix        string
	Copies        int // 0 is what the servers can have
	Grace         time.Duration
	MaxInbox      Size
}

// NATSTLS names files of PEM.
type NATSTLS struct{ CA, Cert, Key string }

// Embedded says that the server runs in this process.
func (n *NATS) Embedded() bool { return slices.Equal(n.Servers, []string{Embedded}) }

var engineSettings = []Setting{
	{
		Key: "engine", Default: EngineLocal, OneOf: engines,
		Help: "storage: local (this process and its files), nats (NATS JetStream) or postgres (PostgreSQL); replicas share the last two",
	},
}

var natsSettings = []Setting{
	{
		Key: "nats.servers", flag: "nats", example: "nats://10.0.0.1:4222",
		Help: "NATS servers, such as nats://a:4222; embedded: one in this process, stored in the data folder",
	},
	{
		Key: "nats.routes", flag: "cluster", example: "nats://10.0.0.1:6222",
		Help: "cluster addresses of all three embedded servers, such as nats://a:6222",
	},
	{Key: "nats.cluster_listen", Help: "this embedded server's cluster address, such as 10.0.0.1:6222"},
	{Key: "nats.listen", Help: "embedded server's address for replicas and NATS tools, such as 10.0.0.1:4222"},
	{Key: "nats.name", Help: "this replica's unique, lasting name; unset: the host name"},
	{Key: "nats.user", Help: "NATS user; an embedded server requires it from others"},
	{Key: "nats.password", Secret: true, Help: "that user's password"},
	{Key: "nats.token", Secret: true, Help: "NATS token, instead of a user"},
	{Key: "nats.creds", Help: "NATS credentials file, instead of a user"},
	{Key: "nats.nkey", Help: "NKey seed file, instead of a user"},
	{Key: "nats.tls.ca", Help: "PEM file of the servers' CA; unset: the system's CAs"},
	{Key: "nats.tls.cert", Help: "PEM file of this replica's certificate, also for its embedded server"},
	{Key: "nats.tls.key", Help: "PEM file of the certificate's key"},
	{
		Key: "nats.prefix", Default: "lingserve", required: true, check: checkPrefix,
		Help: "prefix of streams and subjects; different for each installation in a NATS account",
	},
	{Key: "nats.copies", Default: "0", Min: "0", check: checkCopies, Help: "copies of the data, 1 or 3; 0: 3 in a cluster, else 1"},
	{Key: "nats.grace", Default: "1m", Min: "1ms", Help: "how long a replica keeps its sessions while disconnected from NATS"},
	{
		Key: "nats.max_inbox", Default: "1GiB", Min: "64KiB",
		Help: "NATS space for a day of channel events; beyond it, those answered first are forgotten",
	},
}

// NATSInClear returns the addresses of NATS servers that are reached over a network without TLS. Those on the way, and all who can publish
// there, can act as any principal. An embedded server encrypts if it has a certificate, whatever the addresses of its routes begin with.
func (c *Config) NATSInClear() []string {
	if c.Engine != EngineNATS {
		return nil
	}
	n := &c.NATS
	list := append([]string{n.Listen, n.ClusterListen}, n.Routes...)
	if !n.Embedded() {
		list = n.Servers
	}
	encrypted := n.TLS.Cert != "" || n.TLS.CA != ""
	return slices.DeleteFunc(slices.Clone(list), func(text string) bool {
		addr := strings.TrimPrefix(text, "nats://")
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			addr = net.JoinHostPort(u.Hostname(), "0")
		}
		return text == "" || encrypted || !n.Embedded() && strings.HasPrefix(text, "tls://") || loopback(addr)
	})
}

// checkPrefix takes what can begin the name of a stream.
func checkPrefix(text string) error {
	if len(text) > 32 || strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) {
		return errors.New("expected up to 32 of the characters a–z, A–Z, 0–9, _ and -")
	}
	return nil
}

func checkCopies(text string) error {
	if text == "2" {
		return errors.New("2 copies are no safer than 1; expected 1 or 3, or 0 for the most that the servers allow")
	}
	return nil
}

// CheckEngine checks that the settings of the engine fit together, and reports all that do not.
func (c *Config) CheckEngine() error {
	e := &engineCheck{c: c}
	if c.Engine != EngineNATS {
		e.noEffect(natsSettings, EngineNATS)
	}
	if c.Engine != EnginePostgres {
		e.noEffect(postgresSettings, EnginePostgres)
	}
	switch c.Engine {
	case EngineLocal:
		return errors.Join(e.errs...)
	case EnginePostgres:
		e.postgres()
		return errors.Join(e.errs...)
	}
	e.servers()
	e.access()
	if c.NATS.Embedded() {
		e.embedded()
	} else {
		for _, key := range []string{"nats.routes", "nats.listen", "nats.cluster_listen"} {
			if c.sources[key].Kind != Default {
				e.wrong(key, "applies only to an embedded server; set nats.servers to embedded, or remove this setting")
			}
		}
	}
	if n := c.NATS.Copies; n != 0 && n != 1 && n != 3 {
		e.wrong("nats.copies", "%d copies are not possible; expected 0, 1 or 3", n)
	}
	if c.Tape.Store == "file" {
		e.wrong("tape.store", "replicas cannot share files; with engine nats, remove this setting to store sessions in NATS, or set it to postgres")
	}
	return errors.Join(e.errs...)
}

type engineCheck struct {
	c    *Config
	errs []error
}

func (e *engineCheck) wrong(key, format string, args ...any) {
	e.errs = append(e.errs, e.c.wrong(key, format, args...))
}

// noEffect refuses settings of an engine that is not used.
func (e *engineCheck) noEffect(settings []Setting, engine string) {
	for _, s := range settings {
		if e.c.sources[s.Key].Kind != Default {
			e.wrong(s.Key, "has no effect with engine %s; set engine to %s to share data between replicas, or remove this setting", e.c.Engine, engine)
		}
	}
}

func (e *engineCheck) servers() {
	list := e.c.NATS.Servers
	switch {
	case len(list) == 0:
		e.wrong("engine", "engine nats needs nats.servers; set the servers' addresses (such as nats://10.0.0.1:4222), or embedded to run one in this process")
	case len(list) > 1 && slices.Contains(list, Embedded):
		e.wrong("nats.servers", "embedded and addresses do not go together; expected only embedded, or only addresses. List the other embedded servers of a cluster in nats.routes")
	case !e.c.NATS.Embedded():
		e.addresses("nats.servers", list)
	}
}

// addresses does not repeat what may have a password in it.
func (e *engineCheck) addresses(key string, list []string) {
	for i, text := range list {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Hostname() == "":
			e.wrong(key, "number %d is no address; expected one such as nats://10.0.0.1:4222", i+1)
		case u.Scheme != "nats" && u.Scheme != "tls":
			e.wrong(key, "number %d starts with %q; expected nats:// or tls://", i+1, u.Scheme)
		case u.User != nil:
			e.wrong(key, "number %d contains a user; set nats.user and nats.password, or nats.token instead, which are never shown", i+1)
		case strings.Contains(text, ","):
			e.wrong(key, "number %d contains a comma; write one address per element of the list, such as [nats://a:4222, nats://b:4222]", i+1)
		case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
			e.wrong(key, "number %d has several colons; put an IPv6 address in brackets, such as nats://[fd00::1]:4222", i+1)
		case !isPort(u):
			e.wrong(key, "number %d has an invalid port; expected 1 to 65535, such as nats://10.0.0.1:4222", i+1)
		case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
			e.wrong(key, "number %d has more than a host and a port; expected one such as nats://10.0.0.1:4222", i+1)
		}
	}
}

// isPort takes an address without a port, too.
func isPort(u *url.URL) bool {
	if !strings.HasSuffix(u.Host, ":") && u.Port() == "" {
		return true
	}
	n, err := strconv.Atoi(u.Port())
	return err == nil && n >= 1 && n <= 65535
}

func (e *engineCheck) access() {
	n := &e.c.NATS
	var ways []string
	for _, way := range []struct {
		key string
		set bool
	}{{"nats.user", n.User != ""}, {"nats.token", n.Token != ""}, {"nats.creds", n.Creds != ""}, {"nats.nkey", n.NKey != ""}} {
		if way.set {
			ways = append(ways, way.key)
		}
	}
	if len(ways) > 1 {
		e.wrong(ways[1], "does not go with %s; remove one of them", ways[0])
	}
	switch {
	case n.User != "" && n.Password == "":
		e.wrong("nats.user", "needs a password; set nats.password")
	case n.Password != "" && n.User == "":
		e.wrong("nats.password", "needs a user; set nats.user")
	}
	switch {
	case n.TLS.Cert != "" && n.TLS.Key == "":
		e.wrong("nats.tls.cert", "needs a key; set nats.tls.key")
	case n.TLS.Key != "" && n.TLS.Cert == "":
		e.wrong("nats.tls.key", "needs a certificate; set nats.tls.cert")
	}
	for _, file := range []struct{ key, path string }{
		{"nats.creds", n.Creds}, {"nats.nkey", n.NKey}, {"nats.tls.ca", n.TLS.CA}, {"nats.tls.cert", n.TLS.Cert}, {"nats.tls.key", n.TLS.Key},
	} {
		if file.path == "" {
			continue
		}
		f, err := os.Open(file.path)
		if err != nil {
			e.wrong(file.key, "cannot read the file: %s", plain(err))
			continue
		}
		_ = f.Close() // it was only looked whether it can be opened
	}
}

func (e *engineCheck) embedded() {
	n := &e.c.NATS
	routed := len(n.Routes) > 0
	if e.c.Data == "" {
		e.wrong("nats.servers", "an embedded server needs a data folder; set data")
	}
	for _, way := range []struct{ key, value string }{{"nats.creds", n.Creds}, {"nats.nkey", n.NKey}} {
		if way.value != "" {
			e.wrong(way.key, "an embedded server does not support this setting; use nats.user with nats.password, or nats.token")
		}
	}
	if n.TLS.CA != "" && n.TLS.Cert == "" {
		e.wrong("nats.tls.ca", "needs a certificate for the embedded server; set nats.tls.cert and nats.tls.key")
	}
	if strings.ContainsAny(n.Name, " \t\r\n") {
		e.wrong("nats.name", "an embedded server's name may not contain spaces")
	}
	switch {
	case routed && n.ClusterListen == "":
		e.wrong("nats.routes", "needs an address at which the other servers reach this one; set nats.cluster_listen")
	case !routed && n.ClusterListen != "":
		e.wrong("nats.cluster_listen", "needs nats.routes; set nats.routes to the addresses of all three servers, including this one")
	case routed && len(n.Routes) != 3:
		e.wrong("nats.routes", "%d addresses do not make a cluster; expected the addresses of all three servers, including this one", len(n.Routes))
	case !routed && n.Copies == 3:
		e.wrong("nats.copies", "3 copies need three servers; set nats.routes, or remove this setting")
	}
	e.addresses("nats.routes", n.Routes)
	for _, listen := range []struct{ key, addr string }{{"nats.listen", n.Listen}, {"nats.cluster_listen", n.ClusterListen}} {
		if listen.addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(listen.addr); err != nil || checkAddr(listen.addr) != nil {
			e.wrong(listen.key, "%q is no address; expected one such as 10.0.0.1:6222", listen.addr)
		} else if !loopback(listen.addr) && n.Password == "" && n.Token == "" {
			e.wrong(listen.key, "other machines can reach %s; set nats.user and nats.password, or nats.token, to the same values for all replicas", listen.addr)
		}
	}
}

// finishEngine puts in what follows from the engine.
func (l *loader) finishEngine() {
	if l.c.Engine == EngineNATS && l.c.sources["tape.store"].Kind == Default {
		l.c.Tape.Store = EngineNATS
		l.c.sources["tape.store"] = Source{Default, "since engine is nats"}
	}
}

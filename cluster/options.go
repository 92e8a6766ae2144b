package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Embedded is the Servers of a replica that runs its server itself.
const Embedded = "embedded"

const (
	defaultPrefix = "lingserve"
	longestPrefix = 32 // bytes
	defaultGrace  = time.Minute
)

// Options say where the servers are and how to get in.
type Options struct {
	// Servers are URLs with commas between, "nats://a:4222,tls://b", or [Embedded].
	Servers string

	// Dir has the data of the embedded server. One process at a time uses it.
	Dir string

	// Name is what people call this replica and its embedded server; "" is the name of the host. Servers that are routed to
	// each other have different names, and keep them.
	Name string

	// Routes are the cluster listeners of all servers of a cluster, this one among them: an embedded server with routes is
	// one of them.
	Routes []string

	// Listen is where an embedded server takes clients and ClusterListen where it takes other servers, "host:port". With ""
	// there is no listener: the connection stays in the process. (One of a cluster must have a listener for clients; it is on
	// loopback, and lets in nobody else.) Beyond this machine they want a password or a token.
	Listen, ClusterListen string

	// Copies of what is stored, 1 or 3. 0 is 3 where the servers are a cluster that can have them, else 1.
	Copies int

	// Prefix of streams, buckets and subjects; "" is "lingserve". Installations with different prefixes may share servers.
	Prefix string

	// User and Password, Token, or Creds and NKey, which name files; all are optional. An embedded server asks its clients and
	// the other servers for the user and password, or for the token.
	User, Password, Token, Creds, NKey string

	// TLS of the connection, and of an embedded server's listeners.
	TLS TLS

	// Grace is how long leases outlive the absence of all servers; 0 is a minute. See [replicas.Leases].
	Grace time.Duration

	// Log gets what an operator should know; nil is nowhere.
	Log *slog.Logger

	ping  time.Duration // between two pings of the connection; 0 is pingEvery
	local string        // the token of an embedded server of a cluster that takes no clients but has to listen for some
}

// LogValue implements [slog.LogValuer], without secrets.
func (o Options) LogValue() slog.Value {
	return slog.GroupValue(slog.String("servers", redactAll(o.Servers)), slog.String("dir", o.Dir), slog.String("name", o.Name),
		slog.String("prefix", o.Prefix), slog.Int("copies", o.Copies))
}

// embedded says whether the server is run here.
func (o *Options) embedded() bool { return o.Servers == Embedded }

// routed says whether the embedded server is one of several.
func (o *Options) routed() bool { return len(o.Routes) > 0 || o.ClusterListen != "" }

// complete fills in what was left out and says what is wrong.
func (o *Options) complete() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if o.Name == "" {
		o.Name = defaultPrefix
	}
	if len(o.Prefix) > longestPrefix || strings.ContainsFunc(o.Prefix, func(r rune) bool { return r >= 0x80 || !plain(byte(r)) }) {
		return fmt.Errorf("cluster: invalid prefix %.80q; expected a–z, A–Z, 0–9, '_' and '-', and at most %d characters", o.Prefix, longestPrefix)
	}
	if o.Copies != 0 && o.Copies != 1 && o.Copies != 3 {
		return fmt.Errorf("cluster: %d copies; expected 1 or 3, or 0 for the most that the servers allow", o.Copies)
	}
	if o.Grace < 0 {
		return fmt.Errorf("cluster: the grace is %v; expected a positive duration", o.Grace)
	}
	if err := o.completeAccess(); err != nil {
		return err
	}
	if o.embedded() {
		return o.completeEmbedded()
	}
	if o.Dir != "" || len(o.Routes) > 0 || o.Listen != "" || o.ClusterListen != "" {
		return fmt.Errorf("cluster: a folder, routes and listeners apply only to an embedded server; the servers are %s", redactAll(o.Servers))
	}
	servers, err := urls(o.Servers)
	if err == nil && len(servers) == 0 {
		err = fmt.Errorf("cluster: no servers; expected URLs such as nats://host:4222, or %q", Embedded)
	}
	return err
}

func (o *Options) completeAccess() error {
	ways := 0
	for _, way := range []string{o.User, o.Token, o.Creds, o.NKey} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("cluster: user, token, credentials and nkey do not go together; set one of them")
	case o.Password != "" && o.User == "":
		return errors.New("cluster: the password needs a user")
	case (o.TLS.Cert == "") != (o.TLS.Key == ""):
		return errors.New("cluster: a certificate and its key need each other; set both")
	case o.embedded() && (o.Creds != "" || o.NKey != ""):
		return errors.New("cluster: an embedded server supports a user and password or a token, not credentials or an nkey")
	case o.embedded() && o.TLS.CA != "" && o.TLS.Cert == "":
		return errors.New("cluster: an embedded server with TLS needs a certificate and its key")
	}
	return nil
}

func (o *Options) completeEmbedded() error {
	if o.Dir == "" {
		return errors.New("cluster: an embedded server needs a folder for its data")
	}
	if strings.ContainsAny(o.Name, " \t\r\n") {
		return fmt.Errorf("cluster: the name of an embedded server, %.80q, has a space", o.Name)
	}
	if len(o.Routes) > 0 && o.ClusterListen == "" {
		return errors.New("cluster: an embedded server with routes needs an address where the other servers reach it")
	}
	if o.ClusterListen != "" && len(o.Routes) == 0 {
		return errors.New("cluster: an embedded server of a cluster needs the routes to all servers")
	}
	if o.routed() && o.Listen == "" && o.User == "" && o.Token == "" && o.local == "" {
		o.local = rand.Text()
	}
	if _, err := urls(strings.Join(o.Routes, ",")); err != nil {
		return fmt.Errorf("%w, in the routes", err)
	}
	if (o.routed() || o.Copies == 3) && len(o.Routes) != 3 && len(o.Routes) != 5 {
		return fmt.Errorf("cluster: %d routes; expected those of all three servers, including this one", len(o.Routes))
	}
	for _, listen := range []string{o.Listen, o.ClusterListen} {
		if listen == "" {
			continue
		}
		host, _, err := splitListen(listen)
		if err != nil {
			return err
		}
		if !loopback(host) && o.Password == "" && o.Token == "" {
			return fmt.Errorf("cluster: other machines can reach the embedded server on %s; set a user and password, or a token", listen)
		}
	}
	return nil
}

func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = net.LookupPort("tcp", text)
	}
	if err != nil {
		return "", 0, fmt.Errorf("cluster: %.80q is no address; expected host:port", listen)
	}
	return host, port, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// urls splits a list of URLs. An error says which of them is wrong without what may be secret in it.
func urls(list string) ([]*url.URL, error) {
	var all []*url.URL
	for i, text := range split(list) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("cluster: server %d is no URL; expected nats://host:port", i+1)
		}
		switch u.Scheme {
		case "nats", "tls":
		default:
			return nil, fmt.Errorf("cluster: server %d, %s, has the scheme %q; expected nats or tls", i+1, redact(u), u.Scheme)
		}
		if port, err := strconv.Atoi(u.Port()); (u.Port() != "" || strings.HasSuffix(u.Host, ":")) && (err != nil || port < 1 || port > 65535) {
			return nil, fmt.Errorf("cluster: server %d, %s, has an invalid port; expected 1 to 65535", i+1, redact(u))
		}
		all = append(all, u)
	}
	return all, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// redact is a URL without its user, which may be a token.
func redact(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// redactAll is a list of servers without secrets.
func redactAll(list string) string {
	if list == Embedded {
		return list
	}
	all, err := urls(list)
	if err != nil {
		return "servers that are no URLs"
	}
	texts := make([]string, len(all))
	for i, u := range all {
		texts[i] = redact(u)
	}
	return strings.Join(texts, ", ")
}

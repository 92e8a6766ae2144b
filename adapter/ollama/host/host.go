// Package host reads the addresses of Ollama as Ollama does.
package host

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	defaultHost = "127.0.0.1"
	defaultPort = "11434"
	hostChars   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-" // names in other scripts have a form of these
)

// Parse returns the URL that a value of OLLAMA_HOST means to a client. As Ollama itself reads it, a host may come alone, with
// a port, with a scheme, and with a path, and in quotation marks; the port is 11434, or the scheme's own where there is one; and
// "ollama.com" alone means HTTPS. What a server listens on everywhere (0.0.0.0, [::], or a port alone) is reached here at the
// loop-back address. Nothing at all means http://127.0.0.1:11434. Unlike Ollama, which goes on with the default, it takes a wrong
// port or scheme for an error.
//
// The rules are those of Ollama's envconfig.Host and ConnectableHost.
func Parse(s string) (*url.URL, error) {
	s = strings.TrimSpace(strings.Trim(strings.TrimSpace(s), `"'`))
	if s == "ollama.com" {
		s = "https://" + s
	}
	scheme, rest, found := strings.Cut(s, "://")
	port := map[string]string{"http": "80", "https": "443"}[strings.ToLower(scheme)]
	if !found {
		scheme, port, rest = "http", defaultPort, s
	}
	host, path, _ := strings.Cut(rest, "/")
	login := host[:strings.LastIndexByte(host, '@')+1]
	host = host[len(login):]
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, cmp.Or(p, port)
	}
	host = cmp.Or(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), defaultHost)
	name := host
	if ip, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)); err == nil { // a zone, as URLs have it
		switch ip = ip.Unmap(); {
		case ip == netip.IPv4Unspecified():
			ip = netip.MustParseAddr(defaultHost)
		case ip.IsUnspecified():
			ip = netip.IPv6Loopback()
		}
		host, name = strings.Replace(ip.String(), "%", "%25", 1), ip.Zone()
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strings.Trim(name, hostChars) != "" {
		return nil, errHost
	}
	u, err := url.Parse(strings.ToLower(scheme) + "://" + login + net.JoinHostPort(host, port) + "/" + path)
	if err != nil || strings.ContainsAny(rest, "?#") || strings.ContainsAny(path, `"'`) {
		return nil, errHost
	}
	u = u.JoinPath()
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// errHost does not repeat the value: there may be a password in it.
var errHost = errors.New("expected a host with or without a port, like 127.0.0.1:11434, or a URL like http://host:11434")

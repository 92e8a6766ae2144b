// Package host reads the addresses of Ollama as Ollama does.
package host

import (
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
	u := &url.URL{Scheme: "http"}
	port := defaultPort
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		rest = after
		switch u.Scheme = strings.ToLower(scheme); u.Scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		default:
			return nil, errHost
		}
	}
	rest, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(path, `?#"'`) {
		return nil, errHost
	}
	if path = strings.Trim(path, "/"); path != "" {
		u.Path = "/"
		u = u.JoinPath(path)
		// Dots at the end leave a slash behind.
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		login, err := url.Parse("//" + rest[:i+1] + "host") // its escapes are those of a URL
		if err != nil {
			return nil, errHost
		}
		u.User, rest = login.User, rest[i+1:]
	}
	host := rest
	if h, p, err := net.SplitHostPort(rest); err == nil {
		if host = h; p != "" {
			port = p
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, errHost
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		host = defaultHost
	}
	if ip, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)); err == nil { // a zone, as URLs have it
		switch ip = ip.Unmap(); {
		case strings.ContainsFunc(ip.Zone(), notInHost):
			return nil, errHost
		case ip.IsUnspecified() && ip.Is4():
			host = defaultHost
		case ip.IsUnspecified():
			host = netip.IPv6Loopback().String()
		default:
			host = ip.String()
		}
	} else if strings.ContainsFunc(host, notInHost) {
		return nil, errHost
	}
	u.Host = net.JoinHostPort(host, port)
	if _, err := url.Parse(u.String()); err != nil { // what is left: characters that no host has
		return nil, errHost
	}
	return u, nil
}

// notInHost says whether a character is of no host's name; names in other scripts have a form of these.
func notInHost(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._-", r)
}

// errHost does not repeat the value: there may be a password in it.
var errHost = errors.New("expected a host with or without a port, like 127.0.0.1:11434, or a URL like http://host:11434")

package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of proxies that are trusted to say whom they speak for. The zero value trusts none.
type Proxies struct{ of []netip.Prefix }

// ParseProxies reads addresses and networks, as 10.0.0.0/8.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, text := range list {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, e := netip.ParseAddr(text)
			if e != nil || addr.Zone() != "" {
				return Proxies{}, fmt.Errorf("%q is not an address or network; expected one such as 10.1.2.3 or 10.0.0.0/8", short(text))
			}
			addr = addr.Unmap()
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		if prefix.Bits() == 0 {
			return Proxies{}, fmt.Errorf("%q contains all addresses, so that every client could fake its address; expected only your proxies", short(text))
		}
		p.of = append(p.of, prefix.Masked())
	}
	return p, nil
}

// Trusts reports whether a proxy with this address is trusted.
func (p Proxies) Trusts(a netip.Addr) bool {
	for _, prefix := range p.of {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// maxHops is more than any request passes through.
const maxHops = 32

// Client is the address that a request comes from. X-Forwarded-For counts only where a trusted proxy has sent it, and of it only what
// trusted proxies have written: they write at its end, so it is the last one that is not trusted. Everything before that is what the
// client says of itself. It is not valid where the connection has no address, as that of a Unix socket.
func (p Proxies) Client(r *http.Request) netip.Addr {
	client := parseAddr(r.RemoteAddr)
	if len(p.of) == 0 || !p.Trusts(client) {
		return client
	}
	hops := 0
	lines := r.Header["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for more := true; more; hops++ {
			var last string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, last = rest[:at], rest[at+1:]
			} else {
				last, more = rest, false
			}
			addr := parseAddr(strings.TrimSpace(last))
			if !addr.IsValid() || hops == maxHops {
				return client // what cannot be read leads no further
			}
			if client = addr; !p.Trusts(addr) {
				return client
			}
		}
	}
	return client
}

// parseAddr reads an address with or without a port. Not valid is one that cannot be read.
func parseAddr(text string) netip.Addr {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// Caller is the name of an address in [Limits]. Whoever has an IPv6 address has 2^64 of them, so the network of that size counts.
func Caller(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	if a.Is6() {
		prefix, _ := a.Prefix(64) // of this size there always is one
		return prefix.String()
	}
	return a.String()
}

// hostOnly is a host without its port; ok is false where it is neither.
func hostOnly(host string) (string, bool) {
	if host == "" {
		return "", false
	}
	if host[0] == '[' || strings.Count(host, ":") == 1 {
		if strings.HasSuffix(host, "]") {
			return host, true
		}
		h, port, err := net.SplitHostPort(host)
		if err != nil || port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
			return "", false
		}
		if host[0] == '[' {
			h = host[:len(h)+2]
		}
		return h, true
	}
	return host, !strings.Contains(host, ":")
}

package access

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of trusted proxies, which tell the address of their client. The zero value trusts none.
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
	return slices.ContainsFunc(p.of, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}

// Client returns the address that a request comes from. X-Forwarded-For counts only if a trusted proxy sent it: the client is its last
// address that is not a trusted proxy, because proxies write at its end and clients can write anything before. It is invalid if the
// connection has no address, as with a Unix socket.
//
// Unlike chi's ClientIPFromXFF it accepts an address with a port, as some proxies write it, and falls back to the proxy's address.
func (p Proxies) Client(r *http.Request) netip.Addr {
	client := parseAddr(r.RemoteAddr)
	if !p.Trusts(client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr := parseAddr(strings.TrimSpace(hop))
		if !addr.IsValid() {
			break
		}
		if client = addr; !p.Trusts(client) {
			break
		}
	}
	return client
}

// parseAddr reads an address with or without a port. The result is invalid if the text is.
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

// Caller returns the name of an address in [Limits]. A client with IPv6 has 2^64 addresses, so its network of that size counts.
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

package webhook

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// errPrivate says that a name leads to an address that callbacks may not be at.
var errPrivate = errors.New("webhook: the callback's host has a private or local address; add the host to allow_private to permit it")

// notPublic are ranges, beside those that package netip knows, that are not on the internet, or stand for other addresses (RFC 6890).
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // behind a provider's NAT
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // for measuring networks
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved, and the broadcast address
	netip.MustParsePrefix("64:ff9b::/96"),  // IPv4 behind a translator, such as 10.0.0.1
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), // IPv4 inside of IPv6
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("fec0::/10"), // site-local, as it was
}

// public reports whether an address is on the internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// newTransport returns the transport to the callback. The address is checked when it is dialed: what a name leads to may change between a check before and
// the call. There is no proxy, which would dial in place of this process.
func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: callTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); !private && (err != nil || !public(to.Addr())) {
			return errPrivate
		}
		return nil
	}}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: callTimeout, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
}

package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errPrivate says that a name leads to where callbacks must not go.
var errPrivate = errors.New("webhook: the callback's host has a private or local address; add the host to allow_private to permit it")

// notPublic are the ranges beside those that package netip knows: of addresses that are nobody's on the internet, or that stand for
// others (RFC 6890).
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // behind a provider's NAT
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // for measuring networks
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved, and the broadcast address
	netip.MustParsePrefix("64:ff9b::/96"),  // IPv4 behind a translator, 10.0.0.1 too
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), // IPv4 inside of IPv6
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("fec0::/10"), // site-local, as it was
}

// public says whether an address is one of the internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// newTransport reaches callbacks. The address is looked at when it is dialed, after the name was resolved: what a name leads to may
// change between a look at it and the call. There is no proxy, which would dial for us.
func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: callTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		if private {
			return nil
		}
		if to, err := netip.ParseAddrPort(address); err != nil || !public(to.Addr()) {
			return errPrivate
		}
		return nil
	}}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: callTimeout, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
}

package database

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// HostsWithoutTLS returns the hosts that a connection may reach over a network without TLS. Whoever is between can read and change everything
// in the database.
func HostsWithoutTLS(c *pgx.ConnConfig) (hosts []string) {
	add := func(host string, config *tls.Config) {
		if config == nil && !isLocal(host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	add(c.Host, c.TLSConfig)
	for _, f := range c.Fallbacks {
		add(f.Host, f.TLSConfig)
	}
	return hosts
}

// isLocal reports whether a host is this machine: a socket or a loopback address.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Package egress has the one rule for proxies of outgoing HTTP: a request goes to its server directly, or through the proxy that the
// environment names if the setting upstream.proxy_env is true. A test of internal/attacks looks for code that decides this elsewhere.
package egress

import (
	"net/http"
	"net/url"
)

// Proxy returns the function that says which proxy a request goes through; nil is none.
func Proxy(environment bool) func(*http.Request) (*url.URL, error) {
	if environment {
		return http.ProxyFromEnvironment
	}
	return nil
}

// NewTransport returns a transport with the times and sizes of net/http's default one.
func NewTransport(environment bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = Proxy(environment)
	return t
}

// Package egress has the one rule for proxies of outgoing HTTP: a request goes to its server directly, or through the proxy that the
// environment names if the setting upstream.proxy_env is true, or through the one that the settings of a provider name. A test looks for code
// that decides this elsewhere.
package egress

import (
	"errors"
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

// Through is [Proxy] for requests that go through the proxy at an address, which is http, https or socks5, whatever the environment says.
func Through(address string) (func(*http.Request) (*url.URL, error), error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return nil, errors.New("is not the address of a proxy; expected one such as http://127.0.0.1:3128") // without the address, which may have a password
	}
	return http.ProxyURL(u), nil
}

// NewTransport returns a transport with the times and sizes of net/http's default one.
func NewTransport(environment bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = Proxy(environment)
	return t
}

package adapter

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/egress"
)

// TransportOptions are what providers may want of their connections.
type TransportOptions struct {
	Connect  time.Duration // for the dialing, and for the TLS handshake; 0 means 10 s, negative none
	ProxyEnv bool          // go through the proxy that the environment names; without it, none is used
	Proxy    string        // the proxy's address, in place of that of the environment; "" is none
}

// transports are those that are in use, by their options.
var transports sync.Map

// Transport returns the transport that all providers with the same options share, so that their connections are reused. It is
// sized for thousands of concurrent streams.
func Transport(o TransportOptions) *http.Transport {
	o.Connect = limit(o.Connect, defaultConnect)
	t, ok := transports.Load(o)
	if !ok {
		t, _ = transports.LoadOrStore(o, newTransport(o))
	}
	return t.(*http.Transport)
}

func newTransport(o TransportOptions) *http.Transport {
	proxy := egress.Proxy(o.ProxyEnv)
	if o.Proxy != "" {
		through, err := egress.Through(o.Proxy)
		if err != nil {
			through = func(*http.Request) (*url.URL, error) { return nil, err } // rather than past the proxy
		}
		proxy = through
	}
	return &http.Transport{
		Proxy: proxy,
		DialContext: (&net.Dialer{
			Timeout: o.Connect,
			// A peer that is gone without a word is noticed within a minute.
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
		}).DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: o.Connect,
		// One connection with many streams is the cheapest way to a model.
		ForceAttemptHTTP2: true,
		// An answer that is not read, because there is no memory for it, must not come in all the same: a window is held in memory.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: 256 << 10},
		// Every stream of HTTP/1.1 needs a connection; those of one burst are kept for the next.
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     45 * time.Second, // the memory of a burst is free again within a minute
		// A server that compressed a stream would collect tokens to do it.
		DisableCompression: true,
		// A token's event has a few hundred bytes, and a request is written from memory in one piece.
		ReadBufferSize:  4 << 10,
		WriteBufferSize: 1 << 10,
		// No ResponseHeaderTimeout: the time limit for the first token covers it, and is distinct.
	}
}

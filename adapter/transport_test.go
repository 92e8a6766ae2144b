package adapter

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"
)

// AD-09: providers with the same options share their connections; zero and the default are the same.
func TestTransportsAreSharedByTheirOptions(t *testing.T) {
	if Transport(TransportOptions{}) != Transport(TransportOptions{Connect: 10 * time.Second}) {
		t.Error("the default is not shared")
	}
	if Transport(TransportOptions{}) == Transport(TransportOptions{Connect: time.Second}) {
		t.Error("another limit has the same transport")
	}
	if none := Transport(TransportOptions{Connect: -1}); none.TLSHandshakeTimeout < 24*time.Hour {
		t.Errorf("no limit is one of %v", none.TLSHandshakeTimeout)
	}
}

// SE-01, SE-24: what the environment says of proxies is only heard where that was asked for, and TLS is never less than 1.2.
func TestAProxyIsUsedOnlyWhereItWasAskedFor(t *testing.T) {
	for _, env := range []bool{false, true} {
		made := newTransport(TransportOptions{ProxyEnv: env})
		if (made.Proxy != nil) != env {
			t.Errorf("asked for %v, a proxy %v", env, made.Proxy != nil)
		}
		if c := made.TLSClientConfig; c.InsecureSkipVerify || c.MinVersion < tls.VersionTLS12 {
			t.Errorf("TLS %x, verified %v", c.MinVersion, !c.InsecureSkipVerify)
		}
		if made.MaxIdleConnsPerHost <= http.DefaultMaxIdleConnsPerHost || !made.ForceAttemptHTTP2 {
			t.Error("not sized for many streams")
		}
	}
}

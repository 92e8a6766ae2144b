package platform

import (
	"net/http"

	"github.com/lingserve/lingserve/internal/egress"
)

// NewClient returns the client for calls of a platform: a copy of given, or a new one if that is nil. It follows no redirects, because one could take the
// token elsewhere. closeIdle closes the connections of a new client.
func NewClient(given *http.Client, proxyEnv bool) (client *http.Client, closeIdle func()) {
	closeIdle = func() {}
	if given == nil {
		transport := egress.NewTransport(proxyEnv)
		transport.MaxIdleConnsPerHost = 16 // for the calls of as many turns at a time
		given, closeIdle = &http.Client{Transport: transport}, transport.CloseIdleConnections
	}
	client = new(*given)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, closeIdle
}

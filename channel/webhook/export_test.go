package webhook

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// UseTransport sends replies without a socket.
func (c *Channel) UseTransport(t http.RoundTripper) { c.HTTP.Transport = t }

// Public reports whether a callback may be at an address.
func Public(a netip.Addr) bool { return public(a) }

// Verify verifies a message as the channel does.
func (s Secrets) Verify(h http.Header, body []byte, now time.Time) (id string, err error) {
	if id, err = checkHeaders(h, now); err == nil && !s.verify(h, body) {
		err = errSignature
	}
	return id, err
}

// Parse reads a body as the channel does.
func Parse(body []byte) error {
	_, err := parse(body)
	return err
}

// ErrSignature is the one answer to every fault of a signature.
var ErrSignature = errSignature

// ResultWait is how long a request waits for the reply.
const ResultWait = resultWait

// SendOnce makes one attempt to send a reply.
func (c *Channel) SendOnce(ctx context.Context) error {
	return c.send(ctx, &reply{Turn: "t", Message: "m", Seq: 1, Text: "x"})
}

// Transport reaches the callback.
func (c *Channel) Transport() *http.Transport { return c.transport }

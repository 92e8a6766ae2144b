// Package webhook is the channel for any backend: the backend sends messages by HTTP, and gets replies by HTTP. Both are signed as Standard Webhooks
// (https://www.standardwebhooks.com) says.
//
// # Guarantees
//   - A message is stored before its sender gets an answer, and runs once, however often it is sent.
//   - Replies go one way: in the answers to messages, or to the callback. Only the configuration sets the callback.
//   - Every attempt to send a part of a reply has the same webhook-id.
//   - The callback is not at an address of this machine or of a private network, unless the configuration names the host.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// How messages are answered.
const (
	AckImmediate = "immediate" // at once; the reply goes to the callback
	AckResult    = "result"    // with the reply, if it comes within a minute
)

// DefaultMaxBody is the size of a message's body, in bytes, unless the settings say another.
const DefaultMaxBody = 1 << 20

// Settings are for [New]. Secret is required, and with AckImmediate Callback. API, Client, MaxMedia and State are not used.
type Settings struct {
	platform.Settings
	Secret         platform.Secret `key:"secret" help:"signing secret of messages, such as whsec_…; or several"`
	Ack            string          `key:"ack" default:"immediate" oneof:"immediate result" help:"answer to a message: at once, or with the reply"`
	Callback       string          `key:"callback" check:"url" help:"https address for replies, with ack immediate"`
	CallbackSecret platform.Secret `key:"callback_secret" help:"signing secret of replies; unset: the secret of messages"`
	MaxBody        int64           `key:"max_body" default:"1MiB" min:"1KiB" help:"maximum size of a message, with media"`
	AllowInsecure  bool            `key:"allow_insecure" default:"false" help:"allow http for the callback"`
	AllowPrivate   []string        `key:"allow_private" help:"callback hosts that may be private or localhost"`

	Results Results // stores answers; required with [AckResult]
}

// Channel is one login of a backend.
type Channel struct {
	platform.Service
	s         Settings // with the defaults
	in, out   Secrets
	result    bool     // messages are answered with the reply
	callback  *url.URL // nil: there is none
	transport *http.Transport

	counted *lru.Cache[string, struct{}] // names of messages that were counted against a rate
}

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes that are read of a callback's answer
	maxCounted  = 10_000

	maxFolder = 256 << 20 // bytes of all files that are stored
)

// New checks the settings and returns the channel. It makes no connection.
func New(s Settings) (*Channel, error) {
	s.Ack, s.MaxBody = cmp.Or(s.Ack, AckImmediate), cmp.Or(s.MaxBody, DefaultMaxBody)
	c := &Channel{s: s, result: s.Ack == AckResult}
	var err error
	if c.in, err = ParseSecrets(string(s.Secret)); err != nil {
		return nil, fmt.Errorf("webhook: secret: %w", err)
	}
	if c.out, err = ParseSecrets(string(cmp.Or(s.CallbackSecret, s.Secret))); err != nil {
		return nil, fmt.Errorf("webhook: callback_secret: %w", err)
	}
	switch {
	case !c.result && s.Callback == "":
		return nil, errors.New("webhook: callback is missing; set it to the https address for replies, or set ack to " + AckResult)
	case c.result && s.Callback != "":
		return nil, errors.New("webhook: callback is not used with ack " + AckResult + ", which has replies in the answers; remove one of them")
	}
	if c.callback, err = s.parseCallback(); err != nil {
		return nil, err
	}
	c.transport = newTransport(c.callback != nil && isAmong(s.AllowPrivate, c.callback))
	c.s.Client, c.s.MaxMedia = &http.Client{Transport: c.transport}, math.MaxInt64 // the size of a body limits each file
	c.Init(&c.s.Settings, "webhook", "")
	c.Files.Total = maxFolder
	c.Files.Fetch = func(_ context.Context, a platform.Attachment, w io.Writer) error {
		_, err := io.WriteString(w, a.Source)
		return err
	}
	c.counted, err = lru.New[string, struct{}](maxCounted)
	return c, err
}

// isAmong reports whether a list has the host of an address, with or without the port.
func isAmong(list []string, u *url.URL) bool {
	return slices.ContainsFunc(list, func(host string) bool {
		return strings.EqualFold(host, u.Host) || strings.EqualFold(host, u.Hostname())
	})
}

// parseCallback returns the address of the callback; nil: there is none. It refuses one that may not be called.
func (s *Settings) parseCallback() (*url.URL, error) {
	if s.Callback == "" {
		return nil, nil
	}
	u, err := url.Parse(s.Callback)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("webhook: callback is not an address; expected one such as https://example.com/replies")
	case u.User != nil:
		return nil, errors.New("webhook: callback contains a user or a password; remove them, because replies are signed")
	case u.Scheme == "http" && !s.AllowInsecure:
		return nil, errors.New("webhook: callback is http; expected https, or allow_insecure: true")
	}
	return u, nil
}

// Check reports whether the callback's host can be connected to. It sends nothing.
func (c *Channel) Check(ctx context.Context) error {
	if c.callback == nil {
		return nil
	}
	port := cmp.Or(c.callback.Port(), c.callback.Scheme) // net knows the names http and https
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := c.transport.DialContext(ctx, "tcp", net.JoinHostPort(c.callback.Hostname(), port))
	if err != nil {
		return errors.Unwrap(unreached(platform.Bare(ctx, err))) // no reply is meant
	}
	return conn.Close()
}

// About says where replies go.
func (c *Channel) About() string {
	if c.callback == nil {
		return "replies in the HTTP response"
	}
	return "replies to " + c.callback.Host
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	defer c.transport.CloseIdleConnections()
	return c.Service.Serve(ctx, q, platform.ServiceOptions{
		Run:    c.run,
		Sender: kernel.Sender{Send: c.resend, Repeatable: func(channel.Outbound, time.Duration) bool { return true }}, // every attempt has the same webhook-id
	})
}

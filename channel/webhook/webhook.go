// Package webhook is the channel for any backend: it sends messages by HTTP, and answers come back the same way. Both are signed as
// Standard Webhooks has it (https://www.standardwebhooks.com).
//
// # What it promises
//   - A message is in the journal before its sender is told that it has come, and runs once, however often it is sent.
//   - A reply goes one way: in the answer, or to the callback, never both. The callback is the configuration's alone.
//   - Every attempt to send a part of a reply has the same webhook-id, by which the backend knows it again.
//   - What leads to this machine or to a private network is not called, unless the configuration names the host.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/turn"
)

// How messages are answered.
const (
	AckImmediate = "immediate" // at once; the reply goes to the callback
	AckResult    = "result"    // with the reply, if it comes within a minute
)

// DefaultMaxBody is the size of a message's body, in bytes, unless the settings say another.
const DefaultMaxBody = 1 << 20

// Settings are what the channel itself is told; who may talk is for package channel. Only Secret is required, and with AckImmediate
// Callback.
type Settings struct {
	Name    string // of the channel; "" is webhook
	Account string // of several; "" is the only one
	Agent   string // answers where no routes are

	Secret  string // that messages are signed with, as whsec_…; of several with a blank between, each will do
	Ack     string // "" is [AckImmediate]
	MaxBody int64  // 0 is [DefaultMaxBody]

	Callback       string   // https://…
	CallbackSecret string   // "" is Secret
	CallbackHosts  []string // that Callback may be at; none is its own
	AllowInsecure  bool     // the callback may be http
	AllowPrivate   []string // hosts that may have addresses of private networks

	Media   string        // the folder for files; "" keeps none
	Results Results       // where replies are kept; nil keeps them in memory
	Shared  bool          // other replicas keep their replies there, too: a reply that one of them makes is waited for
	Grace   time.Duration // how long turns may go on at the end; 0 is that of [channel.Door]
	Log     *slog.Logger  // nil is silent
}

// Channel is one login of a backend.
type Channel struct {
	name, account string
	agent         string
	in, out       Secrets
	result        bool // messages are answered with the reply
	maxBody       int64
	callback      string // "" for none
	http          *http.Client
	closeIdle     func()
	firstWait     time.Duration // before the second attempt
	media         media.Store
	grace         time.Duration
	log           *slog.Logger
	known         *records
	shares        bool                   // other replicas run messages whose senders may ask here
	open          atomic.Pointer[opened] // while Serve runs
	outbox        bool                   // the kernel has one; set before open
	wg            sync.WaitGroup         // of replies that go to the callback after a minute
}

var _ channel.Channel = (*Channel)(nil)

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 10 // what is read of a callback's answer, in bytes
)

// New checks the settings and returns the channel. It calls nobody yet.
func New(s Settings) (*Channel, error) {
	c := &Channel{
		name: cmp.Or(s.Name, "webhook"), account: s.Account, agent: s.Agent, maxBody: cmp.Or(s.MaxBody, DefaultMaxBody),
		callback: s.Callback, firstWait: firstWait, grace: s.Grace, log: s.Log,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.in, err = ParseSecrets(s.Secret); err != nil {
		return nil, fmt.Errorf("webhook: secret: %w", err)
	}
	if c.out, err = ParseSecrets(cmp.Or(s.CallbackSecret, s.Secret)); err != nil {
		return nil, fmt.Errorf("webhook: callback_secret: %w", err)
	}
	switch cmp.Or(s.Ack, AckImmediate) {
	case AckImmediate:
		if s.Callback == "" {
			return nil, errors.New("webhook: callback is missing; set it to the https address for replies, or set ack to " + AckResult)
		}
	case AckResult:
		c.result = true
	default:
		return nil, fmt.Errorf("webhook: ack is %q; expected %s or %s", s.Ack, AckImmediate, AckResult)
	}
	if c.maxBody < 0 {
		return nil, errors.New("webhook: max_body is negative; expected 0 or more")
	}
	private := false
	if s.Callback != "" {
		if private, err = checkCallback(s); err != nil {
			return nil, err
		}
	}
	t := newTransport(private)
	c.closeIdle = t.CloseIdleConnections
	c.http = &http.Client{
		Transport: t, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if s.Media != "" {
		c.media.Prefix, c.media.Limit, c.media.Total = mediaPrefix, math.MaxInt64, maxFolder // a body bounds each file
		if c.media.Dir, err = filepath.Abs(s.Media); err != nil {
			return nil, fmt.Errorf("webhook: the media folder: %w", err)
		}
	}
	var keep *keeper
	if s.Results != nil {
		keep = &keeper{s.Results, c.sender(), c.log}
		c.shares = c.result && s.Shared
	}
	c.known = newRecords(keep, c.result, c.callback == "")
	return c, nil
}

// checkCallback refuses a callback that may not be called. private says that it may be at a private address (CH-184).
func checkCallback(s Settings) (private bool, err error) {
	u, err := url.Parse(s.Callback)
	if err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return false, errors.New("webhook: callback is not an address; expected one such as https://example.com/replies")
	}
	if u.User != nil {
		return false, errors.New("webhook: callback contains a user or a password; remove them, because replies are signed")
	}
	if u.Scheme == "http" && !s.AllowInsecure {
		return false, errors.New("webhook: callback is http; expected https, or allow_insecure: true")
	}
	at := func(list []string) bool {
		return slices.ContainsFunc(list, func(host string) bool {
			return strings.EqualFold(host, u.Host) || strings.EqualFold(host, u.Hostname())
		})
	}
	if len(s.CallbackHosts) > 0 && !at(s.CallbackHosts) {
		return false, errors.New("webhook: the host of callback is not in callback_hosts; add it there")
	}
	return at(s.AllowPrivate), nil
}

// Name implements [channel.Channel].
func (c *Channel) Name() string { return c.name }

// Check says whether the channel could start: whether the callback's host has an address that may be called. It sends nothing.
func (c *Channel) Check(ctx context.Context) error {
	if c.callback == "" {
		return nil
	}
	u, err := url.Parse(c.callback)
	if err != nil {
		return errors.New("webhook: callback is not an address; expected one such as https://example.com/replies")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := c.http.Transport.(*http.Transport).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return fmt.Errorf("webhook: cannot connect to the callback: %w", bare(err))
	}
	return conn.Close()
}

// About says how messages come in and where replies go.
func (c *Channel) About() string {
	if c.callback == "" {
		return "replies in the HTTP response"
	}
	u, _ := url.Parse(c.callback)
	return "replies to " + u.Host
}

// EraseSession forgets the replies in a session that are kept for those who send a message again.
func (c *Channel) EraseSession(session string) error {
	c.known.erase(session)
	if c.known.keep == nil {
		return nil
	}
	return c.known.keep.erase(session)
}

// Serve implements [channel.Channel].
func (c *Channel) Serve(ctx context.Context, k *channel.Kernel) error {
	defer c.closeIdle()
	defer c.wg.Wait()
	door := channel.NewDoor(k, channel.DoorOptions{
		Channel: c.name, Account: c.account, Grace: c.grace, Log: c.log,
		Parks:    !c.result,                    // else the sender was answered by then
		Together: c.callback != "" || c.shares, // else a reply could not be had where it is asked for
		Run: func(ctx context.Context, e channel.JournalEntry, meta channel.Meta) (channel.Result, error) {
			m, err := parse(e.Raw)
			if err != nil {
				m = nil // what nobody can read is settled, too
			}
			rec := c.known.of(e.Key.ID)
			meta.Counted = rec.isCounted()
			if meta.TurnID == "" {
				meta.TurnID = turn.NewID()
			}
			rec.begin(meta.TurnID) // so that a sender who is answered before the turn has ended knows it
			return channel.Run(ctx, k, c.event(k, m, e.Key.ID, meta))
		},
		Incomplete: c.incomplete,
	})
	c.outbox = false
	if k.Outbox != nil && c.callback != "" {
		k.Outbox.Register(c.sender(), (*sender)(c))
		c.outbox = true
	}
	open := &opened{k, door, make(chan struct{})}
	if !c.open.CompareAndSwap(nil, open) {
		return errors.New("webhook: the channel serves already")
	}
	defer func() {
		c.open.Store(nil)
		close(open.ended)
	}()
	return door.Serve(ctx, nil)
}

// opened is what there is while the channel serves.
type opened struct {
	kernel *channel.Kernel
	door   *channel.Door
	ended  chan struct{} // closed when it does not any more
}

// sender is the name that the outbox has for the callback.
func (c *Channel) sender() string {
	if c.account == "" {
		return c.name
	}
	return c.name + "@" + c.account
}

// key names a message in the journal. It is what the kernel makes of the input.
func (c *Channel) key(m *message, id string) channel.EventKey {
	return channel.EventKey{Channel: c.name, Account: c.account, Conversation: m.conversation.id, Thread: m.conversation.thread, ID: id}
}

const cutOff = "The server restarted during the answer. The answer may be incomplete."

// incomplete tells a conversation that a crash has cut off an answer (CH-74).
func (c *Channel) incomplete(ctx context.Context, e channel.JournalEntry) error {
	m, err := parse(e.Raw)
	if err != nil {
		return err
	}
	r := reply{Turn: "incomplete", Message: e.Key.ID, Kind: string(channel.ReplyFinal), Text: cutOff, Final: true, id: "incomplete-" + e.Key.ID}
	r.Conversation.set(m.conversation)
	if c.callback == "" {
		return nil // who asks again is told
	}
	return c.post(ctx, r)
}

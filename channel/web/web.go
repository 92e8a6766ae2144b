// Package web is the HTTP API as a channel: package web of the server hands each message to it, and it makes a turn of the kernel of
// it. It has no routes and imports no HTTP.
//
// # Guarantees
//   - A message runs once: the server looks its Idempotency-Key up before it comes here.
//   - No name of a session reaches the session of another principal.
//   - What a refused message is answered names no setting.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tool"
)

const (
	// Name is the channel's, in the configuration and in envelopes.
	Name = "web"
	// Local is the sender if callers have no names: the server has one user.
	Local = "local"
)

// Shipped has the defaults of the channel: callers that HTTP lets in may talk and use the commands of a user.
func Shipped() *channel.Place {
	return &channel.Place{
		DMPolicy: channel.PolicyOpen, CommandMode: channel.CommandsSenders,
		Greeting: new(""), SenderRate: new(0), ChatRate: new(0), // the limits of HTTP have counted the request
	}
}

// NewKernel returns a kernel for a server that has no other channels: with the settings that are shipped.
func NewKernel(log *slog.Logger) *kernel.Kernel {
	tree, err := channel.NewTree(channel.Configuration{{Channel: Name}: Shipped()})
	if err != nil { // cannot be: nothing in it comes from outside
		panic(err)
	}
	return &kernel.Kernel{Settings: tree, Observer: channel.NewSlogObserver(log), Log: log}
}

// SessionKey returns the key of the session with a name. With a principal, no other principal has a name for it; without one, the server has one
// user, and the key is the name.
func SessionKey(principal, name string) string {
	if principal == "" {
		return name
	}
	return channel.SessionKey(channel.KeyParts{Channel: Name, Conversation: principal, Thread: name})
}

// SessionName is what a principal calls a session with this key; ok is false where it is none of theirs, or its key does not say.
func SessionName(principal, key string) (name string, ok bool) {
	if principal == "" {
		return key, true
	}
	escaped, ok := strings.CutPrefix(key, SessionPrefix(principal))
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(escaped)
	return name, err == nil && SessionKey(principal, name) == key
}

// SessionPrefix is what the keys of all sessions of a principal begin with that have a name to be told by.
func SessionPrefix(principal string) string {
	if principal == "" {
		return ""
	}
	return channel.SessionKey(channel.KeyParts{Channel: Name, Conversation: principal}) + "#"
}

// Message is what someone says in a session.
type Message struct {
	Principal string    // who asks; "" where no one has to say it
	Role      tool.Role // of the principal: nothing gives it a higher one
	Session   string    // as the principal calls it
	Run       string    // the id of the run that answers, and of the turn
	Key       string    // the Idempotency-Key; "" is none
	Agent     string    // or the workflow that answers
	Text      string
	Workflow  bool // a workflow answers, for which a text with a comma is a text

	// Dispatch gives the turn to its session. It shows the run by the turn's sink, and returns when both have ended.
	Dispatch func(context.Context, *channel.Turn) (channel.DispatchResult, error)
}

// Run makes a message a turn and returns when that has ended. ctx is the turn's life.
func Run(ctx context.Context, k *kernel.Kernel, m *Message) (channel.Result, error) {
	return k.RunPrepared(ctx, kernel.Meta{Channel: Name, TurnID: m.Run}, &kernel.Turn{Facts: m.facts(ctx, k), Dispatch: m.Dispatch})
}

// facts returns what is known of a message.
func (m *Message) facts(ctx context.Context, k *kernel.Kernel) channel.Facts {
	sender := cmp.Or(m.Principal, Local)
	f := channel.Facts{
		Channel: Name, MessageID: cmp.Or(m.Key, m.Run), From: sender, Timestamp: time.Now(),
		Sender:       channel.SenderFacts{ID: sender},
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender, ThreadID: m.Session},
		Route:        channel.RouteFacts{AgentID: m.Agent, RouteSessionKey: SessionKey(m.Principal, m.Session), CreateIfMissing: true},
		Reply:        channel.ReplyPlanFacts{To: m.Run, Mode: channel.ReplyDirect},
		Message:      channel.MessageFacts{RawBody: m.Text},
	}
	if k.Settings == nil {
		return f // no one is admitted
	}
	p := k.PolicyOf(ctx, &f)
	f.Access = p.Access(f.Sender, channel.MentionFacts{})
	if m.Principal != "" {
		m.limit(&f.Access.Commands)
	}
	f.Supplemental.GroupSystemPrompt = p.SystemPrompt
	if m.Workflow {
		f.Access.Commands.Mode = channel.CommandsOff
	}
	if p.Previews {
		f.Message.Preview = channel.Preview(m.Text)
	}
	return f
}

// limit keeps the configuration from giving a principal more than its key or token does: one name may have several, and the one that
// may little must not get what another one may. Where the configuration leaves it to them who may use commands, their role counts.
func (m *Message) limit(c *channel.CommandFacts) {
	for i := range c.Authorizers {
		c.Authorizers[i].Role = min(c.Authorizers[i].Role, m.Role)
	}
	if c.Mode == channel.CommandsSenders {
		c.Authorizers = append(c.Authorizers, channel.Authorizer{Name: "key", Role: m.Role, Configured: true, Allowed: true})
	}
}

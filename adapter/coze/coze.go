// Package coze speaks the chat v3 API of Coze, and of servers that have the same API. A model is a bot, named by its id.
//
// # What a bot gets
//
// A bot has its own prompt, written on Coze's pages; the API has no place for another one. So everything that belongs to a prompt
// travels as custom variables, and the bot's prompt says where they go:
//
//   - {{system_prompt}} is the request's system messages, and the JSON Schema of the answer where one is asked for.
//   - Each of the request's params is a variable of the same name: a string as it is, anything else as JSON text. One that is
//     called system_prompt gives way to the system messages.
//
// The simplest bot for a workflow has {{system_prompt}} as its whole prompt. Temperature, limits and the like are set at the bot;
// a request's are not sent, but for its ExtraBody.
//
// # What a bot is sent
//
// The messages before the last are its history; nothing is kept at Coze between two requests, unless tools of ours may be called.
// Images that are data are uploaded first, each once. Of what the bot says, cards, sound, suggestions and what it found in its
// knowledge are left out; where it gives several answers, a blank line is between them.
//
// # Tools
//
// Calls of the bot's plugins are made by Coze: they and their results are passed on for others to see. Plugins that the bot's
// author has declared as the client's are ours to run; a request that may lead to such has tools, by the names that the plugins
// have, and the next request, which ends with their results, goes on with the same chat. Where that chat is not known any more, as
// after a restart, a new one gets them as history.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - An error that Coze sends in any form is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at once and asks Coze to cancel the chat.
//   - One event, one chunk: nothing waits for more than what it is part of.
package coze

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"golang.org/x/sync/errgroup"
)

// Options are the settings of a provider: the default of Prefix is "coze"; BaseURL is what comes before /v3/chat, default
// https://api.coze.com; Key is a personal access token, or any other that the API takes; the default of KeyName is COZE_API_TOKEN.
type Options = wire.Options

const defaultURL = "https://api.coze.com"

// New returns a provider, which is also an io.Closer: closing it waits for what it still tells Coze. A bot is told that it talks to user, default
// "lingserve". Errors: a BaseURL that is no http(s) URL.
func New(o Options, user string) (adapter.Provider, error) {
	o.Prefix, o.KeyName = cmp.Or(o.Prefix, "coze"), cmp.Or(o.KeyName, "COZE_API_TOKEN")
	base, err := wire.BaseURL(o.Prefix, cmp.Or(o.BaseURL, defaultURL), defaultURL)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v3/chat")
	p := &provider{Server: wire.NewServer(o), chat: base.JoinPath("v3", "chat"), user: cmp.Or(user, "lingserve")}
	p.Explain = p.explain
	p.files, _ = lru.New[[sha256.Size]byte, string](maxFiles) // fails for no size
	p.waiting, _ = lru.New[string, *chat](maxWaiting)
	p.cancels.SetLimit(maxCancels)
	return p, nil
}

// provider is one server and what is known of it. It is safe for concurrent use.
type provider struct {
	wire.Server
	chat *url.URL
	user string

	waiting *lru.Cache[string, *chat] // by the ids of calls
	closing sync.Mutex
	closed  bool
	cancels errgroup.Group                        // the requests to cancel chats that are on their way; none is added once closed
	files   *lru.Cache[[sha256.Size]byte, string] // ids, by what they hold
}

// Model returns the bot of this id. Which bots there are is only known to Coze.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a bot's id after %q", p.Prefix+":")
	}
	return &model{p: p, name: name}, nil
}

// Close waits until every chat that was left is canceled, which takes some seconds at most.
func (p *provider) Close() error {
	p.closing.Lock()
	p.closed = true
	p.closing.Unlock()
	return p.cancels.Wait()
}

const (
	// cancelTime is how long Coze may take to hear that a chat is of no use any more.
	cancelTime = 5 * time.Second
	// maxCancels is how many chats are canceled at the same time; those beyond it end by themselves.
	maxCancels = 256
)

// cancelChat asks Coze to cancel a chat whose stream has been left: closing a stream alone does not end the chat. Only Close waits for it, and
// nothing depends on its success. A closed provider cancels nothing.
func (p *provider) cancelChat(ctx context.Context, conversation, id string) {
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed {
		return
	}
	p.cancels.TryGo(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		body := jsonText(map[string]string{"conversation_id": conversation, "chat_id": id})
		if res, _, _ := p.Post(ctx, p.url("cancel").String(), wire.Accept("application/json"), []byte(body)); res != nil {
			wire.Said(res.Body) // so that the connection can be used again
			res.Body.Close()
		}
		return nil
	})
}

// model is one bot.
type model struct {
	p    *provider
	name string
}

// Stream asks the bot.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		a := &answer{m: m, messages: map[string]*written{}}
		ask := func(ctx context.Context) (*http.Response, error) {
			res, err := a.ask(ctx, &req)
			if err != nil && ctx.Err() != nil {
				a.stop(ctx) // a chat that was continued may be running
			}
			return res, err
		}
		m.p.Stream(ctx, m.name, ask, a.read)(yield)
	}
}

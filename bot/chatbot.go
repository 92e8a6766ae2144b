package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/tube"
)

var (
	// ErrStarted says that a bot is chatting: it can be asked again when it has ended.
	ErrStarted = errors.New("bot: it is chatting already")
	// ErrOver says that the run of a bot has ended.
	ErrOver = errors.New("bot: the run has ended")

	errFinished = errors.New("bot: finished by hand")
	errEnough   = errors.New("bot: the answer is complete")
)

// ChatBot asks a model and sends its parsed output to the tube. Make one with [New]; its methods are safe for concurrent use.
type ChatBot struct {
	Machine

	env      Env
	name     string
	root     string
	config   Config
	log      *slog.Logger
	called   int         // tool calls so far; for the goroutine of the bot
	cited    int         // sources so far; the same
	media    int         // images and sounds so far; the same
	span     trace.Span  // nil without tracing; the same
	thoughts bool        // some chat has had any; the same
	byHand   atomic.Bool // Finish was called

	mu       sync.Mutex
	prompts  []adapter.Message
	history  []adapter.Message
	listener Listener // calls all that were added
	unfilter []func()
	chats    int             // that were started
	current  *exchange       // the latest
	left     json.RawMessage // the value of the last chat; nil where it is not known
	cancel   context.CancelCauseFunc
}

// exchange is one chat: what is asked, and what comes of it.
type exchange struct {
	message  Message
	response Response
	err      error
	ended    bool
	done     chan struct{} // closed when the chat has ended and its callbacks have returned
}

// New makes a bot that writes below root.
func New(env Env, name, root string, c Config) *ChatBot {
	log := cmp.Or(env.Log, slog.New(slog.DiscardHandler))
	return &ChatBot{env: env, name: name, root: root, config: c, log: log, current: &exchange{done: make(chan struct{})}}
}

func (b *ChatBot) Name() string { return b.name }
func (b *ChatBot) Root() string { return b.root }

// Config returns what the bot was made with.
func (b *ChatBot) Config() Config { return b.config }

// AddPrompt appends a system message; data goes over the params of the manager. The template is rendered now; what nobody supplies is
// empty. Errors are *[prompt.Error].
func (b *ChatBot) AddPrompt(template string, data map[string]any) error {
	text, err := b.render(template, data)
	if err == nil {
		b.AddSystem(text)
	}
	return err
}

func (b *ChatBot) render(template string, data map[string]any) (string, error) {
	t, err := prompt.Parse("prompt of "+b.name, template)
	if err != nil {
		return "", err
	}
	vars := b.config.variables(b.name, b.root)
	maps.Copy(vars, b.env.Params)
	maps.Copy(vars, data)
	return t.Render(nil, vars)
}

// AddSystem appends a system message that is no template.
func (b *ChatBot) AddSystem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompts = append(b.prompts, adapter.Message{Role: adapter.System, Content: text})
}

// SetPrompt replaces all prompts by this one. Where it fails, they stay.
func (b *ChatBot) SetPrompt(template string, data map[string]any) error {
	text, err := b.render(template, data)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompts = []adapter.Message{{Role: adapter.System, Content: text}}
	return nil
}

// AddHistory appends messages that stand between the prompts and the message of [ChatBot.Chat].
func (b *ChatBot) AddHistory(m ...adapter.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append(b.history, m...)
}

// SetHistory replaces the history.
func (b *ChatBot) SetHistory(m ...adapter.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append([]adapter.Message(nil), m...)
}

// AddFilter hides events from clients: those at or below the bot's root whose uri one of exclude matches. A [tube.EventFunc] among them
// sees these events as a whole, and named events of the whole run too. To filter what others write, use [tube.Tube.AddFilter].
func (b *ChatBot) AddFilter(exclude ...tube.Matcher) {
	remove := b.env.Tube.AddFilter(tube.Filter{Root: b.root, Exclude: exclude})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfilter = append(b.unfilter, remove)
}

// ClearFilters takes the bot's filters back.
func (b *ChatBot) ClearFilters() {
	b.mu.Lock()
	removes := b.unfilter
	b.unfilter = nil
	b.mu.Unlock()
	for _, remove := range removes {
		remove()
	}
}

// Listen adds a listener; before the first Chat.
func (b *ChatBot) Listen(l Listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chats > 0 {
		panic("bot: Listen after Chat")
	}
	all := &b.listener
	*all = Listener{
		String: both(all.String, l.String), Object: both(all.Object, l.Object), Scalar: both(all.Scalar, l.Scalar),
		InferenceDone: both(all.InferenceDone, l.InferenceDone), Response: both(all.Response, l.Response), Error: both(all.Error, l.Error),
	}
}

// both returns a callback that calls first and then second, also if first panics; nil if there is neither.
func both[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(value T) {
		defer second(value)
		first(value)
	}
}

// Chat starts the bot and returns at once. When it has ended and its callbacks have returned, it can be asked again: it then remembers
// what it was asked and what it has answered, after its other history, and the new answer takes the place of the last one. It is an
// error to start a bot that is chatting ([ErrStarted]), or after the run has ended ([ErrOver]); any other failure is the bot's error.
func (b *ChatBot) Chat(m Message) error {
	b.mu.Lock()
	x := b.current
	if b.chats > 0 {
		if !x.ended {
			b.mu.Unlock()
			return ErrStarted
		}
		x = &exchange{done: make(chan struct{})}
	}
	x.message = m
	ctx, cancel := context.WithCancelCause(b.env.Context)
	begin := make(chan struct{}) // the goroutine waits until the bot is chatting
	started := b.env.Context.Err() == nil && b.env.Go(func(context.Context) {
		defer cancel(nil)
		<-begin
		b.run(ctx, m)
	})
	if started {
		b.current, b.cancel = x, cancel
		b.chats++
		b.byHand.Store(false)
	}
	b.mu.Unlock()
	if !started {
		cancel(nil)
		return ErrOver
	}
	defer close(begin) // also where a watcher panics
	return b.To(Chatting)
}

// Finish ends a bot by hand: what it was doing is stopped, and what it wrote stays. Its listeners are called as at any other
// end, with what it has. It does not wait for that, and a bot that has ended is left as it is.
func (b *ChatBot) Finish() {
	b.mu.Lock()
	begun, ended, cancel := b.chats > 0, b.current.ended, b.cancel
	if !begun {
		b.chats = 1
	}
	if begun && !ended {
		b.byHand.Store(true)
	}
	b.mu.Unlock()
	switch {
	case ended:
	case begun && cancel != nil:
		cancel(errFinished)
	case !begun:
		b.end(b.guard(func() error {
			if err := b.To(Chatting); err != nil {
				return err
			}
			return b.finish(Response{Value: null})
		}))
	}
}

// Wait waits until the bot has ended or ctx has, and returns its answer. A callback must not wait for its own bot.
func (b *ChatBot) Wait(ctx context.Context) (Response, error) {
	b.mu.Lock()
	x, begun := b.current, b.chats > 0
	b.mu.Unlock()
	over := b.env.Context.Done()
	if begun {
		over = nil // it will end soon
	}
	select {
	case <-x.done:
		return x.response, x.err
	case <-ctx.Done():
		return b.Response(), context.Cause(ctx)
	case <-over:
		return Response{}, ErrOver
	}
}

// Response returns what there is of the answer; the value when the bot is finished.
func (b *ChatBot) Response() Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current.response
}

// remember makes a chat a part of the history.
func (b *ChatBot) remember(answer Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = answer.Value
	if len(answer.Value) == 0 || string(answer.Value) == "null" {
		return // it was not stored, or there was none
	}
	text := string(answer.Value)
	if b.config.format() != JSON {
		_ = json.Unmarshal(answer.Value, &text) // it is a string
	}
	if asked, ok := b.current.message.user(); ok {
		b.history = append(b.history, asked)
	}
	b.history = append(b.history, adapter.Message{Role: adapter.Assistant, Content: text})
}

func (b *ChatBot) note(change func(r *Response)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.current.response)
}

// request puts the question together.
func (b *ChatBot) request(m Message) (adapter.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.config
	messages := make([]adapter.Message, 0, len(b.prompts)+len(b.history)+2)
	messages = append(messages, b.prompts...)
	if len(b.prompts) == 0 && c.format() != Text {
		messages = append(messages, adapter.Message{Role: adapter.System, Content: defaultPrompt(c)})
	}
	messages = append(messages, b.history...)
	if user, ok := m.user(); ok {
		messages = append(messages, user)
	}
	if len(messages) == 0 {
		return adapter.Request{}, &Failure{Code: CodeInvalid, Message: fmt.Sprintf("the bot %q has no prompt; give it a prompt or an input", b.name)}
	}
	r := adapter.Request{
		Messages: messages, Options: c.Options, Params: b.env.Params, CacheKey: b.env.CacheKey,
	}
	if c.format() == JSON {
		r.Format = adapter.Format{JSON: true, Name: c.SchemaName, Schema: c.Schema}
	}
	return r, nil
}

// user is the message as a model gets it; ok is false where it says nothing.
func (m Message) user() (user adapter.Message, ok bool) {
	if len(m.Parts) > 0 {
		return adapter.Message{Role: adapter.User, Parts: m.Parts}, true
	}
	return adapter.Message{Role: adapter.User, Content: m.Text}, m.Text != ""
}

// defaultPrompt asks for JSON or HTML if the bot has no prompt.
func defaultPrompt(c Config) string {
	if c.format() == HTML {
		return "Answer with one HTML document and nothing else: no explanation, no code fence. Begin with \"<!DOCTYPE html>\"."
	}
	const ask = "Answer with one JSON document and nothing else: no explanation, no code fence. Begin with \"{\"."
	if c.Schema == nil {
		return ask + "\nFor example: {\"answer\": \"…\"}"
	}
	return ask + "\nThe document must fit this JSON Schema:\n" + string(c.Schema)
}

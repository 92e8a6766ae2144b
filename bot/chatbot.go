package bot

import (
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tube"
)

// Format is the form of a bot's output.
type Format string

const (
	JSON Format = "json"
	Text Format = "text"
)

// Config is what a bot is made with: its model and what is asked of it. A manager's Config is the default of its bots'.
type Config struct {
	Model       string          // "provider:name"; "" is the default model
	Format      Format          // default JSON
	Schema      json.RawMessage // JSON Schema of the output; sent to providers that support it, and checked
	SchemaName  string
	Temperature *float64
	TopP        *float64
	MaxTokens   *int
	Stop        []string
	Seed        *int
	Quiet       bool // its events reach listeners and the result, but no client
	Done        bool // each completed value is followed by a Done event
}

// Env is what a bot works with; a manager supplies it.
type Env struct {
	Context context.Context // ends with the run
	Tube    *tube.Tube
	Models  Models
	// Go runs f in a goroutine that somebody waits for; false when nothing may start any more.
	Go func(f func(context.Context)) bool
	// Params are the manager's custom params at the time the bot was made.
	Params map[string]any
	// Writes is told when a bot opens and closes a string or array, so that two that write to the same one are noticed.
	// It may be nil.
	Writes WriteObserver
}

// WriteObserver sees which strings and arrays are open for writing.
type WriteObserver interface {
	Open(bot *ChatBot, uri []byte)
	Close(bot *ChatBot, uri []byte)
}

// Models finds a model by name; *[adapter.Registry] is one.
type Models interface {
	Model(name string) (adapter.Model, error)
}

// Message is what a bot is asked: Text, or Parts where there are any.
type Message struct {
	Text  string
	Parts []adapter.Part
}

// Response is a complete answer.
type Response struct {
	Value     json.RawMessage // JSON text; of a text bot, a JSON string
	Model     string          // that answered
	Usage     adapter.Usage
	Truncated bool           // the model reached its limit of tokens
	Repairs   map[string]int // by kind
}

// StringValue is a string that is complete.
type StringValue struct{ URI, Value string }

// ObjectValue is an object or array that is complete; Value is its JSON text.
type ObjectValue struct {
	URI   string
	Value json.RawMessage
}

// Listener is told what a bot does, in order, from one goroutine. Members that are nil are not called; values are collected
// only where someone listens. uris carry the bot's root. A panic in a callback is the bot's error.
type Listener struct {
	String        func(StringValue)
	Object        func(ObjectValue)
	Scalar        func(ObjectValue) // numbers and literals
	InferenceDone func(Response)    // the model has ended
	Response      func(Response)    // everything is sent
	Error         func(error)
}

// ChatBot asks a model and sends its parsed output to the tube.
type ChatBot struct{ Machine }

// New makes a bot that writes below root.
func New(env Env, name, root string, c Config) *ChatBot { panic("bot: not built yet") }

func (b *ChatBot) Name() string { panic("bot: not built yet") }
func (b *ChatBot) Root() string { panic("bot: not built yet") }

// AddPrompt appends a system message; data goes over the params of the manager.
func (b *ChatBot) AddPrompt(template string, data map[string]any) error { panic("bot: not built yet") }

// SetPrompt replaces all prompts by this one.
func (b *ChatBot) SetPrompt(template string, data map[string]any) error { panic("bot: not built yet") }

func (b *ChatBot) AddHistory(m ...adapter.Message) { panic("bot: not built yet") }
func (b *ChatBot) SetHistory(m ...adapter.Message) { panic("bot: not built yet") }

// AddFilter hides uris at or below the bot's root from clients.
func (b *ChatBot) AddFilter(exclude ...tube.Matcher) { panic("bot: not built yet") }
func (b *ChatBot) ClearFilters()                     { panic("bot: not built yet") }

// Listen adds a listener; before Chat.
func (b *ChatBot) Listen(l Listener) { panic("bot: not built yet") }

// Chat starts the bot and returns at once. It is an error to start a bot twice or after the run has ended.
func (b *ChatBot) Chat(m Message) error { panic("bot: not built yet") }

// Finish ends a bot by hand: what it was doing is stopped, and what it wrote stays.
func (b *ChatBot) Finish() { panic("bot: not built yet") }

// Wait waits until the bot has ended or ctx has, and returns its answer.
func (b *ChatBot) Wait(ctx context.Context) (Response, error) { panic("bot: not built yet") }

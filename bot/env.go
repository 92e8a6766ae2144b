package bot

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tube"
)

// Env is what a bot works with; a manager supplies it.
type Env struct {
	Context context.Context // ends with the run
	Tube    *tube.Tube
	Models  Models
	// Go runs f in a goroutine that the manager waits for; false when nothing may start any more.
	Go func(f func(context.Context)) bool
	// Params are the manager's custom params at the time the bot was made.
	Params map[string]any
	// CacheKey is that of the requests; see [adapter.Request].
	CacheKey string
	// Writes is called when a bot opens a string or array, and when it closes it, so that two bots that write to the same one are
	// noticed. It may be nil.
	Writes func(b *ChatBot, uri []byte, open bool)
	// Report makes an "error" event of what does not end the bot, a [*Failure] mostly. It may be nil.
	Report func(b *ChatBot, err error)
	// Written is called with the number of bytes of text that a bot got from its model; false stops the bot. It may be nil.
	Written func(bytes int) bool
	// Alone calls f with what the document has at the bot's root, and returns what f does; if another bot may write there
	// meanwhile it calls nothing and returns false. f must not take long. It may be nil: then the bot is alone.
	Alone func(b *ChatBot, f func(here json.RawMessage) bool) bool
	// Keep keeps an image or a sound that a model made, and returns its address. It may be nil: then there are none.
	Keep func(ctx context.Context, kind string, data []byte) (url string, err error)
	// Log gets what users must not see. It may be nil.
	Log *slog.Logger
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

// Response is a complete answer, of one chat.
type Response struct {
	Value     json.RawMessage // JSON text; of a text or HTML bot, a JSON string
	Model     string          // that answered; "" where none has
	Usage     adapter.Usage   // as far as providers count, of all inferences
	Truncated bool            // the model reached its limit of tokens
	Repairs   map[string]int  // by kind
}

// AddRepairs returns the sums of repairs by kind; nil for none. A caller may have the maps, so they are not changed.
func AddRepairs(a, b map[string]int) map[string]int {
	sum := maps.Clone(a)
	for kind, n := range b {
		if sum == nil {
			sum = map[string]int{}
		}
		sum[kind] += n
	}
	return sum
}

// StringValue is a string that is complete.
type StringValue struct{ URI, Value string }

// ObjectValue is an object or array that is complete, or a scalar; Value is its JSON text.
type ObjectValue struct {
	URI   string
	Value json.RawMessage
}

// Listener has callbacks for what a bot does. They are called in order, from one goroutine. Members that are nil are not called; values are collected
// only where someone listens. uris carry the bot's root. A panic in a callback is the bot's error.
//
// A callback may make and start other bots. It must not wait for its own bot, nor for the end of its run.
type Listener struct {
	String        func(StringValue)
	Object        func(ObjectValue)
	Scalar        func(ObjectValue) // numbers and literals
	InferenceDone func(Response)    // the model has ended
	Response      func(Response)    // everything is sent
	Error         func(error)
}

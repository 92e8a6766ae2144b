package bot

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
)

// Format is the form of a bot's output.
type Format string

const (
	JSON Format = "json"
	Text Format = "text" // one string
	HTML Format = "html" // one string: the document in the answer, without what stands around it
)

// Config is what a bot is made with: its model and what is asked of it. A manager's Config is the default of its bots'.
type Config struct {
	Model      string          // "provider:name"; "" is the default model
	Format     Format          // default JSON
	Schema     json.RawMessage // JSON Schema of the output; sent to providers that support it, and checked
	SchemaName string
	OnInvalid  OnInvalid // what becomes of output that does not fit Schema, or is none; default Report
	adapter.Options
	Quiet      bool // its events reach listeners and the result, but no client
	Done       bool // each completed value is followed by a Done event
	HTMLEvents bool // an [HTML] bot also sends an "html" event for each tag and piece of text
	// Instead says that the answer takes the place of what is at the bot's root when it begins: of what another bot has left there
	// that has failed. Nothing is taken back if another bot writes there at that time.
	Instead bool
	// Member is called before anything of a member of the answer is sent, with its uri; of an answer that is no object or array, with the
	// bot's root. It may be nil.
	Member func(uri string)
	// NoValue leaves Response.Value empty and saves the memory for it, where only the stream and the result matter.
	NoValue bool

	// Tools are what the model may call; nil is nothing. A *[tool.Set] is a source of them. The bot runs the calls of an answer,
	// tells the model what came of each, what went wrong included, and asks it again, until it calls none.
	//
	// The text that a [Text] bot writes before its calls is followed by an empty line and the text after them. Of the other formats the
	// document is that of the last round that has one: where another begins, what the one before wrote is set to null, as with
	// [Retry]. Listeners get the values of each as they come, unless OnInvalid is another than Report.
	Tools tool.Source
	// ToolRounds is how often the model is asked at most; the last time it is offered no tools. 0 is 16.
	ToolRounds int
	// ToolRunner runs the calls. nil runs 8 at once, a minute each at most, and none that asks for approval, and takes keys out of
	// what went wrong.
	ToolRunner *tool.Runner
}

func (c Config) format() Format {
	if c.Format == "" {
		return JSON
	}
	return c.Format
}

// variables are what prompts see of a configuration: what was asked of the model, and nothing that is secret or alive.
func (c Config) variables(name, root string) map[string]any {
	chatConfig := map[string]any{"model": c.Model, "model_name": c.Model, "bot": name}
	format := map[string]any{"type": "json_object", "root": root}
	if f := c.format(); f != JSON {
		format["type"] = string(f)
	} else if c.Schema != nil {
		format["type"], format["schema"], format["name"] = "json_schema", c.Schema, c.SchemaName
	}
	options := map[string]any{"response_format": format, "quiet": c.Quiet}
	put(options, "temperature", c.Temperature)
	put(options, "top_p", c.TopP)
	put(options, "max_tokens", c.MaxTokens)
	put(options, "seed", c.Seed)
	if c.Stop != nil {
		options["stop"] = c.Stop
	}
	return map[string]any{"chatConfig": chatConfig, "chatOptions": options}
}

func put[T any](m map[string]any, name string, value *T) {
	if value != nil {
		m[name] = *value
	}
}

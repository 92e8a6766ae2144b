// Package adapter says what a model is: something that streams an answer to a list of messages. Each provider has a
// folder of its own below; what all of them share (errors, retries, time limits, fallback chains) is here.
//
// # Guarantees
//   - Leaving a stream's loop, or ending its context, closes the connection to the provider.
//   - A stream ends with a chunk that has a Finish, or with an error: an answer that was cut off is never taken for a whole one.
//   - A request is repeated, and the next model of a chain asked, only while nothing of an answer has been passed on.
//   - Waiting for a provider is bounded; waiting for the reader of a stream is not, and does not count.
//   - No error's text has a key, an address or a provider's own words in it.
package adapter

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Model streams answers. It is safe for concurrent use.
type Model interface {
	// Stream sends the request and yields the answer's chunks as they come. A non-nil error is the last pair, and always an
	// *[Error] or the context's cause. Leaving the loop, or ending ctx, closes the connection to the provider.
	Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// Request is one question to a model.
type Request struct {
	Messages []Message
	Tools    []Tool
	Format   Format
	Options
	// Params are the caller's own parameters; providers that carry such (Coze's custom variables) get them.
	Params map[string]any
	// CacheKey is the same for requests that begin alike, such as those of one session; providers that cache prompts get it.
	CacheKey string
}

// Format is the form asked of the answer.
type Format struct {
	JSON   bool
	Name   string          // of the schema
	Schema json.RawMessage // JSON Schema, for providers that support it; nil for any JSON
}

// Roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool"
)

// Message is one message of a conversation: Content, or Parts where they are not empty.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content,omitempty"`
	Parts      []Part     `json:"parts,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a tool's result
	// Made is the message as the provider that made it wants to have it back. A [Registry]'s models see it only where it is theirs.
	Made *Made `json:"made,omitempty"`
}

// Part is a piece of a message: text, or an image or another file by URL or as data ("data:image/png;base64,…").
type Part struct {
	Type  string `json:"type"` // "text", "image_url" or "file"
	Text  string `json:"text,omitempty"`
	Image string `json:"image_url,omitempty"`
	File  string `json:"file,omitempty"` // of a PDF, audio or text file
	Name  string `json:"name,omitempty"` // of the file
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema
}

// ToolCall is a call that a model asks for. In a chunk it is a part of one: Arguments of the same Index are joined.
type ToolCall struct {
	Index     int    `json:"-"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ToolResult is the result of a call that the provider made itself, with its own tool: we need not answer such a call.
type ToolResult struct {
	Index   int // of the call
	ID      string
	Content string
	Failed  bool
}

// Reasons for which an answer ends.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
	FinishRefusal       = "refusal" // the model refused; the text, if any, says why
)

// Chunk is a piece of an answer. Any of its members may be empty; one chunk with a Finish comes in every complete answer.
type Chunk struct {
	// Restart says that what came as text before was thinking, whose end the model has marked only now: the answer's text begins with this chunk.
	Restart   bool
	Text      string
	Reasoning string
	ToolCall  *ToolCall
	// ToolResult is the result of a call that the provider has made itself. A call without one in an answer that ends with
	// FinishToolCalls waits for ours.
	ToolResult *ToolResult
	Beside     *Beside
	Citation   *Citation
	Media      *Media
	Usage      *Usage // of the answer so far: a later one takes the place of those before
	Finish     string
	Model      string // "provider:name" of the model that answers; in the first chunk
}

// Citation is a source that an answer names.
type Citation struct {
	URL   string `json:"url,omitempty"`
	Title string `json:"title,omitempty"`
	// Start and End are the place in the answer's text that the source is for, in characters; both 0 where it is not known.
	Start int    `json:"start,omitempty"`
	End   int    `json:"end,omitempty"`
	Text  string `json:"text,omitempty"` // of the source
}

// Media is an image or a sound that a model made.
type Media struct {
	Type string // "image/png"
	URL  string // of where it lies, or "data:image/png;base64,…"
}

// Timeouts bound the waiting for a provider; zero means the default, negative none. Time spent in the reader of a stream
// does not count.
type Timeouts struct {
	Connect    time.Duration // 10 s
	FirstToken time.Duration // 60 s
	Idle       time.Duration // between tokens, 60 s
	Total      time.Duration // 10 min
}

// Retries say how often a request is tried while nothing of its answer has been passed on; zero means the default.
type Retries struct {
	Attempts int           // 3; 1 is no retry
	Base     time.Duration // of the backoff, 500 ms
	Max      time.Duration // of one wait, 20 s; a Retry-After beyond it is not waited for
}

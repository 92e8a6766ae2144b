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
	// Options that are nil are left to the provider.
	Temperature *float64
	TopP        *float64
	MaxTokens   *int
	Stop        []string
	Seed        *int
	// Params are the caller's own parameters; providers that carry such (Coze's custom variables) get them.
	Params map[string]any
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
}

// Part is a piece of a message: text, or an image by URL or as data ("data:image/png;base64,…").
type Part struct {
	Type  string `json:"type"` // "text" or "image_url"
	Text  string `json:"text,omitempty"`
	Image string `json:"image_url,omitempty"`
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

// ToolResult is what came of a call that the provider made itself, with a tool of its own: such a call is not for us to answer.
type ToolResult struct {
	Index   int // of the call
	ID      string
	Content string
	Failed  bool
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Reasons for which an answer ends.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
)

// Chunk is a piece of an answer. Any of its members may be empty; one chunk with a Finish comes in every complete answer.
type Chunk struct {
	Text      string
	Reasoning string
	ToolCall  *ToolCall
	// ToolResult is the result of a call that the provider has made itself. A call without one in an answer that ends with
	// FinishToolCalls waits for ours.
	ToolResult *ToolResult
	Usage      *Usage
	Finish     string
	Model      string // "provider:name" of the model that answers; in the first chunk
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

package tape

import (
	"context"
	"encoding/json"
	"iter"
)

// View is the context window of a model call.
type View struct {
	Messages    []Message
	First, Last int64 // ids of the first and last entry that the selector was given; 0 when there were none
}

// Message is one chat message in the OpenAI shape.
type Message struct {
	Role string
	JSON json.RawMessage
}

// Selector makes chat messages of entries. It gets the entries from where it wants to start, without those that are
// hidden ("context":false); the same entries give the same messages. What it returns is repaired to be a conversation
// that providers accept.
//
// A selector that does not want to start at the last anchor is a Starter too.
type Selector interface {
	Select(ctx context.Context, entries iter.Seq2[Entry, error]) ([]Message, error)
}

// Starter says where a view starts. The zero Start is the last anchor, that one included, or the whole tape where there
// is none.
type Starter interface{ Start() Start }

// Start is where a view starts.
type Start struct {
	Anchor string // at the latest anchor of this name, that one included
	Whole  bool   // at the first entry
}

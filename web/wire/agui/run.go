package agui

import (
	"strconv"
	"strings"
)

// Run describes a run for its client.
type Run struct {
	Thread string // the client's conversation
	ID     string // the client's name of the run
	Parent string // the run that has asked for it; "" for none
	Of     string // the run of ours, which ids of messages and calls begin with

	// State says that the document is the client's state from the beginning. Otherwise the client's own state is left alone until
	// the document is more than a text.
	State bool
	Texts []string // where bots write text: patterns of package jsonuri
	Notes []Note   // sent in the beginning
	// Before is the conversation before the run, for a client that comes back; nil for a client that has it.
	Before []Message
	// Old reports whether the client is from before 1.0. Such clients stop at newer events and outcomes, so they do not get these.
	Old bool

	// Answered reports whether the question of event n is closed. nil: all questions are open.
	Answered func(n uint64, id string) bool
}

// Note is sent as an event of the type CUSTOM.
type Note struct {
	Name  string
	Value []byte // JSON text
}

// Message is a message of a conversation, as a client stores it.
type Message struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Text  string `json:"content"`
	Calls []Call `json:"toolCalls,omitempty"`
	Call  string `json:"toolCallId,omitempty"` // that it answers, of the role "tool"
}

// Call is the call of a tool, in a message.
type Call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // "function"
	Function Function `json:"function"`
}

// Function is what a call calls.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	Reasoning = "reasoning"
	Tool      = "tool"
	system    = "system"
	developer = "developer"
)

// questionID names a question: the run, the event, and the question's own id. A client that comes back with it gets the events after that one.
func questionID(run string, n uint64, id string) string {
	return run + ":" + strconv.FormatUint(n, 10) + ":" + id
}

// ParseQuestion takes the id of an interrupt apart; false where it is none of ours.
func ParseQuestion(interrupt string) (run string, n uint64, id string, ok bool) {
	run, rest, _ := strings.Cut(interrupt, ":")
	number, id, ok := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(number, 10, 53)
	return run, n, id, ok && err == nil && run != "" && id != ""
}

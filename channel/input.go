package channel

import "time"

// Input is one event in the form that guards and the kernel read.
type Input struct {
	ID        string    // stable on its platform: of the message, or of the event
	Timestamp time.Time // of the platform; zero where it says none
	Synthetic bool      // ID was made from content

	RawText         string // as received
	TextForAgent    string // without the mention, trimmed; "" is RawText
	TextForCommands string // "" is RawText

	// Keys for what is asked before the route is known.
	ConversationID, ThreadID, SenderID string
	GroupID                            string // of an album

	Raw      any // of the adapter that set it
	HasMedia bool
	Parts    []*Input // what was merged to this, in order
}

// EventKind says what sort of event it is.
type EventKind string

// The kinds.
const (
	EventMessage     EventKind = "message"
	EventCommand     EventKind = "command"
	EventInteraction EventKind = "interaction" // a button or a form
	EventReaction    EventKind = "reaction"
	EventLifecycle   EventKind = "lifecycle" // joined, left, renamed, edited
	EventUnknown     EventKind = "unknown"
)

// EventClass is what the stage classify decides about an event.
type EventClass struct {
	Kind                 EventKind
	CanStartAgentTurn    bool
	RequiresImmediateAck bool // the platform is answered before dispatch
}

// MessageClass is the class of a message.
var MessageClass = EventClass{Kind: EventMessage, CanStartAgentTurn: true}

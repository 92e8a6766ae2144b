package turn

import (
	"context"
	"regexp"
	"time"

	"github.com/lingserve/lingserve/tool"
)

// SessionID names a session: UTF-8 of 1–512 bytes without control characters.
type SessionID = string

// State is what the hooks of one turn share. Keys that begin with "_runtime_" are the turn's own and never stored.
type State map[string]any

// Keys that a state begins with.
const (
	KeyWorkspace = "_runtime_workspace" // string: the absolute path of the workspace
	KeySteering  = "_runtime_steering"  // [Inbox]; only in a lane
)

// Kind says what an envelope is; "" is an ordinary message.
type Kind string

// The kinds that are no ordinary message.
const (
	KindCommand Kind = "command" // for the agent's commands, no model is asked
	KindError   Kind = "error"   // tells that a turn has failed
)

// Approver is the highest role of those who can answer in a conversation; None means that no person can.
type Approver struct {
	None bool
	Role tool.Role
}

// Envelope is a message on its way in or out. Envelopes are passed by pointer: what a hook changes, all that come after it see.
type Envelope struct {
	ID            string // the message's, as its channel has it
	SessionID     SessionID
	Channel       string // where it comes from
	ChatID        string // in which conversation of the channel
	OutputChannel string // where replies go; "" is Channel
	Content       string
	Kind          Kind
	Media         []Media
	Context       []Fact // what the channel knows of the message, in order
	Sender        Sender
	Life          Lifespan       // nil for none
	Agent         string         // who is to answer; "" where the envelope names none
	Approver      *Approver      // who of the conversation can answer a question for approval; nil: the reader of the turn
	Timezone      *time.Location // of the dates that the agent reads; nil is UTC
	OwnWords      *string        // what the sender has written, where Content has the words of others too
	// Run is a message's own id, where it has one. A message that is steered has it on the tape, so that one that comes twice is known.
	Run      string
	Repeated bool // a turn with this message may have begun before
	// Resumed says that another process, or this one before a restart, may have begun the turn under the same id. An agent goes on behind what the
	// session's tape has of it.
	Resumed bool
	Extra   map[string]any
}

// Words returns what the sender has written.
func (e *Envelope) Words() string {
	if e.OwnWords != nil {
		return *e.OwnWords
	}
	return e.Content
}

// Fact is one thing that is known of a message. A key that begins with "_" is private: no model sees it.
type Fact struct{ Key, Value string }

// Sender is who wrote a message, from the channel and never from content.
type Sender struct {
	ID, Name string
	Role     tool.Role
	// NoCommands says that what looks like a command is ordinary text when it comes from this sender.
	NoCommands bool
}

// Media is something beside the text.
type Media struct {
	Type string // "image", "audio", "video" or "file"
	MIME string // "image/png"
	Name string // of the file
	URL  string // an address that the model's server may read, or the thing itself as data ("data:image/png;base64,…")
	// Fetch returns the bytes, where URL is empty. It may be called more than once.
	Fetch func(context.Context) ([]byte, error)
}

// Lifespan is something that begins and ends with a turn, such as a typing indicator.
type Lifespan interface {
	Enter(context.Context) error
	Exit(context.Context, error) error // with what the turn failed of; nil where it did not
}

// Reply returns an envelope with this content to where e came from.
func (e *Envelope) Reply(content string) *Envelope {
	return &Envelope{SessionID: e.SessionID, Channel: e.Channel, ChatID: e.ChatID, OutputChannel: e.OutputChannel, Content: content}
}

// IsCommand says whether the envelope is a command: one of kind command, or a message that [CommandName] finds a name in and
// whose sender may use commands. Whether there is such a command, the agent knows.
func (e *Envelope) IsCommand() bool {
	if e.Kind == KindCommand {
		return true
	}
	_, ok := CommandName(e.Content)
	return ok && e.Kind == "" && !e.Sender.NoCommands
}

var command = regexp.MustCompile(`^[,，]([A-Za-z][0-9A-Za-z._-]{0,63})(?:[\s\v\x{85}\p{Z}]|$)`)

// CommandName returns the name of the command that a text has the form of: a comma (the wide one of Chinese and Japanese keyboards
// too), and right behind it a word of letters, digits, ".", "_" and "-" that begins with a letter.
func CommandName(text string) (name string, ok bool) {
	if m := command.FindStringSubmatch(text); m != nil {
		return m[1], true
	}
	return "", false
}

package channel

import (
	"errors"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// ReplyKind is the kind of a block.
type ReplyKind string

// The kinds.
const (
	ReplyTool  ReplyKind = "tool"  // of a tool, a question for approval too
	ReplyBlock ReplyKind = "block" // a part of the answer
	ReplyFinal ReplyKind = "final"
)

// Payload is what a block says.
type Payload struct {
	Text    string
	Media   []MediaFact
	Silent  bool // no one is to be notified
	IsError bool // a notice that something failed
	Upto    int  // bytes of the turn's text that are in this and earlier blocks; 0: the text is none of it
	// Question is the question for approval that a block asks. It is shown exactly, in one message, or the block is not sent.
	Question *Question
	// Decided says what became of a question that was asked before. It is no message: see [Settler].
	Decided *Decided
}

// Question is a question for approval.
type Question struct {
	Turn, ID, Tool string
	Arguments      string // JSON, as people read it
	Text           string // without the commands that answer it: for a channel with buttons. Required
	// File names the file that the arguments go in where they are too long for a message of some platforms. Those send the file and then
	// Text, which names it. The block's text has the arguments all the same. "" is no file.
	File string
	// Failed is called when the question was certainly not delivered; nil is allowed. It must not wait for the turn's deliveries.
	Failed func() `json:"-"`
}

// WithCommands is Text and the commands that answer the question: for a conversation without buttons.
func (q *Question) WithCommands() string {
	return q.Text + "\n\nWrite `" + Press{ID: q.ID, Approve: true}.Command() + "` to approve, or `" + Press{ID: q.ID}.Command() + "` to deny."
}

// Decided is what became of a question for approval.
type Decided struct {
	ID       string // of the question
	Approved bool
	Remember bool   // later calls of the tool in the session are, too
	By       string // who has decided: a name, or the platform's id; "" is no one
	Why      string // why not, if no one has decided
}

// Text is one line for people. by is By as the platform shows it.
func (d Decided) Text(by string) string {
	if d.Why != "" {
		return "Not approved: " + d.Why + "."
	}
	text := "Denied"
	if d.Approved {
		text = "Approved"
	}
	if d.Remember {
		text += " for this session"
	}
	if by != "" {
		text += " by " + by
	}
	return text + "."
}

// Block is one piece of a reply.
type Block struct {
	Kind ReplyKind
	Seq  int
	Payload
	Target ReplyPlanFacts
	Key    string // turn id ":" seq, the same on every attempt
	// Preview is the first receipt of the preview that stands there already: what Deliver edits. nil where none was shown.
	Preview *Receipt `json:",omitempty"`
}

// ReceiptState says what became of a send. The zero value is Sent.
type ReceiptState uint8

// The states.
const (
	Sent           ReceiptState = iota
	Partial                     // some of it was seen
	Suppressed                  // not sent, by decision
	NotSent                     // proven
	UnknownWhether              // it was sent
)

// Receipt is what a platform reports about a send. The zero value is sent, with ids unknown.
type Receipt struct {
	State               ReceiptState
	MessageIDs          []string
	ThreadID, ReplyToID string
}

// Outbound is what the outbox holds.
type Outbound struct {
	Channel, Account string
	TurnID           string
	Session          string `json:",omitempty"` // that is answered in
	Event            string `json:",omitempty"` // the key of the event that is answered; "" where none was accepted
	Conversation     ConversationFacts
	Block            Block
}

var (
	// ErrNoDelivery says that the sink of a dispatch that sends by itself does not deliver.
	ErrNoDelivery = errors.New("channel: this turn's dispatch delivers by itself")
	// ErrDraining is why turns end that the grace period was too short for. It is the one of package turn, so that people read
	// what has happened.
	ErrDraining = turn.ErrDraining
)

// PartialError says that some of a block was seen.
type PartialError struct {
	Receipt Receipt
	Err     error
}

func (e *PartialError) Error() string { return "channel: sent in part: " + e.Err.Error() }

func (e *PartialError) Unwrap() error { return e.Err }

// NotSentError says that a block was not sent, for certain.
type NotSentError struct {
	Err        error
	Retryable  bool
	RetryAfter time.Duration
	Permanent  bool // nothing can be sent there any more: the chat is gone, or the agent was blocked
}

func (e *NotSentError) Error() string { return "channel: not sent: " + e.Err.Error() }

func (e *NotSentError) Unwrap() error { return e.Err }

// TargetName names where a block goes. Blocks of one target keep their order; a thread is a target.
func TargetName(out *Outbound) string {
	target := &out.Block.Target
	return joinParts(out.Channel, out.Account, target.Target(), target.MessageThreadID.Value)
}

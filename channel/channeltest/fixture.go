// Package channeltest is the suite that every channel passes: it runs a channel beside a platform that a test has made, and
// looks at what people there can see and at what the kernel tells of each turn.
package channeltest

import (
	"context"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/kernel"
)

// Fixture is a channel and how it is run beside a fake platform.
type Fixture struct {
	// Start runs the channel with this queue, beside a platform of its own that knows nothing of earlier ones, and returns when
	// events can come. The kernel's settings let everybody talk; in groups they ask for a mention. grace is how long turns may go on
	// when the channel ends; then they are canceled with [channel.ErrDraining].
	Start func(t *testing.T, q *kernel.Queue, grace time.Duration) Platform

	Groups     bool // there are groups, in which the agent can be mentioned
	Redelivers bool // the platform delivers an event again where it is in doubt
	Streams    bool // the channel shows text before a block is finished
	Bubble     bool // the platform is in memory, so that the tests run in bubbles of testing/synctest
}

// Platform is a running channel from outside.
type Platform interface {
	// Send has somebody write a message. It returns when the door has answered the platform, or has taken the event: with an error
	// where the event was refused. It does not wait for the turn. It may be called concurrently.
	Send(context.Context, Message) error
	// Shown is what the messages of the channel say now, the oldest first: edits changed them.
	Shown() []string
	// Writes counts what people could notice so far: messages, edits, signs of typing, reactions, read marks.
	Writes() int
	// Fail decides about the next message that the channel sends. It is false where this platform cannot fail like that.
	Fail(Failure) bool
	// Stop ends the channel and then the platform, as a shutdown does, and waits for both. It is called once; Shown and Writes may
	// be called after it.
	Stop() error
}

// Message is what somebody writes.
type Message struct {
	ID      int    // the same for an event that is delivered again; greater than those of earlier messages
	Text    string // without the mention
	Group   bool   // in the one group, else in a direct conversation with the sender
	Mention bool   // of the agent, by name
	Sender  int    // 0 is 1
	Chat    int    // which direct conversation or group; 0 is 1
}

// Failure is how a send fails.
type Failure int

// The failures.
const (
	FailRefused Failure = iota + 1 // proven: the platform says that nothing was sent, and that it makes no sense to try again
	FailUnknown                    // the platform shows the message, and the connection ends before it says so
	FailPartial                    // of a long text, the first message is shown and the second is refused
)

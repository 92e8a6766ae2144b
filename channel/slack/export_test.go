package slack

import "time"

// SetPace sets the time between two messages in a conversation, for tests that run in real time.
func (c *Channel) SetPace(every time.Duration) { c.every = every }

// StreamText is what is streamed of a text, Head what a preview shows of it.
var (
	StreamText = streamText
	Head       = head
)

package slack

// StreamText is what is streamed of a text.
var StreamText = streamText

package nats

// Lose has the answers lost of which lose says so. It is called before anybody is asked.
func Lose(n *Control, lose func() bool) { n.lose = lose }

// AskAgain is when a request is sent again for the first time.
const AskAgain = askAgain

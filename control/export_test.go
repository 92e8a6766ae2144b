package control

// Lose has the answers lost for which lose returns true. It is called before anything is asked.
func Lose(c *Requests, lose func() bool) { c.lose = lose }

// AskAgain is when a request is sent again for the first time.
const AskAgain = askAgain

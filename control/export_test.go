package control

// Lose has the answers lost for which lose returns true. It is called before anything is asked.
func Lose(c *Requests, lose func() bool) { c.lose = lose }

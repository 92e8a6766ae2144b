package bot

import "bytes"

// writes knows which strings and arrays a bot has open. Deltas come in document order, so these are the arrays on the way
// to the last delta and the string that it appended to: one path, and where on it they end.
type writes struct {
	bot  *ChatBot
	path []byte
	open []int // lengths of the parts of path that are open
	text bool  // the last of them is a string
}

// delta notes a delta at uri.
func (w *writes) delta(uri []byte, appends, array bool) {
	if w.bot.env.Writes == nil || appends && w.text && bytes.Equal(uri, w.path) {
		return
	}
	w.leave(uri)
	w.path = append(w.path[:0], uri...)
	if appends || array {
		w.open, w.text = append(w.open, len(uri)), appends
		w.bot.env.Writes(w.bot, uri, true)
	}
}

// leave closes what uri is not inside of.
func (w *writes) leave(uri []byte) {
	for n := len(w.open); n > 0; n-- {
		end := w.open[n-1]
		if !w.text && len(uri) > end && (end == 0 || uri[end] == '/') && bytes.Equal(uri[:end], w.path[:end]) {
			return
		}
		w.open, w.text = w.open[:n-1], false
		w.bot.env.Writes(w.bot, w.path[:end], false)
	}
}

// close closes everything.
func (w *writes) close() { w.leave(nil) }

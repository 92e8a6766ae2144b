package bot

import (
	"bytes"
	"sync/atomic"
)

// writes knows which strings and arrays a bot has open. Deltas come in document order, so these are the arrays on the way
// to the last delta and the string that it appended to: one path, and where on it they end.
type writes struct {
	bot       *ChatBot
	observer  WriteObserver
	contested *atomic.Bool
	published bool // the observer knows what is open
	path      []byte
	open      []int // lengths of the parts of path that are open
	text      bool  // the last of them is a string
}

// delta notes a delta at uri.
func (w *writes) delta(uri []byte, appends, array bool) {
	if w.observer == nil {
		return
	}
	if !appends || !w.text || !bytes.Equal(uri, w.path) {
		w.leave(uri)
		w.path = append(w.path[:0], uri...)
		if appends || array {
			w.open, w.text = append(w.open, len(uri)), appends
			if w.published {
				w.observer.Open(w.bot, uri)
			}
		}
	}
	if !w.published && w.contested.Load() { // another bot may write there
		w.published = true
		for _, end := range w.open {
			w.observer.Open(w.bot, w.path[:end])
		}
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
		if w.published {
			w.observer.Close(w.bot, w.path[:end])
		}
	}
}

// close closes everything.
func (w *writes) close() {
	if w.observer != nil {
		w.leave(nil)
	}
}

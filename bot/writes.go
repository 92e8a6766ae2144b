package bot

import (
	"bytes"
	"sync/atomic"
)

// writes knows which strings and arrays a bot has open. Deltas come in document order, so these are the arrays on the way
// to the last delta and the string that it appended to: one path, and where on it arrays end.
type writes struct {
	bot       *ChatBot
	observer  WriteObserver
	contested *atomic.Bool
	published bool
	path      []byte
	arrays    []int // lengths of the parts of path that are open arrays
	text      bool  // path is an open string
}

// delta notes a delta at uri.
func (w *writes) delta(uri []byte, appends, array bool) {
	if w.observer == nil {
		return
	}
	if appends && w.text && bytes.Equal(uri, w.path) {
		if !w.published && w.contested.Load() {
			w.publish()
		}
		return
	}
	w.leave(uri)
	w.path = append(w.path[:0], uri...)
	switch {
	case appends:
		w.text = true
	case array:
		w.arrays = append(w.arrays, len(uri))
	}
	switch {
	case !w.published:
		if w.contested.Load() {
			w.publish()
		}
	case appends, array:
		w.observer.Open(w.bot, w.path)
	}
}

// leave closes what uri is not inside of.
func (w *writes) leave(uri []byte) {
	if w.text {
		w.text = false
		if w.published {
			w.observer.Close(w.bot, w.path)
		}
	}
	for n := len(w.arrays); n > 0; n-- {
		end := w.arrays[n-1]
		if len(uri) > end && (end == 0 || uri[end] == '/') && bytes.Equal(uri[:end], w.path[:end]) {
			return
		}
		w.arrays = w.arrays[:n-1]
		if w.published {
			w.observer.Close(w.bot, w.path[:end])
		}
	}
}

// publish tells the observer what is open, once another bot may write there.
func (w *writes) publish() {
	w.published = true
	for _, end := range w.arrays {
		w.observer.Open(w.bot, w.path[:end])
	}
	if w.text {
		w.observer.Open(w.bot, w.path)
	}
}

// close closes everything.
func (w *writes) close() {
	if w.observer != nil {
		w.leave(nil)
	}
}

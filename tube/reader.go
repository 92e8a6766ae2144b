package tube

import "iter"

// Reader is one client's cursor into a tube. It is used from one goroutine.
type Reader struct{}

// Waiting yields the visible events that are in the log now and moves the cursor over each; it does not wait.
// A reader that has fallen out of the log first gets a snapshot: the events that were kept, then the document as a Set at
// the root, numbered as the last event that it holds.
func (r *Reader) Waiting() iter.Seq[Event] { panic("tube: not built yet") }

// More returns a channel that receives, or is closed, when there may be more than the reader has seen. The same channel is
// used again; a caller waits on it together with its contexts and timers, after Waiting has yielded all.
func (r *Reader) More() <-chan struct{} { panic("tube: not built yet") }

// Ended says that the cursor has passed the terminal event.
func (r *Reader) Ended() bool { panic("tube: not built yet") }

// Next returns the number of the next event that the cursor will look at.
func (r *Reader) Next() uint64 { panic("tube: not built yet") }

package tube

import (
	"errors"
	"slices"
	"sync/atomic"
)

// A held tube shows an event to its readers when it is stored, and not before: what they have seen is then never unsaid by the
// end of a machine. What is sent is in the log at once, with its number, and [Tube.Piece] gives it to whoever stores it;
// Reader, Snapshot, Len, Ended, Events and WriteTo know only what [Tube.Show] has shown. What is not shown neither leaves the
// log nor is folded. The log may therefore grow beyond its limit when nothing is stored: then [Tube.Full] says so, and a
// little later Send refuses.

// ErrFull says that more was sent than may wait to be shown: the event was not sent, and no other will be but the end.
var ErrFull = errors.New("tube: too many events wait to be stored")

// held is what a tube has only where it is held. It is guarded by the tube's lock, but for written and full's receiver.
type held struct {
	written atomic.Uint64 // the log's next; the tube's sent is what was shown
	full    chan struct{}
	isFull  bool
	cut     bool   // Send refuses events
	ready   func() // see WhenSent
	waiting bool   // ready is to be called with the next event
}

func newHeld(from uint64) *held {
	h := &held{full: make(chan struct{})}
	h.written.Store(from)
	return h
}

// Held says whether the tube is held.
func (t *Tube) Held() bool { return t.held != nil }

// Show says that the events numbered below n are stored: readers get them. What was shown stays so. A tube that is not held
// shows everything at once, and does nothing here.
func (t *Tube) Show(n uint64) {
	if t.held == nil {
		return
	}
	if size := t.show(n); size > t.max {
		t.trim(size)
	}
}

func (t *Tube) show(n uint64) (size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, t.log.next)
	if n <= t.sent.Load() {
		return 0
	}
	t.sent.Store(n)
	if t.ended && n > t.terminal {
		close(t.done)
	}
	t.wakeAll()
	return t.log.size
}

// Unshown returns how many events wait to be shown.
func (t *Tube) Unshown() uint64 {
	if t.held == nil {
		return 0
	}
	shown := t.sent.Load() // before what was written: there is never less of that
	return t.held.written.Load() - shown
}

// SentReader is NewReader for who works on the run itself: it yields what was sent, also where that is not shown yet. More receives when
// something is shown.
func (t *Tube) SentReader(from uint64) *Reader {
	r := t.reader(from)
	r.sent = true
	return r
}

// Sent is Snapshot of all that was sent, for who works on the run itself.
func (t *Tube) Sent(all bool) (document, reserved []byte) {
	if t.Unshown() == 0 {
		return t.Snapshot(all)
	}
	f := &t.folded
	f.mu.Lock() // nothing leaves the log meanwhile
	defer f.mu.Unlock()
	t.foldUp()
	t.mu.Lock()
	at := f.at
	blocks := slices.Clone(t.log.blocks[min(max(at.seq-t.log.seq, 0), len(t.log.blocks)):])
	t.mu.Unlock()
	d := f.make()
	replay(f.document(all), f.rooted, d)
	for i, b := range blocks {
		if i > 0 {
			at = cursor{seq: at.seq + 1, n: b.first}
		}
		for at.off < len(b.data) {
			if e, _ := at.read(b.data); e.Kind <= Set && (all || !e.Hidden) {
				apply(d, e)
			}
		}
	}
	return d.AppendJSON(nil), d.AppendReserved(nil)
}

// Full is closed when what waits to be shown takes more than MaxBytes, the newest event not counted: the run should be ended.
// A quarter more, and Send returns [ErrFull]. It is nil where the tube is not held, and never open again.
func (t *Tube) Full() <-chan struct{} {
	if t.held == nil {
		return nil
	}
	return t.held.full
}

// WhenSent has ready called when something is sent after Piece has come to the end of the log, once each time, and at once where
// there is something already. It is called with the tube locked, by whoever sends: it must not block, nor use the tube. It is for
// the one who stores a held tube; nil takes it back.
func (t *Tube) WhenSent(ready func()) {
	h := t.held
	if h == nil {
		panic("tube: WhenSent of a tube that is not held")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h.ready, h.waiting = ready, ready != nil
	if h.waiting && t.log.next > t.sent.Load() {
		h.waiting = false
		ready()
	}
}

// heldSent notes that an event is in the log. It is called with the tube locked.
func (t *Tube) heldSent(n uint64) {
	h := t.held
	h.written.Store(n)
	if h.waiting {
		h.waiting = false
		h.ready()
	}
}

// waits returns how many bytes of the log are in blocks that wait to be shown, but for the newest. It is called with the tube locked.
func (t *Tube) waits() (bytes int) {
	shown, last := t.sent.Load(), len(t.log.blocks)-1
	for i := last - 1; i >= 0 && t.log.blocks[i+1].first > shown; i-- {
		bytes += cap(t.log.blocks[i].data)
	}
	return bytes
}

// fill notes when too much waits to be shown; from then on, or a little later, Send refuses.
func (t *Tube) fill() {
	h := t.held
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.waits()
	if n > t.max && !h.isFull {
		h.isFull = true
		close(h.full)
	}
	h.cut = h.cut || n > t.max+t.max/4
}

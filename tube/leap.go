package tube

// Leap numbers the events that follow from n on, which must be more than there were, where the tube goes on. It is for what was
// replayed: those between were sent by a tube that is not there any more, and may have been seen. So all who come back get
// a snapshot, which replaces what they have, and so do those who read. All that was sent must be shown.
func (t *Tube) Leap(n uint64) {
	t.forget()
	f := &t.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &t.log
	if n <= l.next || t.ended {
		return
	}
	// No cursor of before is taken for one into what follows.
	l.seq += len(l.blocks) + 1
	l.blocks, l.size, l.next = nil, 0, n
	f.at, f.rooted = cursor{seq: l.seq, n: n}, true
	t.account()
	t.shown(n, false)
}

// HoldEnd is [Options].HoldEnd for a tube that was replayed and goes on.
func (t *Tube) HoldEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holdEnd = true
}

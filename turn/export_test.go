package turn

// LanesLeft says how many lanes there are, how many submissions wait and how many slots are taken.
func (f *Framework) LanesLeft() (lanes, waiting, running, ready int) {
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lanes), l.waiting, l.slots.Count(), l.ready.Len()
}

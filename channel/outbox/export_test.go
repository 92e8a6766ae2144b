package outbox

// Abandon ends an outbox as the end of its process does: nothing is stored any more.
func (o *Outbox) Abandon(kill func(owner string)) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.r.Stop()
	kill(o.r.Self())
}

// Owner is the name of this process.
func (o *Outbox) Owner() string { return o.r.Self() }

// Late is how many ends are still to be stored.
func (o *Outbox) Late() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.late)
}

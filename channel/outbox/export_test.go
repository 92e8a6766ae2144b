package outbox

import "context"

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

// Records is how many records the table has.
func (o *Outbox) Records(ctx context.Context) (n int, err error) {
	for _, e := range o.r.Table.Range(ctx, "", false) {
		if e != nil {
			return n, e
		}
		n++
	}
	return n, nil
}

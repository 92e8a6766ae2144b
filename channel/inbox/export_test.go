package inbox

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/store"
)

// OpenWith opens an inbox whose clock is the test's.
func OpenWith(ctx context.Context, e store.Engine, now func() time.Time, o Options) (*Inbox, error) {
	o.now = now
	return Open(ctx, e, o)
}

// Abandon ends an inbox as the end of its process does: nothing is stored any more. Its lease, if it has a real one, ends with its cluster.
func (j *Inbox) Abandon(kill func(owner string)) {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.r.Stop()
	if kill != nil {
		kill(j.r.Self())
	}
}

// Owner is the name of this process.
func (j *Inbox) Owner() string { return j.r.Self() }

// Others is how many events of others are known that somebody has claimed.
func (j *Inbox) Others() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.others {
		if o.record.State == claimed {
			n++
		}
	}
	return n
}

// Known counts the keys in the table.
func (j *Inbox) Known(ctx context.Context) (n int, err error) {
	for _, e := range j.r.Table.Range(ctx, "", false) {
		if e != nil {
			return n, e
		}
		n++
	}
	return n, nil
}

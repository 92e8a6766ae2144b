package outbox

import (
	"maps"
	"slices"

	"github.com/lingserve/lingserve/store"
)

// changed takes a change of a block that any process has made.
func (o *Outbox) changed(c store.Change) {
	if c.Gone {
		c.Record = store.Record{Key: c.Key}
	}
	o.take(c.Record, true)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Rev > o.heard {
		o.heard = c.Rev
		close(o.hearing)
		o.hearing = make(chan struct{})
	}
}

// take takes the last record of a block, as it was heard or read; one without a revision says that the block has gone. What was read of a
// block that is not known is from before it was heard that it has gone.
func (o *Outbox) take(rec store.Record, heard bool) {
	r, err := recordOf(rec)
	if err != nil {
		o.o.Log.Error("cannot read the state of a waiting reply", "error", err)
		return
	}
	mine := o.r.Mine(r.Owner)
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.blocks[rec.Key]
	if b == nil && !heard || b != nil && rec.Rev != 0 && b.rev >= rec.Rev {
		return
	}
	switch {
	case r.over():
		if b != nil {
			n := b.record.news(b.id, true)
			n.Left, n.Gone, n.Came = r.Left, true, r.came()
			o.removeLocked(b)
			if o.tell != nil {
				o.tell(n)
			}
		} else if o.tell != nil && rec.Rev != 0 {
			o.tell(r.news(rec.Made, true))
		}
		return
	case mine:
		if b != nil { // a step whose answer did not come
			b.rev, b.record, b.own = rec.Rev, r, true
		}
		return // or a block that is not put in yet
	case b == nil:
		b = &block{key: rec.Key, id: rec.Made, record: r}
		o.addLocked(b)
	}
	b.record, b.rev, b.own = r, rec.Rev, false
	o.tellLocked(b)
	o.r.Wake()
}

// owners returns the owners of the blocks of others.
func (o *Outbox) owners() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string]bool{}
	for _, b := range o.blocks {
		if !b.own {
			all[b.record.Owner] = true
		}
	}
	return all
}

// died tells of the blocks of an owner that is dead.
func (o *Outbox) died(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(o.ids)) {
		if b := o.ids[id]; !b.own && b.record.Owner == owner {
			o.tellLocked(b)
		}
	}
}

func (o *Outbox) renewed() { o.o.Log.Warn("other replicas took over this one's replies") }

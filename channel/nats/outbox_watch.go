package nats

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// follow hears of the blocks of others until the outbox is closed. caught is called when it is known what waits.
func (o *Outbox) follow(caught func()) {
	o.log.keepFollowing(o.end, o.subject("*"), o.hear, caught, func(err error) {
		o.o.Log.Warn("subscription to other replicas' replies broke; retrying", "error", err)
	})
}

// hear takes a step that somebody has taken. Steps are heard in their order.
func (o *Outbox) hear(subject string, m message) {
	o.take(tokenOf(subject), m, true)
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.seq > o.heard {
		o.heard = m.seq
		o.hearing = renew(o.hearing)
	}
}

func (o *Outbox) goneLocked(b *block, n channel.BlockNews, came channel.ReceiptState) {
	o.removeLocked(b)
	n.Gone, n.Came = true, came
	if o.tell != nil {
		o.tell(n)
	}
}

// take takes the last step of a block, as it was heard or read; none says that the block has gone. What was read of a block that is not known
// is from before it was heard that it has gone.
func (o *Outbox) take(token string, m message, heard bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.blocks[token]
	if b != nil {
		b.looked = time.Now()
	}
	if b == nil && !heard || b != nil && m.seq != 0 && b.seq >= m.seq {
		return
	}
	r, err := blockOf(m)
	if err != nil {
		o.o.Log.Error("cannot read the state of a waiting reply", "error", err)
		return
	}
	switch {
	case r.over():
		if b != nil {
			n := b.record.news(true)
			n.Left = r.Left
			o.goneLocked(b, n, r.came())
		} else if o.tell != nil && r.ID != 0 && m.seq != 0 {
			o.tell(r.news(true))
		}
		return
	case o.names[r.Owner]:
		if b != nil { // a step whose answer did not come
			b.seq, b.record, b.own = m.seq, r, true
		}
		return // or a block that is not put in yet
	case b == nil:
		b = &block{token: token, looked: time.Now()}
		o.blocks[token], o.ids[r.ID] = b, b
	}
	b.record, b.seq, b.own = r, m.seq, false
	o.tellLocked(b)
}

// watch does what comes up until the outbox is closed: it looks who is dead, and stores what could not be stored.
func (o *Outbox) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		o.mu.Lock()
		lost := o.lost
		o.mu.Unlock()
		select {
		case <-o.end.Done():
			return
		case <-lost:
			o.reborn()
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(o.end, lookWait)
		o.look(ctx)
		o.check(ctx)
		if o.c.Conn().IsConnected() {
			_ = o.finishAll(ctx) // else another time
		}
		cancel()
	}
}

// look finds out who of the owners of blocks is dead. While the servers are away nobody dies.
func (o *Outbox) look(ctx context.Context) {
	o.mu.Lock()
	all := map[string]bool{}
	for _, b := range o.blocks {
		if !b.own && !o.dead[b.record.Owner] {
			all[b.record.Owner] = true
		}
	}
	o.mu.Unlock()
	for owner := range all {
		if alive, err := o.owners.alive(ctx, owner); err != nil || alive {
			continue
		}
		o.mu.Lock()
		o.dead[owner] = true
		for _, id := range slices.Sorted(maps.Keys(o.ids)) {
			if b := o.ids[id]; !b.own && b.record.Owner == owner {
				o.tellLocked(b)
			}
		}
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.dead) > mostDead {
		left := map[string]bool{}
		for _, b := range o.blocks {
			left[b.record.Owner] = true
		}
		maps.DeleteFunc(o.dead, func(owner string, _ bool) bool { return !left[owner] })
	}
}

// check looks whether blocks of others are there still of which nothing was heard for long.
func (o *Outbox) check(ctx context.Context) {
	o.mu.Lock()
	var old []string
	for token, b := range o.blocks {
		if !b.own && time.Since(b.looked) > checkEvery && len(old) < checkMost {
			old = append(old, token)
		}
	}
	o.mu.Unlock()
	for _, token := range old {
		m, err := o.log.last(ctx, o.subject(token))
		if err != nil {
			return // away; another time
		}
		o.take(token, m, false)
	}
}

// reborn makes this replica an owner again, whose lease was lost: of the blocks whose next step it stores before another one does.
func (o *Outbox) reborn() {
	owner, lost, release, err := o.owners.begin(o.end)
	if err != nil { // it is tried again: lost stays closed
		select {
		case <-time.After(followPause):
		case <-o.end.Done():
		}
		return
	}
	o.mu.Lock()
	old := o.release
	o.owner, o.lost, o.release = owner, lost, release
	o.names[owner] = true
	o.mu.Unlock()
	old()
	o.o.Log.Warn("other replicas took over this one's replies")
}
